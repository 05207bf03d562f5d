package records

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Value is a JSON value without white space outside of its texts. Read makes them: a Value
// that is no JSON has no parts.
type Value []byte

// Get is the part that the text of a path leads to. A name with dots is found as it is written, too:
// @odata.nextLink leads to the member "@odata.nextLink" if there is no "@odata".
func (v Value) Get(text string) (Value, bool) {
	p, err := ParsePath(text)
	if err != nil {
		return nil, false
	}
	return v.at(p.steps)
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
	var parts []Value
	has := v[0] == '['
	v.each(func(name, part Value) {
		if text, _ := name.Text(); text == steps[0] || name == nil && strconv.Itoa(len(parts)) == steps[0] {
			part, has = part.with(steps[1:], value), true
		}
		parts = append(parts, member(name, part))
	})
	if !has {
		name, _ := json.Marshal(steps[0]) // texts have no error
		parts = append(parts, member(name, Value(nil).with(steps[1:], value)))
	}
	return enclosed(v[:1], parts, v[len(v)-1:])
}

// member is a member of an object, or, without a name, an element of an array.
func member(name, part Value) Value {
	if name == nil {
		return part
	}
	return slices.Concat(name, Value(":"), part)
}

// enclosed is an object or an array of parts.
func enclosed(begin Value, parts []Value, end Value) Value {
	return slices.Concat(begin, bytes.Join(lists.Map(parts, func(v Value) []byte { return v }), []byte(",")), end)
}

// joined is an array of what some steps lead to from each part of v. Elements of arrays stand in place of these, and
// nulls are left out. It is there unless v has parts and the steps lead nowhere from all of them.
func (v Value) joined(steps []string) (list Value, found bool) {
	var parts []Value
	n, led := 0, false
	v.each(func(_, part Value) {
		part, has := part.at(steps)
		n, led = n+1, led || has
		parts = append(parts, part.elements()...)
	})
	return enclosed(Value("["), parts, Value("]")), (v.kind() == '[' || v.kind() == '{') && (led || n == 0)
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
		list := v.elements()
		i, err := strconv.Atoi(step)
		if i < 0 {
			i += len(list)
		}
		if err == nil && i >= 0 && i < len(list) {
			return list[i], true
		}
	}
	return found, ok
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
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			for i++; i < len(v) && v[i] != '"'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 { // a text, an object or an array ends
			return min(i+1, len(v))
		}
	}
	return len(v)
}

// EachLeaf visits the texts, numbers, truth values and nulls outside of arrays, with their paths.
func (v Value) EachLeaf(visit func(path string, leaf Value)) {
	v.each(func(name, part Value) {
		text, _ := name.Text()
		switch {
		case name == nil || part.kind() == '[':
		case part.kind() == '{':
			part.EachLeaf(func(inner string, leaf Value) { visit(text+"."+inner, leaf) })
		default:
			visit(text, part)
		}
	})
}

// Leaves are the paths that EachLeaf visits, at most n.
func (v Value) Leaves(n int) (paths []string) {
	v.EachLeaf(func(path string, _ Value) { paths = append(paths, path) })
	return paths[:min(len(paths), n)]
}

// Path leads to a part of a JSON value. The package comment has its syntax. The zero value
// leads to the value itself.
type Path struct {
	text  string
	steps []string
	up    int // it begins at the parent of a record, or so far above
}

// of returns what the path leads to from a record and its parents, the nearest first.
func (p Path) of(record Value, parents []Value) (Value, bool) {
	switch {
	case p.up == 0:
		return record.at(p.steps)
	case p.up > len(parents):
		return nil, false
	}
	return parents[p.up-1].at(p.steps)
}

