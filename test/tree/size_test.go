package tree

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	longest     = 500 // lines of a file: above, it hides another noun
	shortest    = 60  // lines of a file: below, it is a part of another one
	mostFields  = 30  // of a struct, with those of the structs of its package that it embeds
	mostMethods = 50  // the same of its methods
	deepest     = 1   // levels of embedded structs of the same package
)

// mostLines is the sum of the lines of Go outside of tests, their rigs and benches. It only falls:
// who adds a capability takes as much away elsewhere.
const mostLines = 96_586

// rigs are folders of which only tests make use.
var rigs = []string{"store/budget/lease/fleet/", "store/redistest/", "store/reference/", "jobs/output/pgtest/", "jobs/jobstest/", "proxy/dispatch/dispatchtest/", "test/"}

// largeTypes lists the types over these numbers. It only gets shorter.
var largeTypes = map[string]string{}

// shortFiles lists the files below the shortest, each with its reason. doc.go and files with a
// build tag have one.
var shortFiles = map[string]string{
	"admin/explain.go":              "an endpoint, or what several share",
	"cmd/abide/main.go":             "a command, or the end of all",
	"cmd/abide/schema.go":           "a command, or the end of all",
	"cmd/abide/version.go":          "a command, or the end of all",
	"internal/alive/alive.go":       "a package of its own",
	"internal/disk/disk.go":         "a package of its own",
	"internal/lists/lists.go":       "a package of its own",
	"internal/shorten/shorten.go":   "a package of its own",
	"internal/signal/signal.go":     "a package of its own",
	"proxy/dispatch/robots.go":      "what robots.txt asks of a request",
	"store/reference/unreliable.go": "a rig of tests",
	"tools/systems/main.go":         "a tool",
}

// system matches files of one operating system.
var system = regexp.MustCompile(`_(linux|windows|darwin|unix)\.go$`)

func TestNoFileIsTooLong(t *testing.T) {
	for _, path := range tree(t, ".go") {
		if n := bytes.Count(read(t, path), []byte("\n")); n > longest {
			t.Errorf("%s has %d lines, more than %d", path, n, longest)
		}
	}
}

func TestAFileIsComplete(t *testing.T) {
	for _, path := range program(t) {
		text := read(t, path)
		n := bytes.Count(text, []byte("\n"))
		short := n < shortest && filepath.Base(path) != "doc.go" && !bytes.Contains(text, []byte("//go:build")) && !system.MatchString(path)
		if _, listed := shortFiles[path]; short && !listed {
			t.Errorf("%s has only %d lines: which file has the type that it serves?", path, n)
		} else if listed && !short {
			t.Errorf("%s has %d lines, so it leaves shortFiles", path, n)
		}
	}
	for path := range shortFiles {
		if !slices.Contains(program(t), path) {
			t.Errorf("shortFiles lists %s, which does not exist", path)
		}
	}
	if len(shortFiles) > 60 {
		t.Errorf("%d files are shorter than %d lines", len(shortFiles), shortest)
	}
}

func TestTheSumOfLinesOnlyFalls(t *testing.T) {
	sum := 0
	for _, path := range program(t) {
		if !slices.ContainsFunc(rigs, func(folder string) bool { return strings.HasPrefix(path, folder) }) {
			sum += bytes.Count(read(t, path), []byte("\n"))
		}
	}
	switch {
	case sum > mostLines:
		t.Errorf("%d lines, %d more than mostLines: take as many away elsewhere", sum, sum-mostLines)
	case sum < mostLines-100:
		t.Errorf("%d lines: lower mostLines, which is %d", sum, mostLines)
	}
}

func TestTypesAreSmallWithWhatTheyEmbed(t *testing.T) {
	found := map[string]string{}
	for folder, structs := range structsOf(t, program(t)) {
		for name := range structs {
			fields, methods, levels := structs.whole(name)
			if fields > mostFields || methods > mostMethods || levels > deepest {
				found[folder+"."+name] = fmt.Sprintf("%d fields, %d methods, %d levels", fields, methods, levels)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if largeTypes[name] == "" {
			t.Errorf("%s has %s with what it embeds: at most %d, %d and %d", name, found[name], mostFields, mostMethods, deepest)
		}
	}
	for name := range largeTypes {
		if found[name] == "" {
			t.Errorf("%s is small now, so it leaves largeTypes", name)
		}
	}
}

func TestALargeTypeIsFound(t *testing.T) {
	source := "package p\ntype a struct { b; x, y int }\ntype b struct { *c; z int }\ntype c struct { s []b }\nfunc (a) f() {}\nfunc (*b) g() {}\nfunc (c) h() {}\n"
	structs := make(structs)
	structs.add(parse(t, "p.go", []byte(source)))
	if fields, methods, levels := structs.whole("a"); fields != 4 || methods != 3 || levels != 2 {
		t.Errorf("%d fields, %d methods, %d levels", fields, methods, levels)
	}
}

// structs are the types of a package by name.
type structs map[string]*shape

// shape is the size of a type without the structs that it embeds, and the names of these.
type shape struct {
	is              bool // a struct
	saved           bool // plain data: every field has a tag
	fields, methods int
	embedded        []string
}

// structsOf returns the types of each folder of some files.
func structsOf(t *testing.T, paths []string) map[string]structs {
	t.Helper()
	found := map[string]structs{}
	for _, path := range paths {
		folder := filepath.Dir(path)
		if found[folder] == nil {
			found[folder] = make(structs)
		}
		found[folder].add(parse(t, path, read(t, path)))
	}
	return found
}

func (s structs) get(name string) *shape {
	if s[name] == nil {
		s[name] = &shape{}
	}
	return s[name]
}

// add counts the types and methods of a file.
func (s structs) add(file *ast.File) {
	for _, declared := range file.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			if declared.Recv != nil {
				s.get(nameOf(declared.Recv.List[0].Type)).methods++
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				spec, isType := spec.(*ast.TypeSpec)
				if !isType {
					continue
				}
				if fields, isStruct := spec.Type.(*ast.StructType); isStruct {
					s.get(spec.Name.Name).addFields(fields.Fields.List)
				}
			}
		}
	}
}

func (s *shape) addFields(list []*ast.Field) {
	s.is, s.saved = true, len(list) > 0
	for _, field := range list {
		s.saved = s.saved && field.Tag != nil
		if len(field.Names) == 0 {
			s.embedded = append(s.embedded, nameOf(field.Type))
		}
		s.fields += len(field.Names)
	}
}

// whole counts a type with the structs of its package that it embeds, and how many levels these have.
func (s structs) whole(name string) (fields, methods, levels int) {
	shape := s[name]
	if shape == nil || shape.saved {
		return 0, 0, 0
	}
	fields, methods = shape.fields, shape.methods
	for _, embedded := range shape.embedded {
		if other := s[embedded]; other == nil || !other.is {
			fields++ // an interface, or another package's
			continue
		}
		f, m, l := s.whole(embedded)
		fields, methods, levels = fields+f, methods+m, max(levels, l+1)
	}
	return fields, methods, levels
}

// nameOf returns the name of a type of the package itself, without pointer and type parameters.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.IndexListExpr:
		return nameOf(e.X)
	}
	return ""
}

// program returns the Go files that are no tests and no benches.
func program(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(tree(t, ".go"), func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "bench/")
	})
}
