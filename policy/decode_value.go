package policy

import (
	"errors"
	"strings"

	"gopkg.in/yaml.v3"
)

// isScalar tells whether a node, or the node behind its alias, is a single value.
func isScalar(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode
}

// isMapping tells whether a node, or the node behind its alias, has keys.
func isMapping(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.MappingNode
}

// isEmpty tells whether a node, or the node behind its alias, is an empty list.
func isEmpty(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

// need reports keys that are missing from a mapping that could be read.
func (d *decoder) need(n *yaml.Node, path string, set map[string]*yaml.Node, names ...string) {
	if !isMapping(n) {
		return
	}
	for _, name := range names {
		if set[name] == nil {
			d.failf(n, path, "needs %s", name)
		}
	}
}

// parsed reads a single value with one of the parsers of values. What cannot be parsed
// leaves to as it is.
func parsed[T any](d *decoder, to *T, parse func(string) (T, error)) reader {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		v, err := parse(s)
		if err != nil {
			d.fail(n, path, err)
			return
		}
		*to = v
	}
}

// listed reads a list that is not empty, each element with the reader that element
// makes for it.
func listed[T any](d *decoder, to *[]T, element func(to *T) reader) reader {
	return func(n *yaml.Node, path string) {
		d.list(n, path, func(_ int, n *yaml.Node, path string) {
			var one T
			element(&one)(n, path)
			*to = append(*to, one)
		})
		if isEmpty(n) {
			d.failf(n, path, "is empty")
		}
	}
}

func (d *decoder) truth(to *bool) reader { return parsed(d, to, parseSwitch) }

func (d *decoder) label(to *string) reader { return parsed(d, to, parseLabel) }

func (d *decoder) word(to *string, words ...string) reader {
	return parsed(d, to, func(s string) (string, error) { return parseWord(s, words...) })
}

func (d *decoder) number(to *int, least, most int64) reader {
	return parsed(d, to, func(s string) (int, error) {
		n, err := parseCount(s, least, most)
		return int(n), err
	})
}

// secret reads a secret, in which ${NAME} is replaced.
func (d *decoder) secret(to *Secret) reader {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, secretText)
		switch {
		case !ok:
		case s == "":
			d.failf(n, path, "is empty")
		case strings.ContainsAny(s, "\r\n\x00"):
			d.failf(n, path, "has a line break, which no header can carry")
		default:
			*to = NewSecret(s)
		}
	}
}

// file reads a path that starts where the configuration is.
func (d *decoder) file(to *string) reader {
	return parsed(d, to, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("is empty")
		}
		in := input{items: []string{s}, base: d.base, home: d.home}
		return in.path()
	})
}
