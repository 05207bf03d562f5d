package policy

// Pool is the tokens that may be used for a site. Its secrets come from exactly
// one of the sources in poolSources.
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
