package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Intercept configures which https is opened to see its requests.
type Intercept struct {
	Mode     string // auto | all | none | listed
	Patterns []Pattern
}

// read reads intercept: a mode, or patterns of hosts.
func (c *Intercept) read(in *input) {
	modes := []string{"auto", "all", "none"}
	switch {
	case len(in.items) == 0:
		in.fail(-1, errors.New("is an empty list; write none"))
		return
	case len(in.items) == 1 && slices.Contains(modes, in.value()):
		*c = Intercept{Mode: in.value()}
		return
	}
	var covered cover
	listed := Intercept{Mode: "listed"}
	for i, s := range in.items {
		if slices.Contains(modes, s) {
			in.fail(i, fmt.Errorf("%s stands alone, not in a list", s))
			continue
		}
		pattern, err := parsePattern(s)
		if err == nil && len(in.items) == 1 && strings.IndexByte(s, '.') < 0 && nearest(s, modes) != "" {
			err = fmt.Errorf("%s is none of %s, nor a list of hosts%s", quote(s), strings.Join(modes, ", "), didYouMean(s, modes))
		}
		if err != nil {
			in.fail(i, err)
			continue
		}
		if by, ok := covered.by(pattern); ok {
			in.fail(i, fmt.Errorf("%s is covered by %s already", pattern, listed.Patterns[by]))
			continue
		}
		covered.add(pattern, len(listed.Patterns))
		listed.Patterns = append(listed.Patterns, pattern)
	}
	*c = listed
}

// text is the mode, or the patterns, as it would be written.
func (c *Intercept) text() string {
	if c.Mode != "listed" {
		return c.Mode
	}
	var words []string
	for _, one := range c.Patterns {
		words = append(words, one.String())
	}
	return strings.Join(words, ", ")
}

// interceptNode is the schema of intercept.
func interceptNode() node {
	return eitherNode(wordNode("auto", "all", "none"), hostNode(), sequenceNode(hostNode(), 1))
}
