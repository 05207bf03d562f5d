package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Reader reads the value of a key: the node, and the dotted path that faults name.
type Reader func(n *yaml.Node, path string)

// Value has a function that reads the value of a key, one that describes the value in a JSON
// Schema, and a pointer to what is read. All are written at one place, so that what is read is in
// the schema, can be written again and compared.
type Value struct {
	Read   Reader
	Schema func() Node
	to     any
}

// NewValue returns the value that read reads and schema describes.
func NewValue(read Reader, schema func() Node) Value { return Value{Read: read, Schema: schema} }

// into returns the value with a pointer to what it sets, or with both.
func (v Value) into(to any) Value {
	v.to = to
	return v
}

// Field is one key of a mapping, and a sentence about it. says has sentences about the value that
// the field points to.
type Field struct {
	name, doc string
	Value
	needed bool
	says   []string
}

// saying returns the field with sentences about its value. Those that are empty are left out.
func (f Field) saying(sentences ...string) Field {
	f.says = append(f.says, given(sentences...)...)
	return f
}

// Optional returns a key that may be left out.
func Optional(name, doc string, v Value) Field { return Field{name: name, doc: doc, Value: v} }

// Required returns a key that its mapping needs.
func Required(name, doc string, v Value) Field {
	return Field{name: name, doc: doc, Value: v, needed: true}
}

// noted reads a value and remembers where its key was set. key "": its path.
func (d *Decoder) noted(key string, v Value) Value {
	return NewValue(func(n *yaml.Node, path string) {
		d.loading.places[cmp.Or(key, path)] = d.place(n, path)
		v.Read(n, path)
	}, v.Schema).into(v.to)
}

// unlike refuses a name that an earlier value has, by the lines of the names.
func (d *Decoder) unlike(earlier map[string]int, name *string, v Value) Value {
	return NewValue(func(n *yaml.Node, path string) {
		*name = ""
		v.Read(n, path)
		if line, twice := earlier[*name]; twice && *name != "" {
			d.Failf(n, path, "is the name of line %d already", line)
			return
		}
		earlier[*name] = n.Line
	}, v.Schema).into(name)
}

// Truth reads true or false.
func (d *Decoder) Truth(to *bool) Value { return Parsed(d, to, parseSwitch, switchNode) }

// Label reads a text that is shown.
func (d *Decoder) Label(to *string) Value { return Parsed(d, to, parseLabel, FilledNode) }

// reference is the value of a name that is checked when all is read.
func (d *Decoder) reference(name *string, references *[]reference) Value {
	return NewValue(func(n *yaml.Node, path string) {
		d.Label(name).Read(n, path)
		*references = append(*references, reference{*name, n, path})
	}, FilledNode).into(name)
}

// Matching reads a text of a form. refusal says what is wrong with any other.
func (d *Decoder) Matching(to *string, form *regexp.Regexp, refusal string) Value {
	return Parsed(d, to, func(s string) (string, error) {
		if !form.MatchString(s) {
			return "", errors.New(refusal)
		}
		return s, nil
	}, func() Node { return PatternNode(form.String()) })
}

// Word reads one of some words.
func Word[T ~string](d *Decoder, to *T, words ...string) Value {
	parse := func(s string) (T, error) {
		word, err := ParseWord(s, words...)
		return T(word), err
	}
	return Parsed(d, to, parse, func() Node { return WordNode(words...) })
}

// Number reads a whole number.
func (d *Decoder) Number(to *int, least, most int64) Value {
	return Parsed(d, to, func(s string) (int, error) {
		n, err := parseCount(s, least, most)
		return int(n), err
	}, func() Node { return countNode(least, most) })
}

// Secret reads a secret, in which ${NAME} is replaced.
func (d *Decoder) Secret(to *Secret) Value {
	return d.scalar(SecretText, func(s string) error {
		switch {
		case s == "":
			return errors.New("is empty; leave it out for none")
		case strings.ContainsAny(s, "\r\n\x00"):
			return errors.New("has a line break, which no header can carry")
		}
		*to = NewSecret(s)
		return nil
	}, SecretNode).into(to)
}

// File reads a path that starts where the configuration is.
func (d *Decoder) File(to *string) Value {
	return Parsed(d, to, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("is empty")
		}
		return d.Path(s)
	}, FilledNode)
}

