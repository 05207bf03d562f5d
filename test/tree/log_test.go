package tree

import (
	"go/ast"
	"regexp"
	"testing"
)

// plainLines is the number of log calls without a field. It only falls: a line about a site, token,
// client, limit or with a reason has them as fields, so that a log in JSON can be filtered.
const plainLines = 20

var (
	logger = regexp.MustCompile(`^(log|Log|logger)$`)
	logs   = regexp.MustCompile(`^(Debug|Info|Warn|Error)f?$`)
)

func TestLinesOfTheLogHaveFields(t *testing.T) {
	var plain []string
	for _, path := range program(t) {
		for _, call := range plainCallsIn(parse(t, path, read(t, path))) {
			plain = append(plain, files.Position(call.Pos()).String())
		}
	}
	switch {
	case len(plain) > plainLines:
		t.Errorf("%d log calls have no field, more than %d: %q", len(plain), plainLines, plain)
	case len(plain) < plainLines:
		t.Errorf("%d log calls have no field: lower plainLines, which is %d", len(plain), plainLines)
	}
}

func TestALineWithoutFieldsIsFound(t *testing.T) {
	source := `package p
func f() {
	log.Warnf("a")
	x.log.Info("b")
	x.log.WithField("site", s).Warnf("c")
	g(log.Debugf)
	fmt.Errorf("d")
}
`
	if n := len(plainCallsIn(parse(t, "p.go", []byte(source)))); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// plainCallsIn returns the uses of a logger's methods without WithField, WithFields or WithError before them.
func plainCallsIn(file *ast.File) (found []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		use, ok := n.(*ast.SelectorExpr)
		if !ok || !logs.MatchString(use.Sel.Name) {
			return true
		}
		name := ""
		switch of := use.X.(type) {
		case *ast.Ident:
			name = of.Name
		case *ast.SelectorExpr:
			name = of.Sel.Name
		}
		if logger.MatchString(name) {
			found = append(found, use)
		}
		return true
	})
	return found
}
