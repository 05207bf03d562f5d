package policy

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// Placement is where a token is placed: a header, a query parameter or Basic credentials.
type Placement struct {
	Where  string // header | query | basic
	Name   string // of the header or the parameter
	Before string // text before the token in the value
	After  string // text after the token in the value
}

// String is the placement with "{token}" in place of the secret.
func (p Placement) String() string {
	switch p.Where {
	case "header":
		return p.Name + ": " + p.Before + "{token}" + p.After
	case "query":
		return "query: " + p.Name + "=" + p.Before + "{token}" + p.After
	}
	return "basic: " + p.Before + "{token}" + p.After
}

const tokenMark = "{token}"

// parsePlacement reads "Name: before{token}after", "query: name={token}" and
// "basic: {token}". Its errors quote nothing of s, which may have the
// secret in place of {token}.
func parsePlacement(s string) (Placement, error) {
	where, value, ok := strings.Cut(s, ":")
	if !ok || strings.Count(s, tokenMark) != 1 || strings.Contains(where, tokenMark) {
		return Placement{}, errors.New(`is not a place for {token}, such as "Authorization: Bearer {token}", "query: api_key={token}" or "basic: {token}"`)
	}
	value = strings.TrimLeft(value, " ")
	var p Placement
	switch where {
	case "query":
		name, rest, ok := strings.Cut(value, "=")
		if !ok || name == "" || strings.Contains(name, tokenMark) || strings.ContainsAny(value, "&#? ") {
			return Placement{}, errors.New(`is not a query parameter, such as "query: api_key={token}"`)
		}
		p.Where, p.Name, value = "query", name, rest
	case "basic":
		p.Where = "basic"
	default:
		if !isHeaderName(where) {
			return Placement{}, errors.New(`does not begin with the name of a header, such as "Authorization: Bearer {token}"`)
		}
		p.Where, p.Name = "header", textproto.CanonicalMIMEHeaderKey(where)
		if err := forbiddenHeader(p.Name); err != nil {
			return Placement{}, err
		}
	}
	p.Before, p.After, _ = strings.Cut(value, tokenMark)
	for _, one := range p.Before + p.After {
		if one < ' ' || one == 0x7f {
			return Placement{}, errors.New("has a control character")
		}
	}
	return p, nil
}

// forbiddenHeader is the error of a header that no token may be in; nil for other headers.
// Forbidden are headers about the transport of a message, which do not reach the site, and
// abide's own. Some servers take _ for -.
func forbiddenHeader(name string) error {
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch {
	case strings.HasPrefix(plain, "abide-"):
		return fmt.Errorf("puts the token into %s, but headers that begin with Abide- are between clients and abide, and no site gets them", name)
	case strings.HasPrefix(plain, "proxy-"):
		return fmt.Errorf("puts the token into %s, which is for proxies and does not reach the site; write Authorization", name)
	}
	switch plain {
	case "host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "via":
		return fmt.Errorf("puts the token into %s, which is not a header for credentials", name)
	}
	return nil
}

// isHeaderName tells whether s may be the name of a header.
func isHeaderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// placementNode is what parsePlacement reads, as far as a pattern tells.
func placementNode() node {
	return patternNode(`^[^:]+:.*\{token\}`).suchAs("Authorization: Bearer {token}", "query: api_key={token}", "basic: {token}")
}
