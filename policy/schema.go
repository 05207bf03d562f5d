package policy

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Schema is the JSON Schema of a configuration, as editors read it. It is made of the fields
// that read a configuration.
func Schema() []byte {
	d := &decoder{loading: newLoading(Source{}), policy: &Policy{}}
	return written("Configuration of abide", objectNode(section(d, "")))
}

// JobSchema is the JSON Schema of a job file.
func JobSchema() []byte {
	r := &jobReader{decoder: &decoder{loading: newLoading(Source{})}, job: &Job{}}
	return written("Job of abide", objectNode(r.fields(new(bool))))
}

// LimitsSchema is the JSON Schema of a list of limits as ParseLimits reads it. It refers to
// the definitions by their names behind path.
func LimitsSchema(path string) (limits map[string]any, definitions map[string]any) {
	all := node{}
	define(limitsNode(), all)
	text, _ := json.Marshal(all) // texts and numbers have no error
	text = bytes.ReplaceAll(text, []byte("#/definitions/"), []byte(path))
	_ = json.Unmarshal(text, &definitions)
	return map[string]any{"$ref": path + "limits"}, definitions
}

// written is a schema as JSON, in a version that all editors know.
func written(title string, schema node) []byte {
	definitions := node{}
	schema = define(schema, definitions).(node)
	schema["$schema"], schema["title"], schema["definitions"] = "http://json-schema.org/draft-07/schema#", title, definitions
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(schema) // texts and numbers have no error, nor has a buffer
	return b.Bytes()
}

// define is a part of a schema whose shared nodes are moved to the definitions.
func define(part any, definitions node) any {
	switch part := part.(type) {
	case node:
		out := node{}
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
	case []node:
		out := make([]any, len(part))
		for i, one := range part {
			out[i] = define(one, definitions)
		}
		return out
	}
	return part
}

// node is a part of a JSON Schema.
type node map[string]any

// describedBy is the node with a description, unless the description is empty.
func (n node) describedBy(doc string) node {
	if doc != "" {
		n["description"] = doc
	}
	return n
}

// suchAs is the node with examples, which editors offer.
func (n node) suchAs(examples ...any) node {
	n["examples"] = examples
	return n
}

// definition is the key of a node that stands in for a definition, until written moves it.
const definition = "$definition"

// shared is the node as a definition of the whole schema, which is written once.
func (n node) shared(name string) node {
	return node{"$ref": "#/definitions/" + name, definition: n}
}

// textNode is any text. A text that looks like a number or a switch is a text too.
func textNode() node {
	return node{"type": []string{"string", "number", "boolean"}, "not": node{"type": "string", "pattern": `\$\{`}}
}

// filledNode is a text that is not empty.
func filledNode() node {
	n := textNode()
	n["pattern"] = `\S`
	return n
}

// secretNode is a text in which ${NAME} is replaced.
func secretNode() node {
	return node{"type": []string{"string", "number", "boolean"}, "minLength": 1}
}

func patternNode(pattern string) node { return node{"type": "string", "pattern": pattern} }

func wordNode(words ...string) node { return node{"enum": words} }

func switchNode() node {
	return node{"enum": []any{true, false, "on", "off", "true", "false"}}.shared("switch")
}

// countNode is a whole number, which may be quoted and have _ between its thousands.
func countNode(least, most int64) node {
	pattern := wholePattern
	if least > 0 {
		pattern = positivePattern
	}
	return node{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": "^" + pattern + "$"}
}

// autoNode is a whole number from 1, or the word auto.
func autoNode(most int64) node {
	return eitherNode(wordNode("auto"), countNode(1, most))
}

func eitherNode(of ...node) node { return node{"anyOf": of} }

// listNode is a list. A value alone counts as a list of one.
func listNode(of node) node { return eitherNode(of, sequenceNode(of, 0)) }

// sequenceNode is what must be written as a list, of at least a number of elements.
func sequenceNode(of node, least int) node {
	n := node{"type": "array", "items": of}
	if least > 0 {
		n["minItems"] = least
	}
	return n
}

// mapNode is keys of one's own choice, each with a value of the same kind.
func mapNode(name string, value node) node {
	n := node{"type": "object", "additionalProperties": value}
	if name != "" {
		n["propertyNames"] = node{"pattern": name}
	}
	return n
}

// objectNode is a mapping with some keys and no other.
func objectNode(fields []field) node {
	keys, needed := node{}, []string{}
	for _, f := range fields {
		keys[f.name] = f.schema().describedBy(f.doc)
		if f.needed {
			needed = append(needed, f.name)
		}
	}
	n := node{"type": "object", "properties": keys, "additionalProperties": false}
	if len(needed) > 0 {
		n["required"] = needed
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

// unitPattern matches the names of units, in letters of either case.
func unitPattern(units []unit, without ...string) string {
	var names []string
	for _, u := range units {
		for _, name := range u.names {
			if !slices.Contains(without, name) {
				names = append(names, anyCase(name))
			}
		}
	}
	return "(?:" + strings.Join(names, "|") + ")"
}

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
