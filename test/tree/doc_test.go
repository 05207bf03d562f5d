package tree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestCommentsBeginWithTheName refuses a comment that describes a declaration under another
// name, which is often the old name of a declaration that was renamed. Tests, benchmarks and
// fuzz tests are exempt: their names are sentences, which their comments explain.
func TestCommentsBeginWithTheName(t *testing.T) {
	for _, path := range tree(t, ".go") {
		for _, fault := range misnamedIn(t, path, read(t, path)) {
			t.Error(fault)
		}
	}
}

func TestAMisnamedCommentIsFound(t *testing.T) {
	for source, misnamed := range map[string]bool{
		"// f finds.\nfunc f() {}":                 false,
		"// f, which finds.\nfunc f() {}":          false,
		"// g finds.\nfunc f() {}":                 true,
		"// finder finds.\nfunc find() {}":         true,
		"// A T is a thing.\ntype T int":           false,
		"// The U is a thing.\ntype T int":         true,
		"type (\n\t// A V is a thing.\n\tT int\n)": true,
		"func f() {}":                              false,
		"// What it shows.\nfunc TestIt() {}":      false,
		"//go:noinline\nfunc f() {}":               false,
		"// find does.\nfunc (T) find() {}":        false,
		"// search does.\nfunc (T) find() {}":      true,
	} {
		if faults := misnamedIn(t, "p.go", []byte("package p\n\n"+source+"\n")); (len(faults) > 0) != misnamed {
			t.Errorf("%q: %v", source, faults)
		}
	}
}

var isTest = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]`)

// misnamedIn returns the functions, methods and types of a file whose comments begin with another name.
func misnamedIn(t *testing.T, path string, source []byte) (faults []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name *ast.Ident, comment *ast.CommentGroup) {
		if text := comment.Text(); text != "" && !beginsWith(text, name.Name) {
			first, _, _ := strings.Cut(text, "\n")
			faults = append(faults, fmt.Sprintf("%s: the comment of %s begins with %q: begin with the name", files.Position(name.Pos()), name.Name, first))
		}
	}
	for _, declared := range file.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			if !isTest.MatchString(declared.Name.Name) {
				check(declared.Name, declared.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					comment := spec.Doc
					if !declared.Lparen.IsValid() {
						comment = declared.Doc
					}
					check(spec.Name, comment)
				}
			}
		}
	}
	return faults
}

// beginsWith says whether a comment begins with a name, after an article at most.
func beginsWith(comment, name string) bool {
	for _, article := range []string{"A ", "An ", "The "} {
		if rest, ok := strings.CutPrefix(comment, article); ok && name+" " != article {
			comment = rest
			break
		}
	}
	rest, ok := strings.CutPrefix(comment, name)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && (rest == "" || next != '_' && !unicode.IsLetter(next) && !unicode.IsDigit(next))
}
