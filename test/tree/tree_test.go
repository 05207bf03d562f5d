package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNothingWaitsByTheClockOrIsLeftForLater(t *testing.T) {
	// Written apart, so that this file does not find itself.
	banned := regexp.MustCompile(`time\.Slee` + `p\(|\bt\.Ski` + `p|\bTO` + `DO\b|\bFIX` + `ME\b`)
	for _, path := range tree(t, ".go") {
		text := string(read(t, path))
		// In a bubble of synctest a clock that runs on its own is no wait.
		bubble := strings.Contains(text, `"testing/synctest"`)
		for n, line := range strings.Split(text, "\n") {
			found := banned.FindString(line)
			if found != "" && !(bubble && strings.HasPrefix(found, "time.")) {
				t.Errorf("%s:%d: %s", path, n+1, found)
			}
		}
	}
}

func TestTheReadmeNamesWhatIsThere(t *testing.T) {
	readme := string(read(t, "README.md"))
	for _, must := range []string{"go run ./cmd/abide", "make test", "HTTP_PROXY", "HTTPS_PROXY"} {
		if !strings.Contains(readme, must) {
			t.Errorf("the README does not have %q", must)
		}
	}
	for _, page := range append(tree(t, ".md"), "README.md") {
		links := regexp.MustCompile(`\]\(([^):#]+)[^)]*\)`).FindAllStringSubmatch(string(read(t, page)), -1)
		for _, link := range links {
			if link[1] == "https" { // another site's page
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}

func TestLinksToSectionsLeadToOne(t *testing.T) {
	pages := map[string][]string{}
	for _, page := range tree(t, ".md") {
		pages[page] = sections(string(read(t, page)))
	}
	for page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^):#]*)#([^)]+)\)`).FindAllStringSubmatch(string(read(t, page)), -1) {
			to := page
			if link[1] != "" {
				to = filepath.Join(filepath.Dir(page), link[1])
			}
			if all, ok := pages[to]; ok && !slices.Contains(all, link[2]) {
				t.Errorf("%s links to %s#%s, and there is no such section", page, link[1], link[2])
			}
		}
	}
}

// sections are the anchors of a page: those of its headings as GitHub makes them,
// and those that it writes down.
func sections(page string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	for _, anchor := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(page, -1) {
		all = append(all, anchor[1])
	}
	return all
}

// tree are the files of this repository with an ending, whoever wrote them; what
// tools have put there is left out.
func tree(t *testing.T, ending string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		path, _ = filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "bin" || entry.Name() == "dist" || strings.HasPrefix(entry.Name(), ".") && path != "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ending):
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parse returns the syntax of a Go file with its comments.
func parse(t *testing.T, path string, source []byte) *ast.File {
	t.Helper()
	if file, done := parsed[path]; done && path != "p.go" {
		return file
	}
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	parsed[path] = file
	return file
}

// parsed has the files that were parsed, by path. Examples of tests are called p.go.
var parsed = map[string]*ast.File{}

// files has the positions of every file that was parsed.
var files = token.NewFileSet()
