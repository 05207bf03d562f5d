package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The papers for who changes the code name files and folders, which move.
func TestThePapersNameWhatIsThere(t *testing.T) {
	for _, paper := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		names := 0
		for _, name := range regexp.MustCompile("`([a-z0-9_]+(?:/[a-z0-9_]+)*(?:/|\\.(?:go|md|json|yaml)))`").FindAllStringSubmatch(string(read(t, paper)), -1) {
			names++
			if _, err := os.Stat(filepath.Join(root, name[1])); err != nil {
				t.Errorf("%s names %s: %v", paper, name[1], err)
			}
		}
		if names < 10 {
			t.Errorf("%s names only %d files and folders, as far as this test sees", paper, names)
		}
	}
}

// The guides name the tests that hold what they say.
func TestTheGuidesNameTestsThatThereAre(t *testing.T) {
	tests := map[string]bool{}
	for _, path := range tree(t, "_test.go") {
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(read(t, path), -1) {
			tests[string(name[1])] = true
		}
	}
	names := 0
	for _, guide := range tree(t, ".md") {
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(read(t, guide), -1) {
			names++
			if !tests[string(name[1])] {
				t.Errorf("%s names %s, and there is no such test", guide, name[1])
			}
		}
	}
	if names < 10 {
		t.Errorf("the guides name only %d tests, as far as this test sees", names)
	}
}

func TestTheArchitectureHasEveryPackage(t *testing.T) {
	page := read(t, "ARCHITECTURE.md")
	if n := bytes.Count(page, []byte("\n")); n > 110 {
		t.Errorf("ARCHITECTURE.md has %d lines, more than 110", n)
	}
	for name := range imports(t, false) {
		// A package stands with its path, or with its last name in the row of its room.
		if last := name[strings.LastIndex(name, "/")+1:]; !bytes.Contains(page, []byte("`"+name+"`")) && !bytes.Contains(page, []byte("`"+last+"`")) {
			t.Errorf("ARCHITECTURE.md does not name %s", name)
		}
	}
}
