package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is there and has nothing has lost what it had, whatever took that: it is said
// and set aside, and refused where state is strict. One that was being made is not.
func TestAFileThatIsEmptyIsNotTakenForANewOne(t *testing.T) {
	from := newPath(t)
	f := openFile(t, from, FileOptions{})
	say(t, f, counts("s", "k", 1, 1))
	f.done.Wait()
	withoutLog, err := os.ReadFile(from) // nothing was written from the log into it yet
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(from + makingSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is made: %v", err)
	}
	f.Close()
	for name, data := range map[string][]byte{"no byte": {}, "without its log": withoutLog} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			put := func() {
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put()
			if _, err := OpenFile(t.Context(), path, FileOptions{Strict: true}); err == nil || !strings.Contains(err.Error(), "it is empty; restore a copy") {
				t.Errorf("strict: %v", err)
			}
			if err := InspectFile(path, true); len(data) == 0 && err == nil {
				t.Error("a check finds nothing")
			}
			f := openFile(t, path, FileOptions{})
			if d := f.Damage(); d.Files != 1 || !strings.Contains(d.Why, "it is empty") || len(lines(f)) != 1 {
				t.Errorf("%+v, %v", d, lines(f))
			}
			f.Close()

			clear(t, filepath.Dir(path)) // one whose making was cut short
			put()
			if err := os.WriteFile(path+makingSuffix, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f = openFile(t, path, FileOptions{Strict: true})
			if len(lines(f)) > 0 {
				t.Error(lines(f))
			}
			f.Close()
			if isBeingMade(path) {
				t.Error("it is still being made")
			}
		})
	}
	path := newPath(t)
	if f := openFile(t, path, FileOptions{Strict: true}); len(lines(f)) > 0 || isBeingMade(path) {
		t.Errorf("a new one: %v", lines(f))
	}
}
