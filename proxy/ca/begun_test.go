package ca

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory with the key alone has begun a CA, which no other one takes the place of.
func TestBegun(t *testing.T) {
	dir := t.TempDir()
	if Begun(dir) || Begun(filepath.Join(dir, "more")) {
		t.Error("there is nothing")
	}
	if _, err := Open(dir, Options{}); err != nil || !Begun(dir) {
		t.Error(err)
	}
	for _, name := range []string{"ca.pem", "ca-key.pem"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil || !Begun(dir) {
			t.Error(name, err)
		}
	}
}
