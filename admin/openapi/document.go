package openapi

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
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
	Route string
	Tag   string
	Says  string // a sentence
	Query []Parameter
	Body  *Body
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
		method, path, _ := strings.Cut(o.Route, " ")
		if paths[path] == nil {
			paths[path] = Schema{}
		}
		paths[path].(Schema)[strings.ToLower(method)] = a.operation(o, method, path)
	}
	return Schema{
		"openapi":    "3.1.0",
		"info":       Schema{"title": a.Title, "version": a.Version, "description": a.Says},
		"servers":    []any{Schema{"url": "/"}},
		"security":   []any{Schema{"bearer": []any{}}, Schema{"basic": []any{}}, Schema{}},
		"paths":      paths,
		"components": a.components(),
	}
}

func (a *API) components() Schema {
	return Schema{
		"schemas": a.Schemas.named,
		"securitySchemes": Schema{
			"bearer": Schema{"type": "http", "scheme": "bearer", "description": "admin.token. None is needed on loopback where admin.token is not set."},
			"basic":  Schema{"type": "http", "scheme": "basic", "description": "admin.token as the password, with any user name."},
		},
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
		all["requestBody"] = o.Body.content()
	}
	if o.Open {
		all["security"] = []any{}
	}
	return all
}

// operationID makes a name for generated code of a method and a path, in camel case.
func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}._", r) })
	var b strings.Builder
	b.WriteString(strings.ToLower(method))
	for _, word := range words {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
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

func (b *Body) content() Schema {
	return Schema{"required": !b.Optional, "content": Schema{"application/json": Schema{"schema": b.Schema, "example": b.Example}}}
}

func (a *API) responses(o Operation) Schema {
	kind := cmp.Or(o.Kind, "application/json")
	all := Schema{"200": a.response("The answer.", kind, o.Answer)}
	for _, r := range o.Refuses {
		if r.Says == "" {
			r.Says = a.Refusals[r.Status]
		}
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
	list := make([]any, len(of))
	for i, one := range of {
		list[i] = s.Of(one)
	}
	return Schema{"anyOf": list}
}
