package records

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path leads to a part of a JSON value. The package comment has its syntax. The zero value
// leads to the value itself.
type Path struct {
	text  string
	steps []string
}

// ParsePath reads a path.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	for rest := text; rest != ""; {
		step, left, err := cutStep(rest)
		if err != nil {
			return Path{}, fmt.Errorf("the path %q: %w", text, err)
		}
		p.steps = append(p.steps, step)
		switch {
		case left == "" || left[0] == '[':
		case left == "." || left[0] != '.':
			return Path{}, fmt.Errorf("the path %q: write a \".\" and a name after %q", text, strings.TrimSuffix(text, left))
		default:
			left = left[1:]
		}
		rest = left
	}
	return p, nil
}

// cutStep is the first step of a path, and what follows.
func cutStep(text string) (step, rest string, err error) {
	inside, bracket := strings.CutPrefix(text, "[")
	switch {
	case strings.HasPrefix(inside, `"`):
		d := json.NewDecoder(strings.NewReader(inside))
		if err := d.Decode(&step); err != nil {
			return "", "", fmt.Errorf("%q is no text in quotes", inside)
		}
		rest = inside[d.InputOffset():]
	case bracket:
		i := strings.IndexByte(inside, ']')
		if i < 0 {
			return "", "", fmt.Errorf("%q has no \"]\"", text)
		}
		step, rest = inside[:i], inside[i:]
		if _, err := strconv.Atoi(step); err != nil {
			return "", "", fmt.Errorf("write a number or a name in quotes in place of %q", step)
		}
	default:
		i := strings.IndexAny(text, `.[]"`)
		if i < 0 {
			i = len(text)
		}
		step, rest = text[:i], text[i:]
		if step == "" {
			return "", "", fmt.Errorf("write a name at %q, in quotes if it has dots, brackets or quotes", text)
		}
	}
	if bracket {
		left, closed := strings.CutPrefix(rest, "]")
		if !closed {
			return "", "", fmt.Errorf("%q has no \"]\"", text)
		}
		rest = left
	}
	return step, rest, nil
}

func (p Path) String() string { return p.text }
