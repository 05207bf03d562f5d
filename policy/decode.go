package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// aliasVisits bounds what the aliases of a file may expand to.
const aliasVisits = 100_000

// decoder turns one YAML document into a Policy and notes every fault on the
// way. It goes through nodes rather than into structs, since only a node has its
// line, its anchor and its quotes.
type decoder struct {
	*loading
	policy *Policy
	source string

	within  []*yaml.Node // anchored nodes that are being read, to find cycles
	aliases int          // how many of them were entered through an alias
	visits  int          // nodes seen through aliases
	stopped bool

	pooled []reference
}

// reader reads the value of a key: the node, and the dotted path that faults name.
type reader func(n *yaml.Node, path string)

// value is how the value of a key is read, and what the JSON Schema says of it. Both are
// written at one place, so that the schema has what is read.
type value struct {
	read   reader
	schema func() node
}

// field is one key of a mapping, and a sentence about it.
type field struct {
	name, doc string
	value
	needed bool
}

// optional is a key that may be left out.
func optional(name, doc string, v value) field { return field{name: name, doc: doc, value: v} }

// required is a key that its mapping needs.
func required(name, doc string, v value) field {
	return field{name: name, doc: doc, value: v, needed: true}
}

func (d *decoder) fail(n *yaml.Node, path string, err error) {
	d.loading.fail(Fault{Source: d.source, Line: n.Line, Key: path, Text: err.Error()})
}

func (d *decoder) failf(n *yaml.Node, path, format string, args ...any) {
	d.fail(n, path, fmt.Errorf(format, args...))
}

// enter resolves an alias and refuses what no value may be. The caller calls
// leave when it is done with the node.
func (d *decoder) enter(n *yaml.Node, path string) (real *yaml.Node, leave func(), ok bool) {
	leave = func() {}
	if d.stopped || d.full() {
		return nil, leave, false
	}
	alias := n.Kind == yaml.AliasNode
	if alias || d.aliases > 0 {
		if d.visits++; d.visits > aliasVisits {
			d.stopped = true
			d.failf(n, path, "expands to more than %d values through its aliases", aliasVisits)
			return nil, leave, false
		}
	}
	if alias {
		if slices.Contains(d.within, n.Alias) {
			d.failf(n, path, "is an alias of what it is part of")
			return nil, leave, false
		}
		n = n.Alias
		d.aliases++
	}
	if n.Anchor != "" {
		d.within = append(d.within, n)
	}
	anchored := n.Anchor != ""
	leave = func() {
		if anchored {
			d.within = d.within[:len(d.within)-1]
		}
		if alias {
			d.aliases--
		}
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.failf(n, path, "has a tag such as !!int; write the value alone")
		leave()
		return nil, func() {}, false
	}
	return n, leave, true
}

// mapping reads the keys of a mapping, each at most once, and reports those that are missing.
func (d *decoder) mapping(n *yaml.Node, path string, fields ...field) (set map[string]*yaml.Node) {
	set = map[string]*yaml.Node{}
	private := slices.ContainsFunc(fields, func(f field) bool { return f.name == "secret" })
	d.each(n, path, private, func(key, value *yaml.Node, name, path string) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			d.unknown(key, path, name, fields, private)
			return
		}
		set[name] = value
		fields[i].read(value, path)
	})
	for _, f := range fields {
		if f.needed && set[f.name] == nil && isMapping(n) {
			d.failf(n, path, "needs %s", f.name)
		}
	}
	return set
}

