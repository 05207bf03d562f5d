package tree

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// smallFolder is the number of files of a package up to which a circle is no trouble.
const smallFolder = 6

// tangled lists the packages of which more than half of the files need each other's declarations
// in a circle, so that nobody can read one of them alone. It only gets shorter.
var tangled = []string{"limit/queue", "policy", "proxy/dispatch", "proxy/upstream"}

func TestFilesDoNotNeedEachOtherInACircle(t *testing.T) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", `{{.ImportPath}};{{.Export}};{{join .GoFiles " "}}`, "./...")
	list.Dir, list.Stderr = root, t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, folders := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSpace(line), ";")
		exports[row[0]] = row[1]
		if folder, ours := strings.CutPrefix(row[0], module); ours {
			folders[folder] = strings.Fields(row[2])
		}
	}
	from := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		names := folders[folder]
		if len(names) <= smallFolder {
			continue
		}
		sources := make([]*ast.File, len(names))
		for i, name := range names {
			path := filepath.Join(folder, name)
			sources[i] = parse(t, path, read(t, path))
		}
		circle := largestCircle(needs(t, from, sources))
		tangles, listed := 2*len(circle) > len(names), slices.Contains(tangled, folder)
		if tangles && !listed {
			t.Errorf("%s: %d of %d files need each other in a circle: move what a low file needs out of a high one\n%s", folder, len(circle), len(names), strings.Join(circle, " "))
		} else if listed && !tangles {
			t.Errorf("%s has only %d of %d files in a circle, so it leaves tangled", folder, len(circle), len(names))
		}
	}
	for _, folder := range tangled {
		if folders[folder] == nil {
			t.Errorf("tangled lists %s, which does not exist", folder)
		}
	}
}

func TestACircleIsFound(t *testing.T) {
	var sources []*ast.File
	for name, text := range map[string]string{
		"a": "func a() { b() }", "b": "func b() { var t T; t.c() }", "c": "type T struct{}\nfunc (T) c() { a() }", "d": "func d() { a() }",
	} {
		source, err := parser.ParseFile(files, name, "package p\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	if circle := largestCircle(needs(t, nil, sources)); !slices.Equal(circle, []string{"a", "b", "c"}) {
		t.Errorf("the circle has the files %v", circle)
	}
}

// needs returns for each file of a package the others whose declarations, fields or methods it uses.
func needs(t *testing.T, from types.Importer, sources []*ast.File) map[string]map[string]bool {
	t.Helper()
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	ours, err := (&types.Config{Importer: from}).Check(sources[0].Name.Name, files, sources, info)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{}
	for _, source := range sources {
		found[fileAt(source)] = map[string]bool{}
	}
	for name, used := range info.Uses {
		if method, isFunction := used.(*types.Func); isFunction {
			used = method.Origin()
		}
		if used.Pkg() == ours && fileAt(used) != fileAt(name) {
			found[fileAt(name)][fileAt(used)] = true
		}
	}
	return found
}

// fileAt returns the name of the file that declares or uses something.
func fileAt(at interface{ Pos() token.Pos }) string {
	return filepath.Base(files.Position(at.Pos()).Filename)
}

// largestCircle returns the names of the most nodes of a graph that all reach each other.
func largestCircle(graph map[string]map[string]bool) (most []string) {
	reached := map[string]map[string]bool{}
	var visit func(from, at string)
	visit = func(from, at string) {
		for next := range graph[at] {
			if !reached[from][next] {
				reached[from][next] = true
				visit(from, next)
			}
		}
	}
	for from := range graph {
		reached[from] = map[string]bool{}
		visit(from, from)
	}
	for from := range graph {
		circle := slices.DeleteFunc(slices.Sorted(maps.Keys(reached[from])), func(other string) bool { return !reached[other][from] })
		if len(circle) > len(most) {
			most = circle
		}
	}
	return most
}
