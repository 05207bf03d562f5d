package policy

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setting is a scalar key: how its value is read, how it is written, and what the JSON Schema
// says of it. The file, the environment and the command line all use the same settings, so
// that a value means the same everywhere.
type setting struct {
	Key
	shape   shape
	text    TextKind
	read    func(p *Policy, in *input)
	show    func(p *Policy) string
	same    func(old, next *Policy) bool
	schema  func() Node
	restart bool // a running process cannot change the value
	about   string
	says    string // a sentence in which %s is the value
}

// row returns a setting of which the value is at a place in the policy.
func row[T any](name, kind, doc string, shape shape, at func(*Policy) *T, read func(*T, *input), show func(*T) string, schema func() Node) setting {
	return setting{
		Key:    Key{Name: name, Kind: kind, Doc: doc},
		shape:  shape,
		read:   func(p *Policy, in *input) { read(at(p), in) },
		show:   func(p *Policy) string { return show(at(p)) },
		same:   func(old, next *Policy) bool { return reflect.DeepEqual(at(old), at(next)) },
		schema: schema,
	}
}

func (s setting) secret(kind TextKind) setting {
	s.text = kind
	return s
}

func (s setting) restarts() setting {
	s.restart = true
	return s
}

// comparing returns the setting with another value to compare than the place that it sets.
func (s setting) comparing(of func(*Policy) any) setting {
	s.same = func(old, next *Policy) bool { return reflect.DeepEqual(of(old), of(next)) }
	return s
}

// saying gives the setting a title and a sentence, which stand in the description of a policy that
// has another value than the default.
func (s setting) saying(about, says string) setting {
	s.about, s.says = about, says
	return s
}

// asWritten shows a word as it is, orOff "" as off.
func asWritten(s *string) string { return *s }
func orOff(s *string) string     { return cmp.Or(*s, "off") }

// schemaWithDefault is the schema of the setting with its default, unless the default cannot
// be written.
func (s *setting) schemaWithDefault() Node {
	n := s.schema()
	home := func(name string) (string, bool) { return "/~", name == "HOME" }
	shown := s.show(defaults(home))
	if strings.HasPrefix(shown, "/~/") {
		shown = shown[1:]
	}
	least, counted := n["minimum"].(int64)
	var value any = shown
	number, err := strconv.ParseInt(shown, 10, 64)
	on, switched := strconv.ParseBool(shown)
	switch {
	case shown == "", s.text == SecretText, err == nil && counted && number < least:
		return n
	case err == nil:
		value = number
	case switched == nil:
		value = on
	case s.shape == list:
		value = listOf(shown)
	}
	n["default"] = value
	return n
}

// listOf is a list as a setting shows it: its numbers and words, a word alone by itself.
func listOf(shown string) any {
	all := []any{}
	for one := range strings.SplitSeq(shown, ", ") {
		if number, err := strconv.Atoi(one); err == nil {
			all = append(all, number)
		} else {
			all = append(all, one)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// shape is the form of a value in YAML. In a variable or a flag, commas separate the items
// of a list and of a map, with = between key and value.
type shape int

const (
	single shape = iota
	list
	pairs
)

// valueSetting is a setting that parse reads and format writes. A value that cannot be
// parsed leaves the default.
func valueSetting[T any](name, kind, doc string, at func(*Policy) *T, parse func(string) (T, error), format func(T) string, schema func() Node) setting {
	read := func(to *T, in *input) {
		v, err := parse(in.value())
		if err != nil {
			in.fail(-1, err)
			return
		}
		*to = v
	}
	return row(name, kind, doc, single, at, read, func(v *T) string { return format(*v) }, schema)
}

func durationSetting(name, doc string, at func(*Policy) *time.Duration) setting {
	return upToSetting(name, doc, longest, at)
}

func upToSetting(name, doc string, most time.Duration, at func(*Policy) *time.Duration) setting {
	parse := func(s string) (time.Duration, error) {
		d, err := ParseDuration(s)
		if err == nil && d > most {
			err = fmt.Errorf("%s is more than %s", Quote(s), formatDuration(most))
		}
		return d, err
	}
	return valueSetting(name, "duration", doc, at, parse, formatDuration, DurationNode)
}

func sizeSetting(name, doc string, at func(*Policy) *Size) setting {
	return valueSetting(name, "size", doc, at, ParseSize, Size.String, SizeNode)
}

func countSetting(name, doc string, least int64, at func(*Policy) *int) setting {
	return rangeSetting(name, doc, least, math.MaxInt32, at)
}

func rangeSetting(name, doc string, least, most int64, at func(*Policy) *int) setting {
	parse := func(s string) (int, error) {
		n, err := parseCount(s, least, most)
		return int(n), err
	}
	schema := func() Node { return countNode(least, most) }
	return valueSetting(name, "number", doc, at, parse, strconv.Itoa, schema)
}

// autoSetting is a count that is worked out where it says auto, which is stored as 0.
func autoSetting(name, doc string, at func(*Policy) *int) setting {
	parse := func(s string) (int, error) {
		if s == "auto" {
			return 0, nil
		}
		n, err := parseCount(s, 1, math.MaxInt32)
		return int(n), err
	}
	format := func(n int) string {
		if n == 0 {
			return "auto"
		}
		return strconv.Itoa(n)
	}
	schema := func() Node { return EitherNode(WordNode("auto"), countNode(1, math.MaxInt32)) }
	return valueSetting(name, "number", doc, at, parse, format, schema)
}

func switchSetting(name, doc string, at func(*Policy) *bool) setting {
	return valueSetting(name, "switch", doc, at, parseSwitch, strconv.FormatBool, switchNode)
}

func wordSetting(name, doc string, at func(*Policy) *string, words ...string) setting {
	parse := func(s string) (string, error) { return ParseWord(s, words...) }
	schema := func() Node { return WordNode(words...) }
	return valueSetting(name, strings.Join(words, "|"), doc, at, parse, func(s string) string { return s }, schema)
}

// addressSetting is an address to listen on. off allows the word off, which is stored
// as "".
func addressSetting(name, doc string, off bool, at func(*Policy) *string) setting {
	parse := func(s string) (string, error) {
		if off && (s == "" || s == "off") {
			return "", nil
		}
		return parseListen(s)
	}
	format := func(s string) string { return cmp.Or(s, "off") }
	schema := listenNode
	if off {
		schema = func() Node { return EitherNode(WordNode("off", ""), listenNode()) }
	}
	return valueSetting(name, "address", doc, at, parse, format, schema)
}

// Key is one scalar setting: its dotted name, the environment variable that sets
// it too, and a line of help. The command line makes its flags of them.
type Key struct {
	Name    string // bounds.idle_per_host
	Env     string // ABIDE_BOUNDS_IDLE_PER_HOST
	Kind    string // what it takes: address, duration, size, number, switch, words …
	Doc     string
	Default string // as it would be written, "" for none
	Secret  bool   // it may have a secret, so its variable may name a file: Env + "_FILE"
}

func fileSetting(name, doc string, at func(*Policy) *string) setting {
	read := func(to *string, in *input) {
		if *to = ""; in.value() != "" {
			in.readPath(to)
		}
	}
	return row(name, "file", doc, single, at, read, asWritten, TextNode)
}
