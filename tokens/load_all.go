package tokens

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/policy"
)

// LoadAll reads the tokens of every pool of a configuration, by pool name. The error is a
// policy.Faults with the faults of all pools; pools without a fault are returned
// nevertheless. A fault without a line of its own gets the line of the pool in the
// configuration. The path of the configuration is the policy's, not at.Config.
func LoadAll(ctx context.Context, p *policy.Policy, at Surroundings) (map[string]*Loaded, error) {
	at.Config = p.File
	all := map[string]*Loaded{}
	var faults policy.Faults
	for i := range p.Pools {
		pool := &p.Pools[i]
		loaded, err := Load(ctx, *pool, at)
		if err != nil {
			faults = append(faults, FaultsAt(p, pool, err)...)
			continue
		}
		all[pool.Name] = loaded
	}
	if len(faults) > 0 {
		return all, faults
	}
	return all, nil
}

// FaultsAt returns the faults of a pool's error, each with a line: its own, or else the
// pool's.
func FaultsAt(p *policy.Policy, pool *policy.Pool, err error) policy.Faults {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		faults = policy.Faults{{Text: err.Error()}}
	}
	placed := make(policy.Faults, len(faults))
	for i, fault := range faults {
		if fault.Line == 0 {
			fault = policy.Fault{Source: p.File, Line: pool.Line, Key: "pools." + pool.Name, Text: fault.Error()}
		}
		placed[i] = fault
	}
	return placed
}
