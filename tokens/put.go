package tokens

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/policy"
)

// placement writes a secret into requests, at the configured place. It is immutable and
// holds no secret.
type placement struct {
	where policy.Placement
	name  string // name of the header, in canonical form, or of the parameter
	param string // the name, escaped for a query
}

// newPlacement checks and compiles a configured place.
func newPlacement(p policy.Placement) (*placement, error) {
	put := &placement{where: p}
	switch p.Where {
	case "header":
		put.name = textproto.CanonicalMIMEHeaderKey(p.Name)
	case "basic":
		put.name = "Authorization"
	case "query":
		put.name, put.param = policy.ParameterName(p.Name), p.Name
	default:
		return nil, errors.New("a token goes into a header, a query parameter or basic credentials")
	}
	if put.name == "" {
		return nil, errors.New("the place for a token has no name")
	}
	return put, nil
}

// Apply writes a secret into a request, once, and replaces all that the request had at that
// place. It changes the header map and, for a query, the URL that the request points at: a
// caller that shares these with another request must copy them before.
func (p *placement) Apply(r *http.Request, secret policy.Secret) {
	if p.param != "" {
		r.URL.RawQuery = p.query(r.URL.RawQuery, p.param+"="+url.QueryEscape(p.value(secret)))
		return
	}
	p.Strip(r)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header[p.name] = []string{p.value(secret)}
}

// Strip removes the credential at this place from the request, whether the client sent it
// or Apply wrote it.
func (p *placement) Strip(r *http.Request) {
	switch {
	case p.param != "":
		r.URL.RawQuery = p.query(r.URL.RawQuery, "")
	default:
		deleteHeader(r.Header, p.name)
		deleteHeader(r.Trailer, p.name)
		if p.name == "Authorization" && r.URL != nil && r.URL.User != nil {
			r.URL.User = nil // net/http would make an Authorization header of it
		}
	}
}

// value is the text of the header or parameter.
func (p *placement) value(secret policy.Secret) string {
	s := p.where.Before + secret.Reveal() + p.where.After
	if p.where.Where == "basic" {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

// deleteHeader deletes a header under all spellings that some server takes for this header.
func deleteHeader(h http.Header, name string) {
	for other := range h {
		if redact.SameName(other, name) {
			delete(h, other)
		}
	}
}

// query returns the raw query with pair as the only parameter of its name.
func (p *placement) query(raw, pair string) string {
	return policy.WithParameter(raw, pair, func(name string) bool { return strings.EqualFold(name, p.name) })
}

// Finder returns a finder of the secret, for answers that may repeat it, such as a redirect
// to the same URL. It is nil without a secret.
func (p *placement) Finder(secret policy.Secret) *redact.Finder {
	s := secret.Reveal()
	if s == "" {
		return nil
	}
	if p.where.Where != "basic" {
		return redact.New(s)
	}
	const minPasswordLength = 8 // the length from which the password of a pair is looked for on its own
	all := []string{s, strings.TrimPrefix(p.value(secret), "Basic ")}
	if _, password, ok := strings.Cut(s, ":"); ok && len(password) >= minPasswordLength {
		all = append(all, password)
	}
	return redact.New(all...)
}
