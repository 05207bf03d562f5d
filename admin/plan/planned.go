package plan

import (
	"fmt"
	"slices"

	"github.com/abide-proxy/abide/policy"
)

// planned is the policy by which a scenario is simulated: with its rules, and with nothing
// that reaches a network or a file. The tokens have made-up secrets.
func planned(p *policy.Policy, tokens map[string][]policy.Token) *policy.Policy {
	ours := *p
	ours.Storage = policy.Storage{Store: policy.Store{Kind: "local"}}
	ours.Egress, ours.Shard = policy.Egress{}, policy.Shard{By: "url"}
	ours.StrictState = false
	ours.Pools = slices.Clone(p.Pools)
	for i := range ours.Pools {
		ours.Pools[i] = plannedPool(&p.Pools[i], tokens[p.Pools[i].Name])
	}
	return &ours
}

// plannedPool is a pool with made-up secrets in place of its own.
func plannedPool(p *policy.Pool, known []policy.Token) policy.Pool {
	pool := policy.Pool{
		Name: p.Name, Put: policy.Placement{Where: "header", Name: "Authorization", Before: "Bearer "},
		Reserve: p.Reserve, Exhausted: p.Exhausted, Anonymous: p.Anonymous, Limits: p.Limits, Line: p.Line,
	}
	if len(known) == 0 {
		known = make([]policy.Token, 1)
	}
	for i, t := range known {
		t.Secret = policy.NewSecret(fmt.Sprintf("made-up-%05d", i))
		pool.Tokens = append(pool.Tokens, t)
	}
	return pool
}
