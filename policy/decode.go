package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// Decoder reads one YAML document and notes every fault on the way. It goes through nodes rather
// than into structs, since only a node has its line, its anchor and its quotes. The zero value
// makes the schema of what it would read.
type Decoder struct {
	loading *loading
	policy  *Policy
	outside string // the variable or flag that is read, "" for the document

	pooled []reference // to pools
	ruled  []reference // to rules
}

// reference is the name of a pool or a rule, which may come later in the file.
type reference struct {
	name string
	node *yaml.Node
	path string
}

// ReadDocument reads one YAML document that is not a configuration, such as a job file. Relative
// paths in the document start at base. The root is nil if the document is empty. The faults are
// those of the syntax and those that read reports.
func ReadDocument(src Source, base string, read func(d *Decoder, root *yaml.Node)) Faults {
	l := newLoading(src)
	l.base = base
	if root, ok := l.parse(src.Data); ok {
		read(&Decoder{loading: l, policy: &Policy{}}, root)
	}
	return l.sorted()
}

// Fail reports a fault of a node.
func (d *Decoder) Fail(n *yaml.Node, path string, err error) {
	place := d.place(n, path)
	place.Text = err.Error()
	d.loading.fail(place)
}

// place returns where a value is set.
func (d *Decoder) place(n *yaml.Node, path string) Fault {
	return Fault{Source: cmp.Or(d.outside, d.loading.name), Line: n.Line, Key: path}
}

// Failf reports a fault of a node.
func (d *Decoder) Failf(n *yaml.Node, path, format string, args ...any) {
	d.Fail(n, path, fmt.Errorf(format, args...))
}

// legal refuses what no value may be.
func (d *Decoder) legal(n *yaml.Node, path string) bool {
	tagged := n.Style&yaml.TaggedStyle != 0
	if tagged {
		d.Failf(n, path, "has a tag such as !!int; write the value alone")
	}
	return !tagged && !d.loading.full()
}

// Mapping reads the keys of a mapping, each at most once, and reports those that are missing.
func (d *Decoder) Mapping(n *yaml.Node, path string, fields ...Field) (set map[string]*yaml.Node) {
	set = map[string]*yaml.Node{}
	private := slices.ContainsFunc(fields, func(f Field) bool { return f.name == "secret" })
	d.Each(n, path, private, func(key, value *yaml.Node, name, path string) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.name == name })
		if i < 0 {
			d.unknown(key, path, name, fields, private)
			return
		}
		set[name] = value
		fields[i].Read(value, path)
	})
	for _, f := range fields {
		if f.needed && set[f.name] == nil && IsMapping(n) {
			d.Failf(n, path, "needs %s", f.name)
		}
	}
	return set
}

// Each calls f for every key of a mapping whose keys are text and differ. Keys of
// a private mapping are not told: what was mistaken for one may be a secret.
func (d *Decoder) Each(n *yaml.Node, path string, private bool, f func(key, value *yaml.Node, name, path string)) {
	if !d.legal(n, path) {
		return
	}
	if !IsMapping(n) {
		d.Failf(n, path, "takes keys with values, not %s", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind == yaml.ScalarNode && key.Style == 0 && key.Value == "<<":
			d.Failf(key, path, "has a merge key (<<); write the keys out")
			continue
		case key.Kind != yaml.ScalarNode:
			d.Failf(key, path, "has a key that is %s", kindOf(key))
			continue
		case key.Style&yaml.TaggedStyle != 0:
			d.Failf(key, path, "has a key with a tag such as !!str; write the key alone")
			continue
		}
		name := unbrace.Replace(key.Value)
		inner := join(path, name)
		if first, twice := seen[name]; twice {
			if private {
				inner = path
			}
			d.Failf(key, inner, "is written twice, first in line %d", first)
			continue
		}
		seen[name] = key.Line
		f(key, value, name, inner)
	}
}

