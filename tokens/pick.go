package tokens

import "time"

// PickFor chooses among the tokens that may be used, by their index in Tokens: the one
// whose account was throttled longest ago, then the one used longest ago. An index beyond
// Tokens is a request without a token, which is chosen last. After a denial, listed in d,
// it chooses the token that was accepted most recently: if that token is denied, too, the
// tokens are not the cause. d may be nil. PickFor takes no lock and allocates nothing, so
// the queue may call it while it holds its own lock.
//
// The queue of a site does not know of pauses from other sites. A token that another site
// has blocked meanwhile is chosen only if no other token may be used.
func (s *Set) PickFor(ready []int, now time.Time, d *Denials) int {
	if len(ready) == 0 {
		return -1
	}
	best, at := ready[0], now.UnixNano()
	chosen := choice{rank: 4}
	for _, index := range ready {
		if index < 0 || index >= len(s.states) {
			if chosen.rank > 3 {
				best, chosen.rank = index, 3
			}
			continue
		}
		st := s.states[index]
		if d == nil && chosen.rank == 0 && st.worseThan(&chosen) {
			continue // the usual case first: the caller holds the queue's lock
		}
		if c := st.choice(at, d); c.before(&chosen) {
			best, chosen = index, c
		}
	}
	if best >= 0 && best < len(s.tokens) {
		s.pool.markUsed(s.tokens[best])
	}
	return best
}

// Order is the order in which Pick chooses, for a queue that keeps a sorted list: it
// implements queue.Ranking. It is the same for all requests with the set and allocates
// nothing.
type Order struct{ set *Set }

// Order returns the order of the set's tokens.
func (s *Set) Order() Order { return Order{s} }

// Rank returns three sort keys: when the token's account was throttled last, the account's
// last use and the token's last use. None of them ever decreases. A request without a token
// has no rank.
func (o Order) Rank(i int) ([3]uint64, bool) {
	if i < 0 || i >= len(o.set.states) {
		return [3]uint64{}, false
	}
	st := o.set.states[i]
	a := st.account.Load()
	return [3]uint64{uint64(max(a.throttledAt.Load(), 0)), a.used.Load(), st.used.Load()}, true
}

// Rests returns until when a token is blocked because of another site's answer.
func (o Order) Rests(i int) time.Time {
	st := o.set.states[i]
	until := max(st.blockedUntil.Load(), st.account.Load().blockedUntil.Load())
	if until <= 0 {
		return time.Time{}
	}
	return time.Unix(0, until)
}

// Chosen records that a token is used now.
func (o Order) Chosen(i int) {
	if i < len(o.set.tokens) {
		o.set.pool.markUsed(o.set.tokens[i])
	}
}

// worseThan tells whether a choice comes before this state's, whatever its rank.
func (s *state) worseThan(than *choice) bool {
	a := s.account.Load()
	if at := a.throttledAt.Load(); at != than.throttled {
		return at > than.throttled
	}
	return a.used.Load() > than.accountUsed
}

// choice is the sort key of a token.
type choice struct {
	rank        int // class of the token: smaller is better
	accepted    int64
	throttled   int64
	accountUsed uint64 // Pool.uses at the account's last use
	used        uint64 // Pool.uses at the token's last use
}

func (s *state) choice(now int64, d *Denials) choice {
	a := s.account.Load()
	c := choice{throttled: a.throttledAt.Load(), accountUsed: a.used.Load(), used: s.used.Load()}
	if d != nil && d.n > 0 {
		if d.has(s) {
			c.rank = 2
		}
		c.accepted = s.lastAccepted.Load()
	}
	if s.blockedUntil.Load() > now || a.blockedUntil.Load() > now {
		c.rank = max(c.rank, 1)
	}
	return c
}

func (c *choice) before(o *choice) bool {
	switch {
	case c.rank != o.rank:
		return c.rank < o.rank
	case c.accepted != o.accepted:
		return c.accepted > o.accepted
	case c.throttled != o.throttled:
		return c.throttled < o.throttled
	case c.accountUsed != o.accountUsed:
		return c.accountUsed < o.accountUsed
	}
	return c.used < o.used
}

// markUsed records that a token is used now. A counter, not the time, orders uses that
// happen at the same moment.
func (p *Pool) markUsed(t *Token) {
	n := p.uses.Add(1)
	t.state.used.Store(n)
	t.state.account.Load().used.Store(n)
}
