package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/tokens"
)

// tokens are the pools and what sites have announced, for the operator's listener.
func (a *program) tokens() admin.Tokens { return tokensOf(a.proxy.Pools(), a.proxy.Limits()) }

func tokensOf(pools []proxy.PoolStatus, limits []proxy.LimitStatus) (all admin.Tokens) {
	by := map[string]map[string][]admin.Announced{} // :: pool → whose it is → limits
	for _, one := range limits {
		if one.Token == "" {
			all.Limits = append(all.Limits, announced(one))
			continue
		}
		if by[one.Pool] == nil {
			by[one.Pool] = map[string][]admin.Announced{}
		}
		by[one.Pool][one.Token] = append(by[one.Pool][one.Token], announced(one))
	}
	for _, p := range pools {
		pool := admin.Pool{Name: p.Name, Ready: p.Ready}
		for i := range p.Tokens {
			one := tokenOf(&p.Tokens[i])
			one.Limits = by[p.Name][owner(one)]
			pool.Tokens = append(pool.Tokens, one)
		}
		all.Pools = append(all.Pools, pool)
	}
	return all
}

// owner is what the proxy calls those who share a token's limits: the labels of
// its account.
func owner(t admin.Token) string {
	return strings.Join(slices.Sorted(slices.Values(append([]string{t.Label}, t.Twins...))), ", ")
}

func tokenOf(s *tokens.Status) admin.Token {
	t := admin.Token{
		Label: s.Label, State: s.State.String(), Until: s.Until, Why: s.Why, Fingerprint: s.Fingerprint, Twins: s.Twins,
		Uses: s.Uses, Refusals: s.Refusals, Denials: s.Denials, Accepted: s.Accepted, Throttled: s.Throttled,
	}
	for _, one := range s.Routes {
		t.Routes = append(t.Routes, admin.Paused{Route: one.Route, State: one.State.String(), Until: one.Until, Why: one.Why})
	}
	return t
}

func announced(one proxy.LimitStatus) admin.Announced {
	return admin.Announced{
		Site: one.Site, Route: one.Route, Title: one.Title, Limit: one.Limit, Remaining: one.Remaining,
		Reset: one.Reset, Window: one.Window.Seconds(), State: one.State, Foreign: one.Foreign,
	}
}

// tokenMetrics are the same for the metrics.
func (a *program) tokenMetrics() metrics.Known { return metricsOf(a.tokens()) }

func metricsOf(all admin.Tokens) (k metrics.Known) {
	for _, p := range all.Pools {
		for _, t := range p.Tokens {
			k.Tokens = append(k.Tokens, metrics.Token{
				Pool: p.Name, Name: t.Label, State: t.State, Uses: t.Uses, Refusals: t.Refusals, Denials: t.Denials,
			})
			for _, one := range t.Limits {
				limit := measured(one)
				limit.Pool, limit.Token, limit.Budget = p.Name, t.Label, owner(t)
				k.Limits = append(k.Limits, limit)
			}
		}
	}
	for _, one := range all.Limits {
		k.Limits = append(k.Limits, measured(one))
	}
	return k
}

func measured(one admin.Announced) metrics.Announced {
	return metrics.Announced{
		Site: one.Site, Route: cmp.Or(one.Route, one.Title), Name: one.Name(),
		Limit: one.Limit, Remaining: one.Remaining, Reset: one.Reset, Foreign: one.Foreign,
	}
}
