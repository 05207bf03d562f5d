package openapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

// API is all that is documented.
type API struct {
	Title, Version, Says string
	Operations           []Operation
	// Parameters are those of paths, by their names.
	Parameters map[string]Parameter
	// Refusals say what a status means, where an operation has nothing else to say of it.
	Refusals map[int]string
	// Problem is the type of the body of a refusal.
	Problem any
	Schemas *Schemas
}

// Operation is a route, "GET /path/{name}", and what it takes and answers.
type Operation struct {
	Route   string
	Handler http.Handler // serves the route
	Tag     string       // "" leaves the operation out of the document
	Says    string       // a sentence
	Query   []Parameter
	Body    *Body
	// Answer is a value of the type that 200 has; Kind is its media type, application/json
	// if it is "". A text has the answer "".
	Answer any
	Kind   string
	// Refuses are the other statuses.
	Refuses []Refusal
	// Open tells that the operation needs no token.
	Open bool
}

// Refusal is a status that an operation may answer. Says, Of and Kind are those of the API if
// they are left out.
type Refusal struct {
	Status int
	Says   string
	Of     any
	Kind   string
}

// Parameter is a part of a path or of a query.
type Parameter struct {
	Name     string
	Says     string
	Example  any // a text or a number
	Required bool
}

// Body describes the body of a request.
type Body struct {
	Schema   Schema
	Example  any
	Optional bool
}

// pathParameter finds the parameters of a path.
var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// Document is the API as OpenAPI 3.1 has it.
func (a *API) Document() Schema {
	paths := Schema{}
	for _, o := range a.Operations {
		if o.Tag == "" {
			continue
		}
		method, path, _ := strings.Cut(o.Route, " ")
		if paths[path] == nil {
			paths[path] = Schema{}
		}
		paths[path].(Schema)[strings.ToLower(method)] = a.operation(o, method, path)
	}
	return Schema{
		"openapi":  "3.1.0",
		"info":     Schema{"title": a.Title, "version": a.Version, "description": a.Says},
		"servers":  []any{Schema{"url": "/"}},
		"security": []any{Schema{"bearer": []any{}}, Schema{"basic": []any{}}, Schema{}},
		"paths":    paths,
		"components": Schema{"schemas": a.Schemas.Named, "securitySchemes": Schema{
			"bearer": Schema{"type": "http", "scheme": "bearer", "description": "admin.token. None is needed on loopback where admin.token is not set."},
			"basic":  Schema{"type": "http", "scheme": "basic", "description": "admin.token as the password, with any user name."},
		}},
	}
}

func (a *API) operation(o Operation, method, path string) Schema {
	all := Schema{
		"operationId": operationID(method, path), "tags": []any{o.Tag}, "summary": o.Says,
		"responses": a.responses(o),
	}
	if parameters := a.parameters(o, path); len(parameters) > 0 {
		all["parameters"] = parameters
	}
	if o.Body != nil {
		all["requestBody"] = Schema{"required": !o.Body.Optional, "content": Schema{"application/json": Schema{"schema": o.Body.Schema, "example": o.Body.Example}}}
	}
	if o.Open {
		all["security"] = []any{}
	}
	return all
}

// operationID makes a name for generated code of a method and a path, in camel case.
func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}._", r) })
	id := strings.ToLower(method)
	for _, word := range words {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

func (a *API) parameters(o Operation, path string) (list []any) {
	for _, found := range pathParameter.FindAllStringSubmatch(path, -1) {
		p := a.Parameters[found[1]]
		p.Name, p.Required = found[1], true
		list = append(list, p.in("path"))
	}
	for _, p := range o.Query {
		list = append(list, p.in("query"))
	}
	return list
}

func (p Parameter) in(place string) Schema {
	kind := "string"
	if _, number := p.Example.(int); number {
		kind = "integer"
	}
	return Schema{"name": p.Name, "in": place, "required": p.Required, "description": p.Says, "schema": Schema{"type": kind}, "example": p.Example}
}

func (a *API) responses(o Operation) Schema {
	kind := cmp.Or(o.Kind, "application/json")
	all := Schema{"200": a.response("The answer.", kind, o.Answer)}
	for _, r := range o.Refuses {
		r.Says = cmp.Or(r.Says, a.Refusals[r.Status])
		if r.Of == nil {
			r.Of = a.Problem
		}
		r.Kind = cmp.Or(r.Kind, "application/problem+json")
		all[strconv.Itoa(r.Status)] = a.response(r.Says, r.Kind, r.Of)
	}
	return all
}

func (a *API) response(says, kind string, of any) Schema {
	schema, given := of.(Schema)
	if !given {
		schema = a.Schemas.Of(of).(Schema)
	}
	return Schema{"description": says, "content": Schema{kind: Schema{"schema": schema}}}
}

// Request is the schema of a struct of a request, in which some fields are required.
func (s *Schemas) Request(of any, required ...string) Schema {
	schema := s.object(reflect.TypeOf(of))
	delete(schema, "required")
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// Refuse are refusals of some statuses, about which there is nothing else to say.
func Refuse(statuses ...int) (list []Refusal) {
	for _, one := range statuses {
		if http.StatusText(one) == "" {
			panic(fmt.Sprintf("%d is no status", one))
		}
		list = append(list, Refusal{Status: one})
	}
	return list
}

// Either is one of several types.
func (s *Schemas) Either(of ...any) Schema {
	return Schema{"anyOf": lists.Map(of, s.Of)}
}

// Schema is a JSON Schema, or a part of the document.
type Schema = map[string]any

// Schemas are the schemas of types by their names, as encoding/json writes the types.
type Schemas struct {
	// Named are the schemas so far. It is not nil.
	Named map[string]any
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
		name := schemaName(t)
		if s.Named[name] == nil {
			s.Named[name] = Schema{} // a type may contain itself
			s.Named[name] = s.object(t)
		}
		return Schema{"$ref": "#/components/schemas/" + name}
	}
	return Schema{}
}

// schemaName is the name of a type in the document.
func schemaName(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

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
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Pointer: // which may be nil, so the fields are optional
			s.fields(f.Type.Elem(), func(name string, _ bool, schema any) { each(name, true, schema) })
			continue
		case f.Anonymous && tag == "":
			s.fields(f.Type, each)
			continue
		case name == "-" || !f.IsExported() || name == "":
			continue
		}
		each(name, strings.Contains(options, "omit"), s.field(schemaName(t)+"."+f.Name, f, options))
	}
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
