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
	"golang.org/x/time/rate"
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
	// mostLines is how many lines about different addresses the log may have in a row, and
	// lineEvery how soon another one.
	mostLines = 60
	lineEvery = time.Second
	// mostAddresses are remembered. Those that were wrong longest ago leave.
	mostAddresses = 10_000
)

// addresses are those that have presented wrong secrets. They are not safe for concurrent
// use. An address of IPv6 stands for its /64, which is the least that one customer has.
type addresses struct {
	known *simplelru.LRU[netip.Addr, *address]
	lines *rate.Limiter // of the log
}

// address is what is remembered of one.
type address struct {
	due    time.Time     // when the answer to the last one may go, as if none had been free
	said   time.Time     // when the log told of it last
	pause  time.Duration // the log tells of it again after that
	unsaid int           // wrong secrets since then
	look   *time.Timer   // looks whether the log can be told; nil: there is nothing to tell
}

// stop ends the look that is planned.
func (a *address) stop() {
	if a.look != nil {
		a.look.Stop()
	}
}

func newAddresses() *addresses {
	known, err := simplelru.NewLRU(mostAddresses, func(_ netip.Addr, one *address) { one.stop() })
	if err != nil {
		panic(err) // only a size below one can be refused
	}
	return &addresses{known, rate.NewLimiter(rate.Every(lineEvery), mostLines)}
}

// of is what is remembered of an address; nil: nothing is.
func (a *addresses) of(from netip.Addr) *address {
	one, _ := a.known.Peek(network(from))
	return one
}

// forget lets go of all addresses.
func (a *addresses) forget() { a.known.Purge() }

// wrong notes a wrong secret. It answers for how long the refusal is held back.
func (a *addresses) wrong(now time.Time, from netip.Addr) (delay time.Duration) {
	from = network(from)
	one, known := a.known.Get(from)
	if !known {
		one = &address{pause: firstPause}
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
	return max(one.due.Sub(now), 0)
}

// say is of how many wrong secrets of an address the log tells now; 0: it says nothing.
func (a *addresses) say(now time.Time, one *address) int {
	since := now.Sub(one.said)
	if one.unsaid == 0 || !one.said.IsZero() && since < one.pause || !a.lines.AllowN(now, 1) {
		return 0
	}
	if one.pause = min(10*one.pause, sayEvery); one.said.IsZero() || since > 2*sayEvery {
		one.pause = firstPause
	}
	n := one.unsaid
	one.said, one.unsaid = now, 0
	return n
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
