package policy

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Schema is the JSON Schema of a configuration, as editors read it. It is made of the fields
// that read a configuration.
func Schema() []byte {
	d := &Decoder{loading: newLoading(Source{}), policy: &Policy{}}
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
