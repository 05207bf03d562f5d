package tree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode"
)

// oldWords are words that no identifier may contain, with the usual term for each. A word
// is a part of a camelCase name: the word "pour" is in pourOut, and not in pouring.
var oldWords = map[string]string{
	// queue
	"seat": "waiter", "lane": "request group", "toll": "blocked time", "stir": "mark dirty",
	"foresee": "estimate", "displace": "evict",
	// bytes
	"purse": "site budget", "pouch": "budget tag", "tap": "byte source", "pour": "take, add", "thirst": "waiting bytes",
	"thirsty": "blocked", "sated": "previous", "parched": "recheck", "redeem": "take, unreserve", "brakes": "pausable deadlines",
	"stint": "for a tunnel", "grain": "minimum",
	// the path of a request
	"tales": "broadcasts", "memories": "persistence", "wish": "request options", "errands": "background", "errand": "task",
	"likeness": "key", "bearer": "token use", "equip": "acquire token, set meter", "convict": "quarantine", "depart": "start",
	"embark": "admit", "pursue": "send until done", "party": "breaker key", "homeward": "rewrite redirects", "outing": "permit request",
	"fate": "outcome", "wonder": "rejection",
	// ledger
	"shelf": "candidates", "trail": "recent use", "kin": "siblings", "tale": "window report", "shed": "evict", "uproot": "forget",
	// limit, lease, store
	"heights": "high water", "fog": "ambiguous until", "bell": "on due", "soil": "mark unwritten",
	"vain": "fruitless returns", "chores": "maintenance",
	// admin, cmd
	"desk": "API", "sheet": "view", "guesses": "login throttle",
}

// legitimate are names that may contain an old word, since it is the usual term there.
var legitimate = map[string]bool{
	"Bearer": true, "bearer": true, // the scheme of the Authorization header
	"thirdParty": true, // licenses of other projects
	"Wish":       true, // the code of a problem document, which is public
}

func TestNamesAreUsualTerms(t *testing.T) {
	for _, path := range tree(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, fault := range oldWordsIn(t, path, read(t, path)) {
			t.Error(fault)
		}
	}
}

func TestAnOldWordIsFound(t *testing.T) {
	for name, old := range map[string]bool{
		"purse": true, "sitePurse": true, "PurseOf": true, "purses": false, "lease": false, "Bearer": false, "HTTPTap": true, "adapt": false,
	} {
		source := "package p\n\nvar " + name + " int\n"
		if faults := oldWordsIn(t, "p.go", []byte(source)); (len(faults) > 0) != old {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// oldWordsIn are the faults of the identifiers that a file declares.
func oldWordsIn(t *testing.T, path string, source []byte) (faults []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := map[*ast.Ident]bool{} // names after a dot, which may be another module's
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			elsewhere[n.Sel] = true
		case *ast.Ident:
			if elsewhere[n] {
				break
			}
			for _, word := range wordsOf(n.Name) {
				if use, old := oldWords[word]; old && !legitimate[n.Name] {
					faults = append(faults, fmt.Sprintf("%s: the name %s has the word %q: use %s", files.Position(n.Pos()), n.Name, word, use))
				}
			}
		}
		return true
	})
	return faults
}

// wordsOf are the words of a camelCase name, in lower case.
func wordsOf(name string) (words []string) {
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		switch {
		case i == len(runes),
			unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]),                    // siteBudget
			i+1 < len(runes) && unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i+1]), // HTTPTap
			runes[i] == '_':
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_0123456789")))
			start = i
		}
	}
	return words
}
