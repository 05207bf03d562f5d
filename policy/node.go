package policy

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

// Node is a part of a JSON Schema.
type Node map[string]any

// suchAs is the node with examples, which editors offer.
func (n Node) suchAs(examples ...any) Node {
	n["examples"] = examples
	return n
}

// definition is the key of a node that stands in for a definition, until written moves it.
const definition = "$definition"

// shared is the node as a definition of the whole schema, which is written once.
func (n Node) shared(name string) Node {
	return Node{"$ref": "#/definitions/" + name, definition: n}
}

// TextNode is any text. A text that looks like a number or a switch is a text too.
func TextNode() Node {
	return Node{"type": []string{"string", "number", "boolean"}, "not": Node{"type": "string", "pattern": `\$\{`}}
}

// FilledNode is a text that is not empty.
func FilledNode() Node { return textNode(`\S`) }

// textNode is a text of a pattern.
func textNode(pattern string) Node {
	n := TextNode()
	n["pattern"] = pattern
	return n
}

// SecretNode is a text in which ${NAME} is replaced.
func SecretNode() Node {
	return Node{"type": []string{"string", "number", "boolean"}, "minLength": 1}
}

func PatternNode(pattern string) Node { return Node{"type": "string", "pattern": pattern} }

func WordNode(words ...string) Node { return Node{"enum": words} }

func switchNode() Node {
	return Node{"enum": []any{true, false, "on", "off", "true", "false"}}.shared("switch")
}

// countNode is a whole number, which may be quoted and have _ between its thousands.
func countNode(least, most int64) Node {
	pattern := wholePattern
	if least > 0 {
		pattern = positivePattern
	}
	return numberNode(least, most, "^"+pattern+"$")
}

// numberNode is a whole number, or a text of a pattern.
func numberNode(least, most int64, pattern string) Node {
	return Node{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": pattern}
}

func EitherNode(of ...Node) Node { return Node{"anyOf": of} }

// ListNode is a list of at least so many elements. A value alone counts as a list of one.
func ListNode(of Node, least int) Node { return EitherNode(of, SequenceNode(of, least)) }

// SequenceNode is a list of at least so many elements.
func SequenceNode(of Node, least int) Node {
	n := Node{"type": "array", "items": of}
	if least > 0 {
		n["minItems"] = least
	}
	return n
}

// MapNode is keys of one's own choice, each with a value of the same kind.
func MapNode(name string, value Node) Node {
	n := Node{"type": "object", "additionalProperties": value}
	if name != "" {
		n["propertyNames"] = Node{"pattern": name}
	}
	return n
}

// Patterns of what parseCount and scaled read. All patterns are in the part of the syntax
// that Go and editors, which have that of JavaScript, read alike.
const (
	positivePattern = `(?:[1-9][0-9]*|[1-9][0-9]{0,2}(?:_[0-9]{3})+)`
	wholePattern    = `(?:0|` + positivePattern + `)`
	decimalPattern  = wholePattern + `(?:\.[0-9]{1,9})?`
)

// anyCase matches a word in letters of either case. A capital M alone is no unit: it may
// stand for a month.
func anyCase(word string) string {
	if word == "m" {
		return word
	}
	var b strings.Builder
	for _, r := range word {
		if lower, upper := unicode.ToLower(r), unicode.ToUpper(r); lower != upper {
			b.WriteString("[" + string(lower) + string(upper) + "]")
			continue
		}
		b.WriteString(regexp.QuoteMeta(string(r)))
	}
	return b.String()
}

// Schema is the JSON Schema of a configuration, as editors read it. It is made of the fields
// that read a configuration.
func Schema() []byte {
	d := &Decoder{loading: newLoading(Source{}), policy: defaults(func(name string) (string, bool) { return "/~", name == "HOME" })}
	return WriteSchema("Configuration of abide", ObjectNode(section(d, "")))
}

// LimitsSchema is the JSON Schema of a list of limits as ParseLimits reads it. It refers to
// the definitions by their names behind path.
func LimitsSchema(path string) (limits map[string]any, definitions map[string]any) {
	all := Node{}
	define(limitsNode(), all)
	text, _ := json.Marshal(all) // texts and numbers have no error
	text = bytes.ReplaceAll(text, []byte("#/definitions/"), []byte(path))
	_ = json.Unmarshal(text, &definitions)
	return map[string]any{"$ref": path + "limits"}, definitions
}

// WriteSchema returns a schema as JSON, in a version that all editors know.
func WriteSchema(title string, schema Node) []byte {
	definitions := Node{}
	schema = define(schema, definitions).(Node)
	schema["$schema"], schema["title"], schema["definitions"] = "http://json-schema.org/draft-07/schema#", title, definitions
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(schema) // texts and numbers have no error, nor has a buffer
	return b.Bytes()
}

// define is a part of a schema whose shared nodes are moved to the definitions.
func define(part any, definitions Node) any {
	switch part := part.(type) {
	case Node:
		out := Node{}
		for key, one := range part {
			if key != definition {
				out[key] = define(one, definitions)
				continue
			}
			name := strings.TrimPrefix(part["$ref"].(string), "#/definitions/")
			if definitions[name] == nil {
				definitions[name] = define(one, definitions)
			}
		}
		return out
	case []Node:
		out := make([]any, len(part))
		for i, one := range part {
			out[i] = define(one, definitions)
		}
		return out
	}
	return part
}