// each calls f for every key of a mapping whose keys are text and differ. Keys of
// a private mapping are not told: what was mistaken for one may be a secret.
func (d *decoder) each(n *yaml.Node, path string, private bool, f func(key, value *yaml.Node, name, path string)) {
	at := n
	n, leave, ok := d.enter(n, path)
	defer leave()
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.failf(at, path, "takes keys with values, not %s", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind == yaml.ScalarNode && key.Style == 0 && key.Value == "<<":
			d.failf(key, path, "has a merge key (<<); write the keys out")
			continue
		case key.Kind != yaml.ScalarNode:
			d.failf(key, path, "has a key that is %s", kindOf(key))
			continue
		case key.Style&yaml.TaggedStyle != 0:
			d.failf(key, path, "has a key with a tag such as !!str; write the key alone")
			continue
		}
		name := unbrace.Replace(key.Value)
		inner := join(path, name)
		if first, twice := seen[name]; twice {
			if private {
				inner = path
			}
			d.failf(key, inner, "is written twice, first in line %d", first)
			continue
		}
		seen[name] = key.Line
		f(key, value, name, inner)
		if d.stopped {
			return
		}
	}
}

func (d *decoder) unknown(key *yaml.Node, path, name string, fields []field, private bool) {
	if digits(name) && !private {
		d.failf(key, path, "is not a key; a comma inside of braces ends a value, so write 10000 or 10_000 and not 10,000")
		return
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	hint := didYouMean(name, names)
	if hint == "" && !private {
		for _, s := range settings() {
			if s.Name == name || strings.HasSuffix(s.Name, "."+name) {
				hint = `; did you mean "` + s.Name + `"?`
				break
			}
		}
	}
	if hint == "" && private {
		outer, _, _ := cutLast(path, ".")
		d.failf(key, outer, "has a key that is none of %s", strings.Join(names, ", "))
		return
	}
	if hint == "" && len(fields) <= 13 {
		hint = "; there are " + strings.Join(names, ", ")
	}
	d.failf(key, path, "is not a key%s", hint)
}

// list reads the elements of a sequence; a value alone counts as one.
func (d *decoder) list(n *yaml.Node, path string, f func(i int, n *yaml.Node, path string)) {
	real, leave, ok := d.enter(n, path)
	defer leave()
	switch {
	case !ok:
	case real.Kind == yaml.SequenceNode:
		for i, one := range real.Content {
			f(i, one, fmt.Sprintf("%s[%d]", path, i))
			if d.stopped {
				return
			}
		}
	default:
		f(0, real, path)
	}
}

// sequence is list for what must be written as one.
func (d *decoder) sequence(n *yaml.Node, path string, f func(i int, n *yaml.Node, path string)) {
	real, leave, ok := d.enter(n, path)
	leave()
	if ok && real.Kind != yaml.SequenceNode {
		d.failf(n, path, "takes a list, not %s", kindOf(real))
		return
	}
	if ok {
		d.list(n, path, f)
	}
}

// scalar is the text of a single value. Only a secret may refer to variables.
func (d *decoder) scalar(n *yaml.Node, path string, kind text) (string, bool) {
	real, leave, ok := d.enter(n, path)
	defer leave()
	switch {
	case !ok:
		return "", false
	case bracesAlone(real):
		d.failf(n, path, `takes a single value; quote one that has braces, such as "{token}"`)
		return "", false
	case real.Kind != yaml.ScalarNode:
		d.failf(n, path, "takes a single value, not %s", kindOf(real))
		return "", false
	case real.Tag == "!!null" && real.Style == 0:
		d.fail(n, path, errors.New(`has no value; leave the key out, or write "" where nothing is meant`))
		return "", false
	}
	text := unbrace.Replace(real.Value)
	if kind != plainText {
		expanded, err := d.expand(text, kind)
		if err != nil {
			d.fail(n, path, err)
			return "", false
		}
		return expanded, true
	}
	if strings.Contains(text, "${") {
		d.failf(n, path, "has a ${…}, which is replaced in secrets only")
		return "", false
	}
	return text, true
}

func join(path, name string) string {
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}

// bracesAlone tells whether a mapping is {word}, which was meant as a text.
func bracesAlone(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) == 2 && n.Content[1].Tag == "!!null"
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return "a single value"
}

// reference is where a rule names a pool, which may come later in the file.
type reference struct {
	name string
	node *yaml.Node
	path string
}

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
