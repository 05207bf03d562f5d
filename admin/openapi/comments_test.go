package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write comments.json")

// sourceComments are the comments on types and fields of the files of a folder that are sent as
// JSON.
func sourceComments(t *testing.T, folder string, all map[string]string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					addComments(s, group.Doc, all)
				}
			}
		}
	}
}

// addComments adds those of a struct that has fields with JSON tags.
func addComments(s *ast.TypeSpec, doc *ast.CommentGroup, all map[string]string) {
	fields, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	name := strings.ToUpper(s.Name.Name[:1]) + s.Name.Name[1:]
	sent := false
	for _, field := range fields.Fields.List {
		if field.Tag == nil || !strings.Contains(field.Tag.Value, `json:"`) {
			continue
		}
		sent = true
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		if len(field.Names) > 0 && text != "" {
			all[name+"."+field.Names[0].Name] = strings.Join(strings.Fields(text), " ")
		}
	}
	if sent && doc.Text() != "" {
		all[name] = strings.Join(strings.Fields(doc.Text()), " ")
	}
}

func TestTheDescriptionsAreTheCommentsInTheSource(t *testing.T) {
	all := map[string]string{}
	for _, folder := range []string{"..", "../../status"} {
		sourceComments(t, folder, all)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(all); err != nil || len(all) < 80 {
		t.Fatalf("%d comments, %v", len(all), err)
	}
	if *update {
		if err := os.WriteFile("comments.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), commentsText) {
		t.Error("comments.json is not of this source; write it by: go test ./admin/openapi -update")
	}
}
