// Package tokens keeps pools of credentials: it loads them, chooses which token is used
// next, and records which tokens a site has accepted, refused or denied.
//
// The usual calls:
//
//	loaded, err := tokens.Load(ctx, config, tokens.Surroundings{Lookup: os.LookupEnv})
//	pool, err := tokens.New(now, config, loaded, transport)
//
//	set := pool.Set()                         // the tokens, for one request
//	rank := set.Rank(i, &denials)             // the token with the least is the next
//	set.Chosen(i)
//	token := set.Tokens()[i]
//	until := pool.Begin(now, token, route)    // zero: the request may be sent
//	secret, err := set.Credential(ctx, token) // an access token, where the pool uses OAuth2
//	set.Placement().Apply(request, secret)
//	…
//	pool.Success(now, token, answer, &denials)  // or Deny, Fail, Cool, Spend
//
// SavedStates and Restore carry a pool's state over a restart, and a fleet shares
// quarantines by ApplyQuarantine. These name tokens by a one-way hash of
// the secret.
//
// Functions take the time as an argument, apart from the exchange of client
// credentials, which waits for a server. Nothing that this package prints contains a
// secret, and a Token prints as its label.
package tokens
