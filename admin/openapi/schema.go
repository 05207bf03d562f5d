package openapi

import (
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
)

// Schema is a JSON Schema, or a part of the document.
type Schema = map[string]any

// Schemas are the schemas of types by their names, as encoding/json writes the types.
type Schemas struct {
	named map[string]any
	// Tagged are schemas of fields that write their JSON themselves. A field has the tag
	// schema:"NAME".
	Tagged map[string]any
}

// comments are the comments of the source about types and fields: "Hold", "Hold.Waited".
//
//go:embed comments.json
var commentsText []byte

var comments = func() map[string]string {
	all := map[string]string{}
	if err := json.Unmarshal(commentsText, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}()

const componentsPath = "#/components/schemas/"

// Of is the schema of a value's type.
func (s *Schemas) Of(v any) any { return s.of(reflect.TypeOf(v)) }

func (s *Schemas) of(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem())
	}
	switch t.Kind() {
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Int32:
		return Schema{"type": "integer"}
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16:
		return Schema{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return Schema{"type": "number"}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Slice, reflect.Array:
		return Schema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.reference(t)
	}
	return Schema{}
}

// Define adds a schema by its name.
func (s *Schemas) Define(name string, schema any) {
	if s.named == nil {
		s.named = map[string]any{}
	}
	s.named[name] = schema
}

// schemaName is the name of a type in the document.
func schemaName(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// reference refers to the schema of a struct, which is made once.
func (s *Schemas) reference(t reflect.Type) any {
	name := schemaName(t)
	if s.named[name] == nil {
		s.Define(name, Schema{}) // a type may contain itself
		s.Define(name, s.object(t))
	}
	return Schema{"$ref": componentsPath + name}
}

// object is the schema of a struct, with the fields of what it embeds.
func (s *Schemas) object(t reflect.Type) Schema {
	keys, required := Schema{}, []string{}
	s.fields(t, func(name string, optional bool, schema any) {
		keys[name] = schema
		if !optional {
			required = append(required, name)
		}
	})
	all := Schema{"type": "object", "properties": keys, "additionalProperties": false}
	if len(required) > 0 {
		all["required"] = required
	}
	if text := comments[schemaName(t)]; text != "" {
		all["description"] = text
	}
	return all
}

// fields calls each for the fields of a struct as encoding/json writes them.
func (s *Schemas) fields(t reflect.Type, each func(name string, optional bool, schema any)) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "":
			s.embedded(f.Type, each)
			continue
		case name == "-" || !f.IsExported() || name == "":
			continue
		}
		each(name, strings.Contains(options, "omit"), s.field(schemaName(t)+"."+f.Name, f, options))
	}
}

// embedded has the fields of an embedded struct. Those of a pointer, which may be nil, are
// optional.
func (s *Schemas) embedded(t reflect.Type, each func(name string, optional bool, schema any)) {
	if t.Kind() != reflect.Pointer {
		s.fields(t, each)
		return
	}
	s.fields(t.Elem(), func(name string, _ bool, schema any) { each(name, true, schema) })
}

// field is the schema of a field, with what the source says of the field.
func (s *Schemas) field(name string, f reflect.StructField, options string) any {
	schema := s.Tagged[f.Tag.Get("schema")]
	if schema == nil {
		schema = s.of(f.Type)
	}
	if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit") {
		schema = Schema{"anyOf": []any{schema, Schema{"type": "null"}}}
	}
	text := comments[name]
	if text == "" {
		return schema
	}
	described := Schema{"description": text}
	maps.Copy(described, schema.(Schema))
	return described
}
