package main

import (
	"os"
	"testing"
)

// TestEachMechanismCanBeLeftOut: the text that leaves a mechanism out follows the sources.
func TestEachMechanismCanBeLeftOut(t *testing.T) {
	if err := os.Chdir(".."); err != nil {
		t.Fatal(err)
	}
	for i := range mechanisms[1:] {
		if _, _, err := mechanisms[1+i].changed(); err != nil {
			t.Error(err)
		}
	}
}