func (d *Decoder) unknown(key *yaml.Node, path, name string, fields []Field, private bool) {
	if digits(name) && !private {
		d.Failf(key, path, "is not a key; a comma inside of braces ends a value, so write 10000 or 10_000 and not 10,000")
		return
	}
	names := lists.Map(fields, func(f Field) string { return f.name })
	hint := DidYouMean(name, names)
	if hint == "" && !private {
		for _, s := range d.policy.settings() {
			if strings.HasPrefix(s.Name+".", name+".") {
				hint = "; it stands at the top of the file"
			} else if hint == "" && strings.HasSuffix(s.Name, "."+name) {
				hint = `; did you mean "` + s.Name + `"?`
			}
		}
	}
	if hint == "" && private {
		outer, _, _ := cutLast(path, ".")
		d.Failf(key, outer, "has a key that is none of %s", strings.Join(names, ", "))
		return
	}
	if hint == "" && len(fields) <= 13 {
		hint = "; there are " + strings.Join(names, ", ")
	}
	d.Failf(key, path, "is not a key%s", hint)
}

// List reads the elements of a sequence; a value alone counts as one.
func (d *Decoder) List(n *yaml.Node, path string, f func(i int, n *yaml.Node, path string)) {
	switch {
	case !d.legal(n, path):
	case n.Kind == yaml.SequenceNode:
		for i, one := range n.Content {
			f(i, one, fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		f(0, n, path)
	}
}

// Sequence reads the elements of what must be written as a list.
func (d *Decoder) Sequence(n *yaml.Node, path string, f func(i int, n *yaml.Node, path string)) {
	if n.Kind == yaml.SequenceNode {
		d.List(n, path, f)
	} else if d.legal(n, path) {
		d.Failf(n, path, "takes a list, not %s", kindOf(n))
	}
}

// Scalar returns the text of a single value. Only a secret may refer to variables.
func (d *Decoder) Scalar(n *yaml.Node, path string, kind TextKind) (string, bool) {
	switch {
	case !d.legal(n, path):
		return "", false
	case IsMapping(n) && n.Style&yaml.FlowStyle != 0 && len(n.Content) == 2 && n.Content[1].Tag == "!!null": // {word}, meant as a text
		d.Failf(n, path, `takes a single value; quote one that has braces, such as "{token}"`)
		return "", false
	case !IsScalar(n):
		d.Failf(n, path, "takes a single value, not %s", kindOf(n))
		return "", false
	case n.Tag == "!!null" && n.Style == 0:
		d.Fail(n, path, errors.New(`has no value; leave the key out, or write "" where nothing is meant`))
		return "", false
	}
	text := unbrace.Replace(n.Value)
	if d.outside != "" {
		return text, true
	}
	if kind != PlainText {
		expanded, err := d.loading.expand(text, kind)
		if err != nil {
			d.Fail(n, path, err)
			return "", false
		}
		return expanded, true
	}
	if strings.Contains(text, "${") {
		d.Failf(n, path, "has a ${…}, which is replaced in secrets only")
		return "", false
	}
	return text, true
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+clip(name), ".") }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// IsScalar tells whether a node is a single value.
func IsScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode }

// IsMapping tells whether a node has keys.
func IsMapping(n *yaml.Node) bool { return n.Kind == yaml.MappingNode }

// IsEmptyList tells whether a node is an empty list.
func IsEmptyList(n *yaml.Node) bool { return n.Kind == yaml.SequenceNode && len(n.Content) == 0 }

// below returns the node at a place such as headers[0].name in another one, or the last that there
// is on the way.
func below(n *yaml.Node, place string) *yaml.Node {
	for _, step := range strings.FieldsFunc(place, func(c rune) bool { return strings.ContainsRune(".[]", c) }) {
		real := n
		for i, one := range real.Content {
			switch {
			case real.Kind == yaml.SequenceNode && strconv.Itoa(i) == step:
				n = one
			case real.Kind == yaml.MappingNode && i%2 == 0 && one.Value == step:
				n = real.Content[i+1]
			}
		}
	}
	return n
}
