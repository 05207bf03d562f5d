package tree

import (
	"os"
	"path/filepath"
)

// root is the folder of the repository. Tests name files from there, and do not work there: a test
// whose folder changes before it begins is answered from the cache although a file was changed.
var root = func() string {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Join(here, "..", "..")
}()
