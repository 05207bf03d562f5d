package plan

import (
	"fmt"
	"slices"

	"github.com/abide-proxy/abide/policy"
)

// planned is the policy by which a scenario is simulated: with its rules, and with nothing
// that reaches a network or a file. The tokens have made-up secrets.
func planned(p *policy.Policy, tokens map[string][]policy.Token) *policy.Policy {
	own := *p
	own.Storage = policy.Storage{Store: policy.Store{Kind: "local"}}
	own.Egress, own.Shard = policy.Egress{}, policy.Shard{By: "url"}
	own.StrictState = false
	own.Pools = slices.Clone(p.Pools)
	for i := range own.Pools {
		own.Pools[i] = plannedPool(&p.Pools[i], tokens[p.Pools[i].Name])
	}
	return &own
}

// plannedPool is a pool with made-up secrets in place of its own.
func plannedPool(p *policy.Pool, known []policy.Token) policy.Pool {
	own := policy.Pool{
		Name: p.Name, Put: policy.Placement{Where: "header", Name: "Authorization", Before: "Bearer "},
		Reserve: p.Reserve, Exhausted: p.Exhausted, Anonymous: p.Anonymous, Limits: p.Limits, Line: p.Line,
	}
	if len(known) == 0 {
		known = make([]policy.Token, 1)
	}
	for i, t := range known {
		t.Secret = policy.NewSecret(fmt.Sprintf("made-up-%05d", i))
		own.Tokens = append(own.Tokens, t)
	}
	return own
}
