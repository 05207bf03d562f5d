package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// An account is a server's counter.
type account struct{ left int }

// A crowd uses tokens of accounts, some of which others use too.
type crowd struct {
	random   *rand.Rand
	of       []*account // of each token
	others   []int      // requests that somebody else makes with a token, for each 10 of ours
	flight   int        // requests at a time
	units    int
	lockstep bool // the others take turns with us
}

// run gives the twins that were found.
func (c *crowd) run(t *testing.T) map[[2]string]bool {
	m := NewRoutes()
	found := map[[2]string]bool{}
	now := noon
	reset := noon.Add(24 * time.Hour)
	type request struct {
		token, nth, left int // the nth of its token
		sent             time.Time
	}
	newest := make([]request, len(c.of)) // that has been answered
	many := make([]int, len(c.of))
	var under []request
	for n := 0; n < c.units || len(under) > 0; n++ {
		now = now.Add(50 * time.Millisecond)
		if n < c.units {
			i := n % len(c.of)
			if c.flight > 1 {
				i = c.random.IntN(len(c.of))
			}
			a := c.of[i]
			if c.others != nil {
				if c.lockstep && c.others[i] > 0 || c.random.IntN(10) < c.others[i] {
					a.left--
				}
			}
			a.left--
			many[i]++
			under = append(under, request{i, many[i], a.left, now})
		}
		if len(under) < c.flight && n < c.units {
			continue
		}
		at := 0
		if c.flight > 1 {
			at = c.random.IntN(len(under))
		}
		r := under[at]
		under = append(under[:at], under[at+1:]...)
		now = now.Add(10 * time.Millisecond)
		key := fmt.Sprint("token ", r.token)
		class := m.Class("GET", "", "/a", 0)
		lesson := learn.Lesson{Scope: learn.Token, Limits: []learn.Limit{{
			Limit: learn.Amount{N: 100000, Known: true}, Remaining: learn.Amount{N: float64(r.left), Known: true},
			Reset: reset, Resolution: time.Second,
		}}}
		got := m.Learn(now, class, key, r.sent, &lesson)
		// What a ledger would say: what is gone beside our own.
		foreign := 0
		if old := newest[r.token]; r.nth > old.nth {
			if old.nth > 0 {
				foreign = old.left - r.left - (r.nth - old.nth)
			}
			newest[r.token] = r
		}
		_, twins := m.Heard(now, class, key, got.Told[0].ID, r.sent, News{Foreign: int64(foreign)})
		if twins != ([2]string{}) {
			if found[twins] {
				t.Errorf("%v are reported again", twins)
			}
			found[twins] = true
		}
	}
	return found
}

func accounts(n int) (all []*account) {
	for range n {
		all = append(all, &account{90000})
	}
	return all
}

func TestTokensOfOneAccountAreTwins(t *testing.T) {
	one := &account{90000}
	c := crowd{random: rand.New(rand.NewPCG(1, 2)), of: []*account{one, one}, flight: 1, units: 60}
	if found := c.run(t); len(found) != 1 || !found[[2]string{"token 0", "token 1"}] {
		t.Errorf("found %v", found)
	}
}

func TestTwinsAmongOthers(t *testing.T) {
	all := accounts(5)
	all = append(all, all[2])
	c := crowd{random: rand.New(rand.NewPCG(1, 2)), of: all, flight: 1, units: 600}
	if found := c.run(t); len(found) != 1 || !found[[2]string{"token 2", "token 5"}] {
		t.Errorf("found %v", found)
	}
}

func TestAlignedWindowsAreNoTwins(t *testing.T) {
	c := crowd{random: rand.New(rand.NewPCG(1, 2)), of: accounts(4), flight: 1, units: 2000}
	if found := c.run(t); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

func TestUseByOthersMakesNoTwins(t *testing.T) {
	for _, c := range []crowd{
		{others: []int{10, 10, 10}, flight: 1},                 // another like us has the same tokens
		{others: []int{10, 10, 10}, flight: 1, lockstep: true}, // and goes as we do
		{others: []int{5, 5, 5}, flight: 1},
		{others: []int{2, 9, 0}, flight: 1},
		{others: []int{10, 10, 10}, flight: 6},
	} {
		for seed := range uint64(20) {
			c.random, c.of, c.units = rand.New(rand.NewPCG(seed, 2)), accounts(3), 1500
			if found := c.run(t); len(found) != 0 {
				t.Errorf("%v of %v, %d at a time: found %v", seed, c.others, c.flight, found)
			}
		}
	}
}

func TestTwinsAreFoundWhileManyAreUnderWay(t *testing.T) {
	one := &account{90000}
	for _, flight := range []int{2, 5, 10} {
		c := crowd{random: rand.New(rand.NewPCG(3, 4)), of: []*account{one, one}, flight: flight, units: 3000}
		if found := c.run(t); len(found) != 1 {
			t.Errorf("%d at a time: found %v", flight, found)
		}
	}
}

func TestATraceGivesWhatWasHeardBefore(t *testing.T) {
	var trail trace
	var k memory
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	hear := func(n int) *hearing {
		return &hearing{now: at(n), sent: at(n - 3), said: &learn.Limit{
			Remaining: learn.Amount{N: float64(100 - n), Known: true}, Reset: at(900),
		}}
	}
	for n := range 50 {
		h := hear(n)
		old, ok := trail.before(h)
		trail.add(nil, &k, h)
		if ok != (n > 3) || ok && (!old.heard.Equal(at(n-4)) || old.left != float64(100-n+4)) {
			t.Fatalf("of %d it is %+v, %v", n, old, ok)
		}
	}
	next := hear(50)
	next.said.Reset = at(1800)
	if _, ok := trail.before(next); ok {
		t.Error("the window before counts")
	}
}
