package tree

import (
	"fmt"
	"go/ast"
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
	file := parse(t, path, source)
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

// vague matches comments that say that something is what it does: "X is how Y", "X tells what Z".
var vague = regexp.MustCompile(`\b(is|are) (what|how|when|whose|where|which|whether|who)\b`)

func TestCommentsSayWhatSomethingDoes(t *testing.T) {
	for _, path := range program(t) {
		for _, group := range parse(t, path, read(t, path)).Comments {
			for _, comment := range group.List {
				if vague.MatchString(comment.Text) {
					t.Errorf("%s: begin with the name and a verb: %s", files.Position(comment.Pos()), comment.Text)
				}
			}
		}
	}
}

// identifier matches words that can only be names of code: names in camel case, and a type with a member.
var identifier = regexp.MustCompile(`\b[a-z]+[a-z0-9]*[A-Z]\w*\b|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b|\b[A-Z]\w*\.[A-Z]\w*\b`)

// products lists names of products, protocols and fields of others that look like identifiers.
var products = map[string]bool{
	"JavaScript": true, "WebSockets": true, "gRPC": true, "macOS": true, "openSUSE": true, "DigitalOcean": true, "OpenStack": true,
	"TimeoutStopSec": true, "StateDirectory": true, // settings of systemd
	"CertStorage": true, // an interface of goproxy
}

func TestNamesInCommentsExist(t *testing.T) {
	known := map[string]bool{}
	for _, path := range tree(t, ".go") {
		ast.Inspect(parse(t, path, read(t, path)), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				for _, word := range regexp.MustCompile(`\w+`).FindAllString(n.Value, -1) {
					known[word] = true
				}
			}
			return true
		})
	}
	for _, path := range tree(t, ".go") {
		for _, group := range parse(t, path, read(t, path)).Comments {
			for _, comment := range group.List {
				for _, name := range identifier.FindAllString(comment.Text, -1) {
					for _, part := range strings.Split(name, ".") {
						if !known[part] && !products[part] {
							t.Errorf("%s: there is no %s", files.Position(comment.Pos()), part)
						}
					}
				}
			}
		}
	}
}
