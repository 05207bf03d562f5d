package tokens

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abide-proxy/abide/policy"
)

const (
	// maxSecretBytes is more than servers accept in one header.
	maxSecretBytes = 8192
	maxLabelBytes  = 128
	bom            = "\ufeff"
)

// trim removes white space and byte order marks, which editors and shells leave around a
// secret.
func trim(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), bom))
}

// secretFault describes what is wrong with a secret. The error does not quote the secret.
func secretFault(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	if len(s) > maxSecretBytes {
		return fmt.Errorf("is longer than %d bytes", maxSecretBytes)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	for _, r := range s {
		switch {
		case r == '\r' || r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return errors.New("has a line break inside")
		case r == 0:
			return errors.New("has a NUL byte inside")
		case unicode.IsSpace(r):
			return errors.New("has a space inside")
		case unicode.IsControl(r) || r == '\ufeff' || r == '\u200b':
			return errors.New("has an invisible character inside")
		}
	}
	return nil
}

// unusable tells why a secret cannot be used as the pool's configuration says.
func unusable(p *policy.Pool, s string) error {
	if p.OAuth2.TokenURL != "" {
		if id, secret, ok := strings.Cut(s, ":"); !ok || id == "" || secret == "" {
			return errors.New("is not id:secret, which oauth2 exchanges for a token")
		}
		return nil // requests carry the exchanged token, not this secret
	}
	return misplaced(p.Put, s)
}

// misplaced tells why a secret cannot stand in the configured place of a request.
func misplaced(p policy.Placement, s string) error {
	switch p.Where {
	case "basic":
		if !strings.Contains(p.Before+s+p.After, ":") {
			return errors.New(`is not id:secret, which basic needs; "basic: {token}:" is for a secret alone`)
		}
	case "header":
		if strings.ContainsFunc(p.Before+s+p.After, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return errors.New("has a character that is not ASCII, which no header carries unchanged")
		}
	}
	return nil
}

// labelFault describes what is wrong with a label.
func labelFault(s string) error {
	switch {
	case len(s) > maxLabelBytes:
		return fmt.Errorf("is longer than %d bytes", maxLabelBytes)
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("has an invisible character inside")
	}
	return nil
}
