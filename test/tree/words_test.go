package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// oldWords are words that no identifier may contain, with the usual term for each. A word
// is a part of a name in camel case: "pour" is a word of an identifier "pour Out" without its space, and not of "pouring".
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

// oldWordsIn returns the faults of the identifiers that a file declares.
func oldWordsIn(t *testing.T, path string, source []byte) (faults []string) {
	t.Helper()
	file := parse(t, path, source)
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

// wordsOf returns the words of a name in camel case, in lower case.
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

// code matches the codes of a list that is not in the tree, such as CR, a dash and two digits.
var code = regexp.MustCompile(`\b[A-Z]{2}-[0-9]{2}\b|\bTest[A-Z][0-9]_`)

func TestNothingIsNamedByACode(t *testing.T) {
	for _, path := range tree(t, ".go") {
		for n, line := range strings.Split(string(read(t, path)), "\n") {
			if found := code.FindString(line); found != "" {
				t.Errorf("%s:%d: %q says nothing to a reader: use words", path, n+1, found)
			}
		}
	}
}

// grammar lists words that say nothing of a variable. A range loop may have them.
var grammar = map[string]bool{"is": true, "no": true, "one": true, "own": true}

func TestVariablesAreNamedByWhatTheyAre(t *testing.T) {
	for _, path := range tree(t, ".go") {
		for _, fault := range grammarIn(parse(t, path, read(t, path))) {
			t.Error(fault)
		}
	}
}

func TestAVariableNamedByGrammarIsFound(t *testing.T) {
	for source, wrong := range map[string]bool{
		"func f() { is := 1 }":                         true,
		"func f() { _, is := m[1] }":                   true,
		"func f() { var no error }":                    true,
		"func f(one int) {}":                           true,
		"func f() (own int) { return }":                true,
		"func f() { g(func(is bool) {}) }":             true,
		"func f() { for _, one := range m {} }":        false,
		"func f() { x := 1; x.is = 2 }":                false,
		"type T struct { own int }":                    false,
		"const ( yes = iota; no )":                     false,
		"func f() { for no := range m { one := no } }": true,
	} {
		if faults := grammarIn(parse(t, "p.go", []byte("package p\n\n"+source+"\n"))); (len(faults) > 0) != wrong {
			t.Errorf("%s: %v", source, faults)
		}
	}
}

// grammarIn returns the faults of the variables, parameters and results that a file declares.
func grammarIn(file *ast.File) (faults []string) {
	check := func(names ...ast.Expr) {
		for _, name := range names {
			if id, ok := name.(*ast.Ident); ok && grammar[id.Name] {
				faults = append(faults, fmt.Sprintf("%s: name the variable %s by what it is", files.Position(id.Pos()), id.Name))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				check(n.Lhs...)
			}
		case *ast.GenDecl:
			return n.Tok != token.CONST // beside yes, no is a usual name
		case *ast.ValueSpec:
			for _, name := range n.Names {
				check(name)
			}
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.Params, n.Results} {
				for _, field := range fieldsOf(list) {
					for _, name := range field.Names {
						check(name)
					}
				}
			}
		}
		return true
	})
	return faults
}

func fieldsOf(list *ast.FieldList) []*ast.Field {
	if list == nil {
		return nil
	}
	return list.List
}
