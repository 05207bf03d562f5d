// Package throttle slows down whoever presents wrong secrets. It never looks at a secret:
// its callers compare first, so that a right one is accepted at once, whoever else has
// presented wrong ones from the same address.
//
//	if !secret.Equal(presented) {
//		guard.Wrong(r.Context(), address) // returns when the refusal may be answered
//		refuse(w)
//	}
package throttle

import (
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// free is how many wrong secrets of an address are answered at once.
	free = 10
	// interval is in which time one more becomes free.
	interval = 5 * time.Second
	// longestDelay is the longest that the answer to a wrong secret is held back.
	longestDelay = 10 * time.Second
	// The log tells of an address at once, again after firstPause, after ten times as
	// long, and then every sayEvery.
	firstPause = time.Second
	sayEvery   = time.Minute
	// mostAddresses are remembered. Those that were wrong longest ago leave.
	mostAddresses = 10_000
)

// addresses are those that have presented wrong secrets. They are not safe for concurrent
// use. An address of IPv6 stands for its /64, which is the least that one customer has.
type addresses struct {
	known *simplelru.LRU[netip.Addr, *address]
}

// address is what is remembered of one.
type address struct {
	due    time.Time     // when the answer to the last one may go, as if none had been free
	said   time.Time     // when the log told of it last
	pause  time.Duration // the log tells of it again after that
	unsaid int           // wrong secrets since then
}

func newAddresses() *addresses {
	known, err := simplelru.NewLRU[netip.Addr, *address](mostAddresses, nil)
	if err != nil {
		panic(err) // only a size below one can be refused
	}
	return &addresses{known}
}

// wrong notes a wrong secret. It answers for how long the refusal is held back, and of how
// many wrong secrets the log tells now; 0: it says nothing.
func (a *addresses) wrong(now time.Time, from netip.Addr) (delay time.Duration, say int) {
	from = network(from)
	one, known := a.known.Get(from)
	if !known {
		one = &address{}
		a.known.Add(from, one)
	}
	// The answers of an address go at intervals, however many connections it has.
	if least := now.Add(-free * interval); one.due.Before(least) {
		one.due = least
	}
	one.due = one.due.Add(interval)
	if most := now.Add(longestDelay); one.due.After(most) {
		one.due = most
	}
	one.unsaid++
	return max(one.due.Sub(now), 0), one.say(now)
}

// rest is of how many wrong secrets of an address the log has not told, when it may.
func (a *addresses) rest(now time.Time, from netip.Addr) int {
	one, known := a.known.Peek(network(from))
	if !known {
		return 0
	}
	return one.say(now)
}

func (a *address) say(now time.Time) int {
	since := now.Sub(a.said)
	if a.unsaid == 0 || !a.said.IsZero() && since < a.pause {
		return 0
	}
	if a.pause = min(10*a.pause, sayEvery); a.said.IsZero() || since > 2*sayEvery {
		a.pause = firstPause
	}
	n := a.unsaid
	a.said, a.unsaid = now, 0
	return n
}

// again is after which time the log may tell of an address again.
func (a *addresses) again(from netip.Addr) time.Duration {
	if one, known := a.known.Peek(network(from)); known {
		return one.pause
	}
	return sayEvery
}

// network is what an address is counted with.
func network(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if prefix, err := from.Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return from
}
