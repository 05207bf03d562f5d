package tokens

import (
	"errors"

	"github.com/abide-proxy/abide/policy"
)

// LoadAll reads the tokens of every pool of a configuration, by the pools' names. The
// error is a policy.Faults with all that is wrong with any of them; pools that are
// right are there all the same. What has no line of its own is said where the
// configuration has the pool.
func LoadAll(p *policy.Policy, lookup func(name string) (string, bool)) (map[string]*Loaded, error) {
	all := map[string]*Loaded{}
	var faults policy.Faults
	for i := range p.Pools {
		pool := &p.Pools[i]
		loaded, err := Load(*pool, Source{Config: p.File, Lookup: lookup})
		if err != nil {
			faults = append(faults, At(p, pool, err)...)
			continue
		}
		all[pool.Name] = loaded
	}
	if len(faults) > 0 {
		return all, faults
	}
	return all, nil
}

// At is what is wrong with a pool, each fault with a line: its own, or else the
// pool's.
func At(p *policy.Policy, pool *policy.Pool, err error) policy.Faults {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		faults = policy.Faults{{Text: err.Error()}}
	}
	placed := make(policy.Faults, len(faults))
	for i, one := range faults {
		if one.Line == 0 {
			one = policy.Fault{Source: p.File, Line: pool.Line, Key: "pools." + pool.Name, Text: one.Error()}
		}
		placed[i] = one
	}
	return placed
}
