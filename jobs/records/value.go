package records

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// Value is a JSON value without white space outside of its texts. Read makes them: a Value
// that is no JSON has no parts.
type Value []byte

// At is the part that a path leads to. A name with dots is found as it is written, too:
// @odata.nextLink leads to the member "@odata.nextLink" if there is no "@odata".
func (v Value) At(p Path) (Value, bool) { return p.of(v, nil) }

// Get is the part that the text of a path leads to.
func (v Value) Get(text string) (Value, bool) {
	p, err := ParsePath(text)
	if err != nil {
		return nil, false
	}
	return v.At(p)
}

// eachPart is the step to all members of an object, or all elements of an array. No name is the same.
const eachPart = "\xff"

func (v Value) at(steps []string) (Value, bool) {
	if len(steps) == 0 {
		return v, len(v) > 0
	}
	if steps[0] == eachPart {
		return v.joined(steps[1:])
	}
	for n := 1; n <= len(steps); n++ {
		if part, ok := v.part(strings.Join(steps[:n], ".")); ok {
			if found, ok := part.at(steps[n:]); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// With returns v with another value at a path, or as its member of that name if it is no path. What the path lacks is made.
func (v Value) With(path string, value Value) Value {
	p, err := ParsePath(path)
	if err != nil {
		p.steps = []string{path}
	}
	return v.with(p.steps, value)
}

func (v Value) with(steps []string, value Value) Value {
	if len(steps) == 0 {
		return value
	}
	if k := v.kind(); k != '{' && k != '[' {
		v = Value("{}")
	}
	changed, has, n := Value{v[0]}, false, 0
	add := func(name, part Value) {
		if n++; n > 1 {
			changed = append(changed, ',')
		}
		if v[0] == '{' {
			changed = append(append(changed, name...), ':')
		}
		changed = append(changed, part...)
	}
	v.each(func(name, part Value) {
		if text, _ := name.Text(); text == steps[0] || name == nil && strconv.Itoa(n) == steps[0] {
			part, has = part.with(steps[1:], value), true
		}
		add(name, part)
	})
	if !has && v[0] == '{' {
		name, _ := json.Marshal(steps[0]) // texts have no error
		add(name, Value(nil).with(steps[1:], value))
	}
	return append(changed, v[len(v)-1])
}

// joined is an array of what some steps lead to from each part of v. Elements of arrays stand in place of these, and
// nulls are left out. It is there unless v has parts and the steps lead nowhere from all of them.
func (v Value) joined(steps []string) (list Value, found bool) {
	list, found = Value("["), v.kind() == '[' || v.kind() == '{'
	n, led := 0, false
	v.each(func(_, part Value) {
		n++
		part, has := part.at(steps)
		switch led = led || has; {
		case !has || part.Null() || string(part) == "[]":
			return
		case part.kind() == '[':
			part = part[1 : len(part)-1]
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, part...)
	})
	return append(list, ']'), found && (led || n == 0)
}

// part is a member of an object or an element of an array. Of members of one name the last
// one counts, as for most readers of JSON.
func (v Value) part(step string) (found Value, ok bool) {
	switch v.kind() {
	case '{':
		v.each(func(name, part Value) {
			if s, present := name.Text(); present && s == step {
				found, ok = part, true
			}
		})
	case '[':
		i, err := strconv.Atoi(step)
		if err != nil {
			return nil, false
		}
		if i < 0 {
			i += v.length()
		}
		n := 0
		v.each(func(_, part Value) {
			if n == i {
				found, ok = part, true
			}
			n++
		})
	}
	return found, ok
}

func (v Value) length() (n int) {
	v.each(func(_, _ Value) { n++ })
	return n
}

// kind is the first letter: { [ " t f n, a digit or a minus.
func (v Value) kind() byte {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// Null says whether there is no value, or null.
func (v Value) Null() bool { return len(v) == 0 || v.kind() == 'n' }

// Text is a text, or a number or truth value as it is written.
func (v Value) Text() (string, bool) {
	switch v.kind() {
	case 0, '{', '[', 'n':
		return "", false
	case '"':
		if inside := v[1 : len(v)-1]; bytes.IndexByte(inside, '\\') < 0 {
			return string(inside), true
		}
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	}
	return string(v), true
}

// Number says whether the value is a number, which Text has as it is written.
func (v Value) Number() bool {
	k := v.kind()
	return k == '-' || '0' <= k && k <= '9'
}

// each visits the members of an object or the elements of an array, which have no names.
func (v Value) each(visit func(name, part Value)) {
	k := v.kind()
	if k != '{' && k != '[' {
		return
	}
	for i := 1; i < len(v)-1; i++ { // at a comma, or before the first
		var name Value
		if k == '{' {
			end := i + v[i:].end()
			name, i = v[i:end], end+1
		}
		if i >= len(v)-1 {
			return
		}
		end := i + v[i:].end()
		visit(name, v[i:end])
		i = end
	}
}

// end is the length of the value that v begins with.
func (v Value) end() int {
	depth, text := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case text && c == '\\':
			i++
			continue
		case c == '"':
			text = !text
		case text:
			continue
		case c == '{' || c == '[':
			depth++
			continue
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			depth--
		case c == ',' || c == ':':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 && !text { // a text, an object or an array ends
			return i + 1
		}
	}
	return len(v)
}

// Outline is the value with empty arrays in place of all arrays. Its parts are found fast.
func (v Value) Outline() Value {
	switch v.kind() {
	case '[':
		return Value("[]")
	case '{':
		outline := Value("{")
		v.each(func(name, part Value) {
			if len(outline) > 1 {
				outline = append(outline, ',')
			}
			outline = append(append(append(outline, name...), ':'), part.Outline()...)
		})
		return append(outline, '}')
	}
	return v
}

// Leaves are the paths of the texts, numbers, truth values and nulls outside of arrays, at most n.
func (v Value) Leaves(n int) (paths []string) {
	v.each(func(name, part Value) {
		text, _ := name.Text()
		switch {
		case name == nil || part.kind() == '[':
		case part.kind() == '{':
			for _, inner := range part.Leaves(n) {
				paths = append(paths, text+"."+inner)
			}
		default:
			paths = append(paths, text)
		}
	})
	return paths[:min(len(paths), n)]
}

// Path leads to a part of a JSON value. The package comment has its syntax. The zero value
// leads to the value itself.
type Path struct {
	text  string
	steps []string
	up    bool // it begins at the parent of a record
}

// of returns what the path leads to from a record and its parent, which may be nil.
func (p Path) of(record, parent Value) (Value, bool) {
	if p.up {
		return parent.at(p.steps)
	}
	return record.at(p.steps)
}

// split parts the way to a list into the one to the lists that it stands in, and the one from an element of these.
func (p Path) split() (outer, inner []string) {
	for i := len(p.steps) - 2; i >= 0; i-- {
		if p.steps[i] == eachPart {
			return p.steps[:i+1], p.steps[i+1:]
		}
	}
	return nil, p.steps
}

// each visits the records of a list in an answer, with the parent of each, if it is needed: the element that the list stands
// in, or the answer.
func (x *Extractor) each(answer, list Value, visit func(part, parent Value)) {
	if !x.up {
		list.each(func(_, part Value) { visit(part, nil) })
		return
	}
	parents := []Value{answer}
	outer, inner := x.records.split()
	if len(outer) > 0 {
		all, _ := answer.at(outer)
		parents = all.elements()
	}
	for _, parent := range parents {
		list, _ := parent.at(inner)
		for _, part := range list.elements() {
			visit(part, parent)
		}
	}
}

// aStep finds the first step of a path: a number, nothing or a text in quotes in brackets, or a text in quotes or a
// name behind a dot.
var aStep = regexp.MustCompile(`^(?:\[(-?[0-9]+|\*?)\]|\[("(?:[^"\\]|\\.)*")\]|\.("(?:[^"\\]|\\.)*")|\.([^."\[\]]+))`)

// ParsePath reads a path.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	for rest := "." + text; text != "" && rest != ""; {
		if strings.HasPrefix(rest, ".[") && len(p.steps) == 0 {
			rest = rest[1:]
		}
		found := aStep.FindStringSubmatch(rest)
		if found == nil {
			return Path{}, fmt.Errorf("the path %q: write a name at %q, in quotes if it has dots, brackets or quotes, or a number or a name in quotes in brackets", text, rest)
		}
		step := found[1] + found[4]
		if step == "*" || found[0] == "[]" {
			step = eachPart
		}
		if quoted := found[2] + found[3]; quoted != "" && json.Unmarshal([]byte(quoted), &step) != nil {
			return Path{}, fmt.Errorf("the path %q: %s is no text in quotes", text, quoted)
		}
		p.steps, rest = append(p.steps, step), rest[len(found[0]):]
	}
	if p.up = jobfile.OfParent(text) && p.steps[0] == "^"; p.up {
		p.steps = p.steps[1:]
	}
	return p, nil
}

func (p Path) String() string { return p.text }
