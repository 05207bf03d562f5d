package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// parseLabel reads a text that is shown: short, printable and not empty.
func parseLabel(s string) (string, error) {
	const most = 200
	switch {
	case strings.TrimSpace(s) == "":
		return "", errors.New("is empty")
	case len(s) > most:
		return "", fmt.Errorf("is longer than %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", errors.New("has a control character")
	}
	return s, nil
}

// parseMethod reads a request method as it is sent, which is upper case in practice.
func parseMethod(s string) (string, error) {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return "", fmt.Errorf("%s is not a method such as GET%s", quote(s),
				didYouMean(s, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}))
		}
	}
	if s == "" {
		return "", errors.New("is empty")
	}
	return s, nil
}

func methodNode() node { return patternNode("^[A-Z]+$").suchAs("GET") }
