package queue

import (
	"time"
)

// ForgetIdle forgets the sites of which nothing is known, and where there are very many
// also other idle sites, whose state is stored. It looks at one of ForgetParts parts of
// the sites. New sites do the same for a few others; ForgetIdle is for times when no new
// sites come.
func (g *Gate) ForgetIdle(now time.Time, part int) {
	sh := &g.shards[part%shards]
	sh.mu.Lock()
	rest := len(sh.ring)
	sh.next = 0
	sh.mu.Unlock()
	for ; rest > 0; rest -= tidyAtOnce {
		sh.mu.Lock()
		sh.forget(now, min(rest, tidyAtOnce), true, g.many)
		sh.mu.Unlock()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stored.tidy(now.Sub(g.began))
	if len(sh.ring) == 0 { // a map never gives its memory back
		sh.sites, sh.ring = nil, nil
	}
}

// ForgetParts is how many parts ForgetIdle has.
const ForgetParts = shards
