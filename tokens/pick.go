package tokens

import "time"

// Pick chooses among tokens that may go, by their index in Tokens: the one whose
// account was throttled longest ago, then the one used longest ago. An index
// beyond them is a request without a token, which comes last. It takes no lock and
// allocates nothing, so the queue may ask it under its own.
//
// The queue knows of what happened at its site alone. So a token that another site
// has blocked meanwhile is chosen only if there is no other.
func (s *Set) Pick(ready []int, now time.Time) int {
	return s.PickFor(ready, now, nil)
}

// PickFor is Pick for a request that other tokens were denied, and may be nil. It
// chooses the token that was accepted most recently: if that one is denied, too,
// it is not the tokens that are to blame.
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
		if d == nil && chosen.rank == 0 && st.later(&chosen) {
			continue // the usual case, looked at quickly: the queue's lock is held
		}
		if c := st.choice(at, d); c.before(&chosen) {
			best, chosen = index, c
		}
	}
	if best >= 0 && best < len(s.tokens) {
		s.pool.turn(s.tokens[best])
	}
	return best
}

// Order is the order by which Pick chooses, for a queue that keeps it: see
// queue.Preference. It is the same for all requests with the set, and allocates nothing.
type Order struct{ set *Set }

// Order is that of the set.
func (s *Set) Order() Order { return Order{s} }

// Rank is when a token's account was throttled last, and when account and token were
// used. None of them ever falls. A request without a token has none.
func (o Order) Rank(i int) ([3]uint64, bool) {
	if i < 0 || i >= len(o.set.states) {
		return [3]uint64{}, false
	}
	st := o.set.states[i]
	a := st.account.Load()
	return [3]uint64{uint64(max(a.throttled.Load(), 0)), a.used.Load(), st.used.Load()}, true
}

// Rests is until when a token is blocked by what another site has found out.
func (o Order) Rests(i int) time.Time {
	st := o.set.states[i]
	until := max(st.blocked.Load(), st.account.Load().blocked.Load())
	if until <= 0 {
		return time.Time{}
	}
	return time.Unix(0, until)
}

// Chosen notes that a token is used now.
func (o Order) Chosen(i int) {
	if i < len(o.set.tokens) {
		o.set.pool.turn(o.set.tokens[i])
	}
}

// later tells whether a choice comes before the state's, whatever its rank.
func (s *state) later(than *choice) bool {
	a := s.account.Load()
	if at := a.throttled.Load(); at != than.throttled {
		return at > than.throttled
	}
	return a.used.Load() > than.account
}

// choice is what a token is chosen by.
type choice struct {
	rank      int // of the kind
	witness   int64
	throttled int64
	account   uint64 // the turn of the account
	used      uint64
}

func (s *state) choice(now int64, d *Denials) choice {
	a := s.account.Load()
	c := choice{throttled: a.throttled.Load(), account: a.used.Load(), used: s.used.Load()}
	if d != nil && d.n > 0 {
		if d.has(s) {
			c.rank = 2
		}
		c.witness = s.witness.Load()
	}
	if s.blocked.Load() > now || a.blocked.Load() > now {
		c.rank = max(c.rank, 1)
	}
	return c
}

func (c *choice) before(o *choice) bool {
	switch {
	case c.rank != o.rank:
		return c.rank < o.rank
	case c.witness != o.witness:
		return c.witness > o.witness
	case c.throttled != o.throttled:
		return c.throttled < o.throttled
	case c.account != o.account:
		return c.account < o.account
	}
	return c.used < o.used
}

// turn notes that a token is used now. Picks of one moment are told apart by their
// number, since nothing is sent between them.
func (p *Pool) turn(t *Token) {
	n := p.turns.Add(1)
	t.state.used.Store(n)
	t.state.account.Load().used.Store(n)
}
