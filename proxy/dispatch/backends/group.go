// Package backends has the equal hosts that a site may stand for: to which of them a
// request is sent, and which of them get no requests for a while after failures.
//
//	g := backends.NewGroup(rule, loads)
//	b := &g.Hosts[g.Pick(ready, client, now)]
//	b.Load.Begin()
//	...
//	b.Load.End()
//	b.Load.Add(took, backends.HealthOf(status, err, refused), now)
//
// Nothing here waits, sends or logs.
package backends

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// Backend is one of several equal hosts of a site.
type Backend struct {
	Name   string // as the operator calls it, or its origin
	Limits string // its name if it has limits of its own, else ""
	Target policy.Target
	Load   *Load
	weight int
}

// OwnLimits returns the name of the backend if it has limits of its own, else "". The backend may
// be nil.
func (b *Backend) OwnLimits() string {
	if b == nil {
		return ""
	}
	return b.Limits
}

// Group is the equal hosts of one site, and how requests are spread over them. The zero
// value has no host.
type Group struct {
	Hosts    []Backend
	balance  string // see policy.Site.Balance
	sticky   bool   // each client stays at its host
	rotation *rotation
}

// NewGroup makes the group that a rule of the configuration describes.
func NewGroup(rule *policy.Site, loads *Loads) Group {
	g := Group{balance: rule.Balance, sticky: rule.Sticky}
	weights := make([]int, len(rule.Backends))
	for i := range rule.Backends {
		b := &rule.Backends[i]
		backend := Backend{Name: b.Name, weight: max(b.Weight, 1), Target: b.Target, Load: loads.of(b.Origin())}
		if b.Own {
			backend.Limits = b.Name
		}
		weights[i] = backend.weight
		g.Hosts = append(g.Hosts, backend)
	}
	g.rotation = newRotation(weights)
	return g
}

// Find returns the backend with a name, nil if there is none.
func (g *Group) Find(name string) *Backend {
	for i := range g.Hosts {
		if g.Hosts[i].Name == name {
			return &g.Hosts[i]
		}
	}
	return nil
}

var stickiness = maphash.MakeSeed()

// Pick returns the index of the host that a client's request is sent to, of those in ready. It
// counts the choice where the next choice depends on it.
func (g *Group) Pick(ready []int, client string, now time.Time) int {
	switch {
	case len(g.Hosts) == 0 || slices.Max(ready) >= len(g.Hosts):
		return ready[0]
	case g.sticky:
		return g.stick(ready, client)
	case g.balance == "round-robin":
		return g.rotation.next(ready)
	case g.balance == "least-loaded":
		return g.rotation.next(g.leastLoaded(ready))
	}
	best, least := ready[0], math.Inf(1)
	for _, i := range ready {
		b := &g.Hosts[i]
		if cost := b.Load.cost(now) / float64(b.weight); cost < least {
			best, least = i, cost
		}
	}
	return best
}

// stick returns the host of a client. Each host has the share of clients that its weight says
// (rendezvous hashing).
func (g *Group) stick(ready []int, client string) int {
	best, most := ready[0], 0.0
	for _, i := range ready {
		b := &g.Hosts[i]
		part := (float64(maphash.Comparable(stickiness, [2]string{client, b.Name})>>11) + 0.5) / (1 << 53)
		if score := -float64(b.weight) / math.Log(part); score > most {
			best, most = i, score
		}
	}
	return best
}

// leastLoaded returns the hosts that have the fewest requests under way, for their weight.
func (g *Group) leastLoaded(ready []int) []int {
	var least []int
	var inFlight, weight int64
	for _, i := range ready {
		b := &g.Hosts[i]
		n, w := b.Load.InFlight(), int64(b.weight)
		if least != nil && n*weight > inFlight*w {
			continue
		}
		if least == nil || n*weight < inFlight*w {
			least, inFlight, weight = least[:0], n, w
		}
		least = append(least, i)
	}
	return least
}

// rotation has backends take turns, each as often as its weight says. A backend
// that was not ready does not catch up.
type rotation struct {
	mu     sync.Mutex // held for a few instructions; guards the fields below
	stride []uint64   // by which a turn brings a backend back: 1/weight
	turn   []uint64   // when each has its next turn
	now    uint64     // the turn that was given last
}

// farTurn is the turn from which turns are counted from zero again, long before they overflow.
const farTurn = 1 << 62

func newRotation(weights []int) *rotation {
	common := uint64(1) // a multiple of all weights, so that strides are exact
	for _, w := range weights {
		if multiple := common / divisor(common, uint64(w)) * uint64(w); multiple < 1<<32 {
			common = multiple
		} else {
			common = 1 << 32
			break
		}
	}
	r := &rotation{stride: make([]uint64, len(weights)), turn: make([]uint64, len(weights))}
	for i, w := range weights {
		r.stride[i] = max(common/uint64(w), 1)
	}
	return r
}

// divisor returns the greatest common divisor.
func divisor(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// next returns the backend whose turn it is, of at least one.
func (r *rotation) next(among []int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := among[0]
	for _, i := range among[1:] {
		a, b := max(r.turn[i], r.now), max(r.turn[best], r.now)
		if a < b || a == b && r.turn[i]+r.stride[i] < r.turn[best]+r.stride[best] {
			best = i
		}
	}
	r.now = max(r.turn[best], r.now)
	r.turn[best] = r.now + r.stride[best]
	if r.now > farTurn {
		for i := range r.turn {
			r.turn[i] -= min(r.turn[i], r.now)
		}
		r.now = 0
	}
	return best
}
