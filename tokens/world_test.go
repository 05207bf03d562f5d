package tokens

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// start is when tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is a pool and its clock.
type world struct {
	t    testing.TB
	now  time.Time
	pool *Pool
}

// loaded has tokens such as "alice=s1", "=s1" without a label and "alice@acme=s1" with an
// account.
func loaded(list ...string) *Loaded {
	l := &Loaded{}
	for i, one := range list {
		label, secret, _ := strings.Cut(one, "=")
		label, account, _ := strings.Cut(label, "@")
		l.Entries = append(l.Entries, entry{policy.Token{Label: label, Account: account, Secret: policy.NewSecret(secret)}, i + 1})
	}
	return l
}

func newWorld(t testing.TB, list ...string) *world {
	t.Helper()
	p, err := New(start, policy.Pool{Name: "p", Put: bearer()}, loaded(list...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &world{t, start, p}
}

// many are n tokens, t0 to t(n-1).
func many(t testing.TB, n int) *world {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("t%d=s%d", i, i))
	}
	return newWorld(t, list...)
}

// Stable is the stable name of the token.
func (t *Token) Stable() string { return t.state.stable }

func (w *world) token(label string) *Token {
	w.t.Helper()
	t := w.pool.Find(label)
	if t == nil {
		w.t.Fatalf("no token %s", label)
	}
	return t
}

func (w *world) config() policy.Pool { return policy.Pool{Name: "p", Put: bearer()} }

func (w *world) reload(list ...string) policy.TokenChange {
	w.t.Helper()
	c, err := w.pool.Reload(w.now, w.config(), loaded(list...))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// is checks how a token is, and for how long.
func (w *world) is(label, route string, state State, left time.Duration) {
	w.t.Helper()
	s := w.pool.Availability(w.now, w.token(label), route)
	got := time.Duration(0)
	if !s.Until.IsZero() {
		got = s.Until.Sub(w.now)
	}
	if s.State != state || got != left {
		w.t.Fatalf("%s is %s for %s, not %s for %s", label, s.State, got, state, left)
	}
}

// pick is who goes next among all.
func (w *world) pick() string {
	set := w.pool.Set()
	ready := make([]int, len(set.Tokens()))
	for i := range ready {
		ready[i] = i
	}
	return set.Tokens()[set.pick(ready, w.now)].Label()
}

func (w *world) success(label string) {
	w.pool.Success(w.now, w.token(label), Answer{Sent: w.now}, nil)
}

// pickFor chooses as the queue does by the ranks of tokens.
func (s *Set) pickFor(ready []int, now time.Time, d *Denials) int {
	best, least := -1, [6]uint64{}
	for _, i := range ready {
		rank := s.Rank(i, d)
		at := [6]uint64{rank[0] >> 62, 0, rank[0], rank[1], rank[2], rank[3]}
		if s.Rests(i).After(now) {
			at[1] = 1
		}
		if best < 0 || slices.Compare(at[:], least[:]) < 0 {
			best, least = i, at
		}
	}
	s.Chosen(best)
	return best
}

// pick is pickFor for a request without denials.
func (s *Set) pick(ready []int, now time.Time) int { return s.pickFor(ready, now, nil) }