// Path makes a path absolute: ~/ is the home directory, the rest starts where the file is.
func (d *Decoder) Path(s string) (string, error) {
	home := d.loading.home
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "", errors.New("has a NUL character in a path")
	case s == "~" || strings.HasPrefix(s, "~/"):
		if home == "" {
			return "", fmt.Errorf("%s needs a home directory and $HOME names none", Quote(s))
		}
		return filepath.Join(home, s[1:]), nil
	case strings.HasPrefix(s, "~"):
		return "", fmt.Errorf("%s names another user's home; write the whole path", Quote(s))
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	abs, err := filepath.Abs(filepath.Join(d.loading.base, s))
	if err != nil {
		return "", fmt.Errorf("%s is relative, and the working directory is not known", Quote(s))
	}
	return abs, nil
}

// scalar reads a single value by a function that may refuse it.
func (d *Decoder) scalar(kind TextKind, read func(string) error, schema func() Node) Value {
	return NewValue(func(n *yaml.Node, path string) {
		s, ok := d.Scalar(n, path, kind)
		if !ok {
			return
		}
		if err := read(s); err != nil {
			d.Fail(n, path, err)
		}
	}, schema)
}

// Parsed reads a single value by parse. A value that cannot be parsed leaves to unchanged.
func Parsed[T any](d *Decoder, to *T, parse func(string) (T, error), schema func() Node) Value {
	return d.scalar(PlainText, func(s string) error {
		v, err := parse(s)
		if err == nil {
			*to = v
		}
		return err
	}, schema).into(to)
}

// Listed reads a list, of which a value alone is the only element, each with the reader that element
// makes for it. empty refuses an empty list; "": it is allowed.
func Listed[T any](d *Decoder, to *[]T, empty string, element func(to *T) Value) Value {
	return elements(d, d.List, ListNode, to, empty, element)
}

// Sequence reads what must be written as a list. empty refuses an empty list; "": it is allowed.
func Sequence[T any](d *Decoder, to *[]T, empty string, element func(to *T) Value) Value {
	return elements(d, d.Sequence, SequenceNode, to, empty, element)
}

func elements[T any](d *Decoder, each func(*yaml.Node, string, func(int, *yaml.Node, string)), list func(of Node, least int) Node, to *[]T, empty string, element func(to *T) Value) Value {
	return NewValue(func(n *yaml.Node, path string) {
		*to = []T{}
		each(n, path, func(_ int, n *yaml.Node, path string) {
			var item T
			element(&item).Read(n, path)
			*to = append(*to, item)
		})
		if empty != "" && IsEmptyList(n) {
			d.Failf(n, path, "%s", empty)
		}
	}, func() Node { return list(element(new(T)).Schema(), min(len(empty), 1)) }).into(to)
}

// isEmpty is the fault of an empty list.
const isEmpty = "is empty"

// Object reads a mapping with some keys.
func Object(d *Decoder, fields []Field) Value {
	return NewValue(func(n *yaml.Node, path string) { d.Mapping(n, path, fields...) }, func() Node { return ObjectNode(fields) })
}

// Check looks at a mapping that is read: its node, its path, and the nodes of the keys that are set.
type Check func(n *yaml.Node, path string, set map[string]*yaml.Node)

// Checked reads a mapping with some keys, at which check looks then.
func Checked(d *Decoder, check Check, fields ...Field) Value {
	return NewValue(func(n *yaml.Node, path string) { check(n, path, d.Mapping(n, path, fields...)) }, Object(d, fields).Schema)
}

// Either reads a value alone, or else a mapping with some keys. Then check looks at it; the value
// alone has no keys.
func Either(d *Decoder, alone Value, check Check, fields ...Field) Value {
	keys := Checked(d, check, fields...)
	return NewValue(func(n *yaml.Node, path string) {
		if IsMapping(n) {
			keys.Read(n, path)
			return
		}
		alone.Read(n, path)
		check(n, path, nil)
	}, func() Node { return EitherNode(alone.Schema(), keys.Schema()) })
}

// ObjectNode is a mapping with some keys and no other.
func ObjectNode(fields []Field) Node {
	keys, needed := Node{}, []string{}
	for _, f := range fields {
		key := f.Schema()
		if f.doc != "" {
			key["description"] = f.doc
		}
		keys[f.name] = key
		if f.needed {
			needed = append(needed, f.name)
		}
	}
	n := Node{"type": "object", "properties": keys, "additionalProperties": false}
	if len(needed) > 0 {
		n["required"] = needed
	}
	return n
}