// each visits the records that steps lead to from the first of their parents, with all parents: the elements that the lists
// stand in, and the answer.
func each(steps []string, parents []Value, visit func(part Value, parents []Value)) {
	n := len(steps)
	if i := slices.Index(steps[:max(n-1, 0)], eachPart); i >= 0 {
		n = i + 1
	}
	list, _ := parents[0].at(steps[:n])
	for _, part := range list.elements() {
		if n == len(steps) {
			visit(part, parents)
		} else {
			each(steps[n:], append([]Value{part}, parents...), visit)
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
	for jobfile.OfParent(text) && len(p.steps) > 0 && p.steps[0] == "^" {
		p.up, p.steps = p.up+1, p.steps[1:]
	}
	return p, nil
}

func (p Path) String() string { return p.text }

// Read is the value of a body of a content type: JSON, or the array of what JSON lines or the
// rows of a CSV have. It may change the body. The error is about "the answer" without saying which one.
func Read(contentType string, body []byte) (Value, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	kind, _, _ := mime.ParseMediaType(contentType)
	var list []Value
	var err error
	switch kind {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/jsonlines", "application/x-jsonlines":
		list, err = readLines(body)
	case "text/csv":
		list, err = readCSV(body)
	default:
		return readJSON(kind, body)
	}
	if err != nil {
		return nil, err
	}
	return enclosed(Value("["), list, Value("]")), nil
}

// readJSON removes the white space of JSON where it stands, because a body may be long.
func readJSON(kind string, body []byte) (Value, error) {
	if len(body) == 0 && kind == "" { // as with 204 No Content
		return Value("null"), nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, errors.New("the answer is empty: abide reads JSON, JSON lines and CSV")
	}
	if !json.Valid(body) {
		kind = cmp.Or(kind, "none")
		if kind == "text/html" || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			return nil, fmt.Errorf("the answer is no JSON, its content type is %s: it is a web page, so check the URL, and whether it needs a login", kind)
		}
		return nil, fmt.Errorf("the answer is no JSON, its content type is %s: %w", kind, json.Compact(new(bytes.Buffer), body))
	}
	value, inText, escaped := body[:0], false, false
	for _, c := range body {
		if !inText && (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			continue
		}
		inText = inText != (c == '"' && !escaped)
		escaped = c == '\\' && !escaped
		value = append(value, c)
	}
	return value, nil
}

func readLines(body []byte) (list []Value, err error) {
	n := 0
	for line := range bytes.Lines(body) {
		n++
		var value bytes.Buffer
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := json.Compact(&value, line); err != nil {
			return nil, fmt.Errorf("line %d of the answer is no JSON: %w", n, err)
		}
		list = append(list, value.Bytes())
	}
	return list, nil
}

// quotes finds the texts in quotes of a line of CSV.
var quotes = regexp.MustCompile(`"[^"]*"`)

// NewCSV returns a reader of CSV with the separator that the first line has most of: commas, semicolons or tabs.
func NewCSV(from io.Reader) *csv.Reader {
	buffered := bufio.NewReader(from)
	head, _ := buffered.Peek(buffered.Size()) // which may be all
	head, _, _ = bytes.Cut(head, []byte("\n"))
	head = quotes.ReplaceAll(head, nil)
	rows := csv.NewReader(buffered)
	rows.ReuseRecord = true
	for _, mark := range ";\t" {
		if bytes.Count(head, []byte(string(mark))) > bytes.Count(head, []byte(string(rows.Comma))) {
			rows.Comma = mark
		}
	}
	return rows
}

// readCSV makes an object of each row after the first, which has the names.
func readCSV(body []byte) (list []Value, err error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the answer is not UTF-8: abide reads JSON, JSON lines and CSV in UTF-8")
	}
	rows := NewCSV(bytes.NewReader(body))
	var names []Value
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the answer is no CSV: %w", err)
		}
		parts := lists.Map(row, func(text string) Value {
			b, _ := json.Marshal(text) // texts have no error
			return b
		})
		if names == nil {
			names = parts
			sorted := slices.Sorted(slices.Values(row)) // a row has a column
			for i, name := range sorted[1:] {
				if name == sorted[i] {
					return nil, fmt.Errorf("the answer is a CSV with two columns named %q", name)
				}
			}
			continue
		}
		for i, part := range parts {
			parts[i] = member(names[i], part)
		}
		list = append(list, enclosed(Value("{"), parts, Value("}")))
	}
}
