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

// parsed reads a single value with one of the parsers of values. What cannot be parsed
// leaves to as it is.
func parsed[T any](d *decoder, to *T, parse func(string) (T, error), schema func() node) value {
	return value{func(n *yaml.Node, path string) {
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
	}, schema}
}

// listed reads a list that is not empty, each element with the reader that element
// makes for it.
func listed[T any](d *decoder, to *[]T, element func(to *T) value) value {
	return value{func(n *yaml.Node, path string) {
		d.list(n, path, func(_ int, n *yaml.Node, path string) {
			var one T
			element(&one).read(n, path)
			*to = append(*to, one)
		})
		if isEmpty(n) {
			d.failf(n, path, "is empty")
		}
	}, func() node {
		item := element(new(T)).schema()
		return eitherNode(item, sequenceNode(item, 1))
	}}
}

func (d *decoder) truth(to *bool) value { return parsed(d, to, parseSwitch, switchNode) }

func (d *decoder) label(to *string) value { return parsed(d, to, parseLabel, filledNode) }

func (d *decoder) word(to *string, words ...string) value {
	parse := func(s string) (string, error) { return parseWord(s, words...) }
	return parsed(d, to, parse, func() node { return wordNode(words...) })
}

func (d *decoder) number(to *int, least, most int64) value {
	return parsed(d, to, func(s string) (int, error) {
		n, err := parseCount(s, least, most)
		return int(n), err
	}, func() node { return countNode(least, most) })
}

// secret reads a secret, in which ${NAME} is replaced.
func (d *decoder) secret(to *Secret) value {
	return value{func(n *yaml.Node, path string) {
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
	}, secretNode}
}

// file reads a path that starts where the configuration is.
func (d *decoder) file(to *string) value {
	return parsed(d, to, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("is empty")
		}
		in := input{items: []string{s}, base: d.base, home: d.home}
		return in.path()
	}, filledNode)
}
