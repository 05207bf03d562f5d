package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Pool is the tokens that may be used for a site. Its secrets come from exactly
// one of the sources in sourceFields.
type Pool struct {
	Name string

	File    string // absolute; a CSV with a header row, or lines
	Column  string // of the CSV, that holds the secret
	Label   string // of the CSV, that holds the label; "" is the row's number
	Account string // of the CSV, that holds the account; "" is an account for each token
	Env     string // a variable with comma separated secrets
	Dir     string // absolute; one secret a file
	Tokens  []Token

	Put       Placement
	OAuth2    OAuth2
	Reserve   Reserve
	Exhausted string  // wait | refuse
	Anonymous bool    // requests may go without a token when none is usable
	Limits    []Limit // each token's, at each site by itself; rules with the pool have them too

	Line int
}

// exhaustedText describes the treatment of requests while no token is usable.
func (p *Pool) exhaustedText() string {
	return "when none is usable, requests " + cmp.Or(when(p.Anonymous, "go without"), when(p.Exhausted == "refuse", "are refused"), "wait")
}

// Token is one credential of a pool.
type Token struct {
	Label   string
	Account string // tokens with the same one share its limits; "" is an account of its own
	Secret  Secret
	Line    int
}

// OAuth2 exchanges the pool's secrets, which are id:secret pairs, for tokens. An
// empty TokenURL turns it off.
type OAuth2 struct {
	TokenURL string
	Scopes   []string
}

// Reserve is the unspent part of every learned limit, in units or in percent.
type Reserve struct {
	Units   int64
	Percent float64
}

// String is the reserve as it is written, "0" for none.
func (r Reserve) String() string {
	if r.Percent > 0 {
		return strconv.FormatFloat(r.Percent, 'f', -1, 64) + "%"
	}
	return strconv.FormatInt(r.Units, 10)
}

// parseReserve reads units, 50, or a part, 1%.
func parseReserve(s string) (Reserve, error) {
	if part, ok := strings.CutSuffix(s, "%"); ok {
		n, err := scaled(part, 1e6)
		if err != nil || n >= 100e6 {
			return Reserve{}, fmt.Errorf("%s is not a part of less than 100%%", Quote(s))
		}
		percent, _ := strconv.ParseFloat(part, 64)
		return Reserve{Percent: percent}, nil
	}
	n, err := parseCount(s, 0, 1e15)
	return Reserve{Units: n}, err
}

// Placement is the place of a token in a request: a header, a query parameter or Basic credentials.
type Placement struct {
	Where  string // header | query | basic
	Name   string // of the header or the parameter
	Before string // text before the token in the value
	After  string // text after the token in the value
}

// String is the placement with "{token}" in place of the secret.
func (p Placement) String() string {
	place := map[string]string{"header": p.Name + ": ", "query": "query: " + p.Name + "=", "basic": "basic: "}[p.Where]
	return place + p.Before + tokenMark + p.After
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
		if reason := forbiddenHeader(p.Name); reason != "" {
			return Placement{}, fmt.Errorf("puts the token into %s, %s", p.Name, reason)
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

// variable reads the name of an environment variable, which then counts as used.
func (d *Decoder) variable(to *string) Value {
	v := d.Matching(to, variableName, "is not the name of a variable")
	return NewValue(func(n *yaml.Node, path string) {
		v.Read(n, path)
		d.loading.used[*to], d.loading.used[*to+fileSuffix] = true, true
	}, v.Schema).into(to)
}

// dialectText summarises the configured dialect, "" for none.
func (s *Site) dialectText() string {
	if s.Dialect == nil {
		return ""
	}
	count := func(n int, of string) string { return when(n > 0, plural(n, of)) }
	d := s.Dialect
	parts := given(count(len(d.Headers), "header"), count(len(d.Body), "member"), count(len(d.Refusals), "refusal"))
	return "a dialect of its own" + when(len(parts) > 0, ": "+strings.Join(parts, ", "))
}
