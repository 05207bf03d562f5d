package policy

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

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

// setting is a scalar key: the value of a policy that the file, the environment and the command
// line set, so that a text means the same everywhere.
type setting struct {
	Key
	Value
	shape   shape
	text    TextKind
	show    func() string // as it would be written
	restart bool          // a running process cannot change the value
	about   string
	says    string // a sentence in which %s is the value
}

// setting returns the setting of a key. It is shown as the word of its value.
func (d *Decoder) setting(name, kind, doc string, v Value) setting {
	key := Key{Name: name, Env: "ABIDE_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")), Kind: kind, Doc: doc}
	show := func() string {
		if shown := word(v.to); shown != nil {
			return fmt.Sprint(shown)
		}
		return ""
	}
	return setting{Key: key, Value: d.noted(name, v), show: show}
}

func (s setting) of(shape shape) setting {
	s.shape = shape
	return s
}

func (s setting) secret(kind TextKind) setting {
	s.text = kind
	return s
}

func (s setting) restarts() setting {
	s.restart = true
	return s
}

// shown gives the setting a text in place of the word of its value.
func (s setting) shown(show func() string) setting {
	s.show = show
	return s
}

// or gives the setting a word in place of an empty text.
func (s setting) or(word string) setting {
	show := s.show
	return s.shown(func() string { return cmp.Or(show(), word) })
}

// saying gives the setting a title and a sentence, which stand in the description of a policy that
// has another value than the default.
func (s setting) saying(about, says string) setting {
	s.about, s.says = about, says
	return s
}

// same tells whether two policies have the same value.
func (s setting) same(other setting) bool { return reflect.DeepEqual(s.to, other.to) }

// schemaWithDefault is the schema of the setting with what it has by default, unless that cannot
// be written. A list of one is its element.
func (s *setting) schemaWithDefault() Node {
	n, shown := s.Schema(), s.show()
	if strings.HasPrefix(shown, "/~/") {
		shown = shown[1:]
	}
	text := shown
	if s.shape == list {
		text = "[" + shown + "]"
	}
	var value any
	if yaml.Unmarshal([]byte(text), &value) != nil {
		value = shown // such as *
	}
	if all, ok := value.([]any); ok && len(all) == 1 {
		value = all[0]
	}
	least, counted := n["minimum"].(int64)
	if number, ok := value.(int); shown != "" && s.text != SecretText && !(ok && counted && int64(number) < least) {
		n["default"] = value
	}
	return n
}

// shape is the form of a value in YAML. In a variable or a flag, commas separate the items
// of a list and of a map, with = between key and value.
type shape int

const (
	single shape = iota
	list
	pairs
)

// node returns a text of a variable or a flag as the file would have it.
func (s shape) node(text string) *yaml.Node {
	scalar := func(text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(text)}
	}
	if s == single {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if s == pairs {
		n.Kind = yaml.MappingNode
	}
	for item := range strings.SplitSeq(text, ",") {
		switch key, value, _ := strings.Cut(item, "="); {
		case text == "":
		case s == pairs:
			n.Content = append(n.Content, scalar(key), scalar(value))
		default:
			n.Content = append(n.Content, scalar(item))
		}
	}
	return n
}

func (d *Decoder) durationSetting(name, doc string, to *time.Duration) setting {
	return d.setting(name, "duration", doc, Parsed(d, to, ParseDuration, DurationNode))
}

func (d *Decoder) sizeSetting(name, doc string, to *Size) setting {
	return d.setting(name, "size", doc, Parsed(d, to, ParseSize, SizeNode))
}

func (d *Decoder) countSetting(name, doc string, least int64, to *int) setting {
	return d.setting(name, "number", doc, d.Number(to, least, math.MaxInt32))
}

// autoSetting is a count that is worked out where it says auto, which is stored as 0.
func (d *Decoder) autoSetting(name, doc string, to *int) setting {
	parse := func(s string) (int, error) {
		if s == "auto" {
			return 0, nil
		}
		n, err := parseCount(s, 1, math.MaxInt32)
		return int(n), err
	}
	schema := func() Node { return EitherNode(WordNode("auto"), countNode(1, math.MaxInt32)) }
	return d.setting(name, "number", doc, Parsed(d, to, parse, schema)).
		shown(func() string { return cmp.Or(when(*to == 0, "auto"), strconv.Itoa(*to)) })
}

func (d *Decoder) switchSetting(name, doc string, to *bool) setting {
	return d.setting(name, "switch", doc, d.Truth(to))
}

func (d *Decoder) wordSetting(name, doc string, to *string, words ...string) setting {
	return d.setting(name, strings.Join(words, "|"), doc, Word(d, to, words...))
}

// fileSetting is the path of a file, or "" for none.
func (d *Decoder) fileSetting(name, doc string, to *string) setting {
	return d.setting(name, "file", doc, Parsed(d, to, func(s string) (string, error) {
		if s == "" {
			return "", nil
		}
		return d.Path(s)
	}, TextNode))
}

// input is the texts of a list, of which a value is made that needs them all.
type input struct {
	items []string
	fail  func(item int, err error) // item is -1 for the value as a whole
}

// together reads the texts of a list by a function that gets them all.
func together[T any](d *Decoder, to *T, read func(*input) T, schema func() Node) Value {
	return NewValue(func(n *yaml.Node, path string) {
		fails := []func(error){func(err error) { d.Fail(n, path, err) }}
		in := &input{fail: func(i int, err error) { fails[i+1](err) }}
		before := len(d.loading.faults)
		d.List(n, path, func(_ int, n *yaml.Node, path string) {
			if text, ok := d.Scalar(n, path, PlainText); ok {
				in.items, fails = append(in.items, text), append(fails, func(err error) { d.Fail(n, path, err) })
			}
		})
		if len(d.loading.faults) == before {
			*to = read(in)
		}
	}, schema).into(to)
}

// distinct parses the items of a list, of which no two may be equal. A fault of two has what before the item.
func distinct[T comparable](in *input, what string, parse func(string) (T, error)) (list []T) {
	seen := map[T]bool{}
	for i, s := range in.items {
		item, err := parse(s)
		if err == nil && seen[item] {
			err = fmt.Errorf("%s%v is listed twice", what, item)
		}
		if err != nil {
			in.fail(i, err)
		} else {
			list, seen[item] = append(list, item), true
		}
	}
	return list
}
