package tokens

import (
	"slices"
	"strings"
	"time"
)

// assignAccounts gives the tokens of each account one shared account state, and a token
// without an account a state of its own. The entries are in the order of p.all.
func (p *Pool) assignAccounts(now time.Time, entries []entry) {
	before := map[*account]int{}
	var alone []*state
	shared := map[string][]*state{} // :: account → the states of its tokens
	for i, e := range entries {
		s := p.all[i].state
		before[s.account.Load()]++
		if e.Account == "" {
			alone = append(alone, s)
		} else {
			shared[e.Account] = append(shared[e.Account], s)
		}
	}
	for i := range alone {
		assignAccount(now, alone[i:i+1], before)
	}
	for _, members := range shared {
		assignAccount(now, members, before)
	}
}

// assignAccount gives the members an account state that no other token of the pool has. The
// account's name is the smallest of their stable names, so every process with the same
// tokens uses the same name. A new account state takes over the pauses of the old ones.
// before counts the tokens that each account had.
func assignAccount(now time.Time, members []*state, before map[*account]int) {
	smallest := slices.MinFunc(members, func(a, b *state) int { return strings.Compare(a.stable, b.stable) })
	old := smallest.account.Load()
	mixed := slices.ContainsFunc(members, func(s *state) bool { return s.account.Load() != old })
	if !mixed && before[old] == len(members) && old.stable == smallest.stable {
		return
	}
	next := &account{key: smallest.key, stable: smallest.stable}
	for _, s := range members {
		next.mergeFrom(now, s.account.Load())
		s.account.Store(next)
	}
}
