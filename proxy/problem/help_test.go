package problem

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

func TestEveryAnswerOfAbideIsExplainedInTheDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
	reasons := answerReasons(t)
	if len(reasons) < 40 {
		t.Fatalf("only %d reasons were found in the source: %v", len(reasons), reasons)
	}
	for reason := range reasons {
		if n := strings.Count(string(page), `<a id="`+reason+`"></a>`); n != 1 {
			t.Errorf("%s has the anchor <a id=%q></a> %d times", troubleshooting, reason, n)
		}
	}
}

func TestAProblemDocumentLinksToItsExplanation(t *testing.T) {
	var got struct{ Type, Help string }
	if err := json.NewDecoder(TooLong.Response(&http.Request{}, "api.test").Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "urn:abide:wait" || !strings.HasSuffix(got.Help, "/"+troubleshooting+"#wait") {
		t.Errorf("the type is %q and the help %q", got.Type, got.Help)
	}
}

// answerReasons are the reasons of every value of type Problem that the source of
// this package writes down.
func answerReasons(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for fault := range ofTLS { // whose reasons are the names of the faults
		reasons[fault.String()] = true
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if isAnswer(literal.Type) {
				addReason(t, reasons, literal)
			}
			// In a map or list of answers the type of each is left out.
			if holdsAnswers(literal.Type) {
				for _, element := range literal.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						element = pair.Value
					}
					if compositeLit, ok := element.(*ast.CompositeLit); ok && compositeLit.Type == nil {
						addReason(t, reasons, compositeLit)
					}
				}
			}
			return true
		})
	}
	return reasons
}

func isAnswer(expression ast.Expr) bool {
	if pointer, ok := expression.(*ast.StarExpr); ok {
		expression = pointer.X
	}
	name, ok := expression.(*ast.Ident)
	return ok && name.Name == "Problem"
}

func holdsAnswers(expression ast.Expr) bool {
	switch kind := expression.(type) {
	case *ast.MapType:
		return isAnswer(kind.Value)
	case *ast.ArrayType:
		return isAnswer(kind.Elt)
	}
	return false
}

func addReason(t *testing.T, reasons map[string]bool, literal *ast.CompositeLit) {
	t.Helper()
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if name, ok := pair.Key.(*ast.Ident); !ok || name.Name != "Reason" {
			continue
		}
		text, ok := pair.Value.(*ast.BasicLit)
		if !ok {
			t.Errorf("the reason of an answer is not a plain string, so nobody can look whether %s explains it", troubleshooting)
			continue
		}
		reason, err := strconv.Unquote(text.Value)
		if err != nil {
			t.Fatal(err)
		}
		reasons[reason] = true
	}
}
