// Package tokens keeps pools of credentials: where they come from, which of them
// goes next, and what a site has said of each.
//
// The usual calls:
//
//	loaded, err := tokens.Load(config, tokens.Source{Lookup: os.LookupEnv})
//	pool, err := tokens.New(now, config, loaded, transport)
//
//	set := pool.Set()                         // one snapshot for one request
//	i := set.Pick(ready, now)                 // which of those that could go
//	token := set.Tokens()[i]
//	until := pool.Begin(now, token, route)    // zero: it may go
//	secret, err := set.Credential(ctx, token) // exchanged, where the pool says so
//	set.Put().Apply(request, secret)
//	…
//	pool.Success(now, token, sent, &denials)  // or Deny, Cool, Spend
//
// What a pool knows outlives the process by State and Restore, and a fleet shares
// quarantines by Hear. There tokens are called by their stable names, which are made
// of the secrets and lead to none.
//
// Whatever time matters to is told it as an argument, apart from the exchange of
// client credentials, which waits for a server. No secret is in anything that this
// package prints, and Token shows as its label.
package tokens
