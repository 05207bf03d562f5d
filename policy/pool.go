package policy

import "strconv"

// Pool is the tokens that may be used for a site. Its secrets come from exactly
// one of File, Env, Dir and Tokens.
type Pool struct {
	Name string

	File   string // absolute; a CSV with a header row, or lines
	Column string // of the CSV, that holds the secret
	Label  string // of the CSV, that holds the label; "" is the row's number
	Env    string // a variable with comma separated secrets
	Dir    string // absolute; one secret a file
	Tokens []Token

	Put       Put
	OAuth2    OAuth2
	Reserve   Reserve
	Exhausted string  // wait | refuse
	Anonymous bool    // requests may go without a token when none is usable
	Limits    []Limit // each token's, at each site by itself; rules with the pool have them too

	Line int
}

// Pool is the pool with a name, or nil.
func (p *Policy) Pool(name string) *Pool {
	for i := range p.Pools {
		if p.Pools[i].Name == name {
			return &p.Pools[i]
		}
	}
	return nil
}

// Token is one credential of a pool.
type Token struct {
	Label  string
	Secret Secret
	Line   int
}

// Put is where a token goes: a header, a query parameter or Basic credentials.
type Put struct {
	Where  string // header | query | basic
	Name   string // of the header or the parameter
	Before string // what stands before the token in the value
	After  string // and behind it
}

// String is the place without any secret.
func (p Put) String() string {
	switch p.Where {
	case "header":
		return p.Name + ": " + p.Before + "{token}" + p.After
	case "query":
		return "query: " + p.Name + "=" + p.Before + "{token}" + p.After
	}
	return "basic: " + p.Before + "{token}" + p.After
}

// OAuth2 exchanges the pool's secrets, which are id:secret pairs, for tokens. An
// empty TokenURL turns it off.
type OAuth2 struct {
	TokenURL string
	Scopes   []string
}

// Reserve is what stays unspent of every learned limit, in units or in percent.
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
