package dispatch

import (
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/tokens"
)

// Tokens are the pools, and the limits that sites have announced to tokens or without one.
func (v *View) Tokens() status.Tokens { return tokensOf(v.Pools(), v.Limits()) }

// TokenStates are the pools without limits, which takes less time than Tokens.
func (v *View) TokenStates() status.Tokens { return tokensOf(v.Pools(), nil) }

// tokensOf gives each token the limits of its account.
func tokensOf(pools []PoolStatus, limits []LimitStatus) (all status.Tokens) {
	by := map[string]map[string][]status.Announced{} // :: pool → whose it is → limits
	for _, one := range limits {
		if one.Token == "" {
			all.Limits = append(all.Limits, announced(one))
			continue
		}
		if by[one.Pool] == nil {
			by[one.Pool] = map[string][]status.Announced{}
		}
		by[one.Pool][one.Token] = append(by[one.Pool][one.Token], announced(one))
	}
	for _, p := range pools {
		pool := status.Pool{Name: p.Name, Ready: p.Ready}
		for i := range p.Tokens {
			token := tokenOf(&p.Tokens[i])
			token.Limits = by[p.Name][token.Account()]
			pool.Tokens = append(pool.Tokens, token)
		}
		all.Pools = append(all.Pools, pool)
	}
	return all
}

// tokenOf is how a token is.
func tokenOf(s *tokens.Status) status.Token {
	t := status.Token{
		Label: s.Label, State: s.State.String(), Until: s.Until, Why: s.Why, Fingerprint: s.Fingerprint, Twins: s.Twins,
		Uses: s.Uses, Refusals: s.Refusals, Denials: s.Denials, Accepted: s.Accepted, Throttled: s.Throttled,
	}
	for _, one := range s.Routes {
		t.Routes = append(t.Routes, status.Paused{Route: one.Route, State: one.State.String(), Until: one.Until, Why: one.Why})
	}
	return t
}

// announced is a limit that a site has announced.
func announced(limitStatus LimitStatus) status.Announced {
	return status.Announced{
		Site: limitStatus.Site, Route: limitStatus.Route, Title: limitStatus.Title, Limit: limitStatus.Limit, Remaining: limitStatus.Remaining,
		Reset: limitStatus.Reset, Window: limitStatus.Window.Seconds(), State: limitStatus.State, Foreign: limitStatus.Foreign,
	}
}
