package policy

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// inURL escapes what a path may have, and a user, a password or an option may not.
var inURL = strings.NewReplacer("@", "%40", "&", "%26", "+", "%2B", "=", "%3D", ":", "%3A")

// expand replaces ${NAME} in a secret. Its errors name variables, never what
// they hold nor what stands around them. Inside of a longer URL a variable is
// taken literally, so a password needs no percent-encoding.
func (l *loading) expand(s string, kind text) (string, error) {
	var b strings.Builder
	for whole := s; ; {
		before, rest, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if s, found = strings.CutPrefix(rest, "$"); found {
			b.WriteByte('$')
			continue
		}
		rest, found = strings.CutPrefix(rest, "{")
		if !found {
			return "", errors.New("has a lone $; write ${NAME} for a variable, $$ for a $ itself")
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("has a ${ that nothing closes; write $$ for a $ itself")
		}
		if !variableName.MatchString(name) {
			return "", errors.New("has a ${…} that is not the name of a variable; write $$ for a $ itself")
		}
		l.used[name] = true
		value, ok := l.lookup(name)
		switch {
		case !ok:
			return "", fmt.Errorf("refers to the variable %s, which is not set", name)
		case value == "":
			return "", fmt.Errorf("refers to the variable %s, which is empty", name)
		case kind == secretURL && whole != "${"+name+"}":
			value = inURL.Replace(url.PathEscape(value))
		}
		b.WriteString(value)
		s = after
	}
}
