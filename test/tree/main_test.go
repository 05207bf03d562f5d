package tree

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes the root of the repository the working directory, so that paths are those of the papers.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
