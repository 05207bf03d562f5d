package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// A field without a tag, in a struct where others have one, is in the API under its Go name.
func TestEveryExportedFieldSaysItsNameInTheAPI(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok || !s.Name.IsExported() {
				return true
			}
			fields, ok := s.Type.(*ast.StructType)
			if !ok {
				return true
			}
			tagged := func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`) }
			if !slices.ContainsFunc(fields.Fields.List, tagged) {
				return true // no part of an answer
			}
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					if seen++; name.IsExported() && !tagged(field) {
						t.Errorf("%s: %s.%s has no json tag", f.Name(), s.Name, name)
					}
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no field was seen")
	}
}
