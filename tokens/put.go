package tokens

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/redact"
)

// Put places a secret in requests. It does not change and holds no secret; the nil
// one places nothing.
type Put struct {
	where policy.Put
	name  string // of the header, canonical, or of the parameter
	param string // the same as it stands in a query
}

// NewPut compiles where a token goes.
func NewPut(p policy.Put) (*Put, error) {
	put := &Put{where: p}
	switch p.Where {
	case "header":
		put.name = textproto.CanonicalMIMEHeaderKey(p.Name)
	case "basic":
		put.name = "Authorization"
	case "query":
		put.name, put.param = plain(p.Name), p.Name
	default:
		return nil, errors.New("a token goes into a header, a query parameter or basic credentials")
	}
	if put.name == "" {
		return nil, errors.New("the place for a token has no name")
	}
	return put, nil
}

// String is the place, without any secret.
func (p *Put) String() string {
	if p == nil {
		return "nowhere"
	}
	return p.where.String()
}

// Apply places a secret in a request, once, in place of all that the request had
// there. It changes the header map and, for a query, the URL that the request
// points at: whoever keeps that for other purposes gives the request another one
// before.
func (p *Put) Apply(r *http.Request, secret policy.Secret) {
	if p == nil {
		return
	}
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

// Strip removes what the request has where a token would go: what the client sent,
// or what Apply put there.
func (p *Put) Strip(r *http.Request) {
	switch {
	case p == nil:
	case p.param != "":
		r.URL.RawQuery = p.query(r.URL.RawQuery, "")
	default:
		drop(r.Header, p.name)
		drop(r.Trailer, p.name)
		if p.name == "Authorization" && r.URL != nil && r.URL.User != nil {
			r.URL.User = nil // which would become one
		}
	}
}

// value is what stands in the header or the parameter.
func (p *Put) value(secret policy.Secret) string {
	s := p.where.Before + secret.Reveal() + p.where.After
	if p.where.Where == "basic" {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

// drop deletes a header under all the names that some server takes for it.
func drop(h http.Header, name string) {
	for other := range h {
		if redact.SameName(other, name) {
			delete(h, other)
		}
	}
}

// query is a query with pair as the only one of its name: where the first was, or
// else at the end. All others stay as they are, to the byte.
func (p *Put) query(raw, pair string) string {
	if raw == "" {
		return pair
	}
	var b strings.Builder
	b.Grow(len(raw) + len(pair) + 1)
	first := true
	add := func(s string) {
		if !first {
			b.WriteByte('&')
		}
		first = false
		b.WriteString(s)
	}
	for part := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(part, "=")
		if !strings.EqualFold(plain(name), p.name) {
			add(part)
			continue
		}
		if pair != "" {
			add(pair)
			pair = ""
		}
	}
	if pair != "" {
		add(pair)
	}
	return b.String()
}

// plain is the name of a parameter as a server reads it.
func plain(name string) string {
	if s, err := url.QueryUnescape(name); err == nil {
		return s
	}
	return name
}

// leastPart is how long the password of a pair has to be to be looked for alone.
const leastPart = 8

// Finder finds a secret in what a site answers, such as a redirect to the same URL. It is
// nil where nothing is placed.
func (p *Put) Finder(secret policy.Secret) *redact.Finder {
	s := secret.Reveal()
	if p == nil || s == "" {
		return nil
	}
	if p.where.Where != "basic" {
		return redact.New(s)
	}
	all := []string{s, strings.TrimPrefix(p.value(secret), "Basic ")}
	if _, password, ok := strings.Cut(s, ":"); ok && len(password) >= leastPart {
		all = append(all, password)
	}
	return redact.New(all...)
}
