package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// text is what a value may contain, and what may be quoted of it.
type text int

const (
	plainText  text = iota
	secretText      // ${NAME} is replaced, and the value is never quoted
	secretURL       // the same, for a URL with a password somewhere in it
)

// input is the text of one value, and where relative paths in it start.
type input struct {
	items []string // one, unless the shape is another
	base  string
	home  string
	fail  func(item int, err error) // item is -1 for the value as a whole
}

func (in *input) value() string { return in.items[0] }

// path makes a path absolute: ~/ is the home directory, the rest starts where
// the file is.
func (in *input) path() (string, error) {
	s := in.value()
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "", errors.New("has a NUL character in a path")
	case s == "~" || strings.HasPrefix(s, "~/"):
		if in.home == "" {
			return "", fmt.Errorf("%s needs a home directory and $HOME names none", quote(s))
		}
		return filepath.Join(in.home, s[1:]), nil
	case strings.HasPrefix(s, "~"):
		return "", fmt.Errorf("%s names another user's home; write the whole path", quote(s))
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	abs, err := filepath.Abs(filepath.Join(in.base, s))
	if err != nil {
		return "", fmt.Errorf("%s is relative, and the working directory is not known", quote(s))
	}
	return abs, nil
}
