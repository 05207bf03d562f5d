// Package backends has the equal hosts that a site may stand for: to which of them a
// request is sent, and which of them get no requests for a while after failures.
//
//	g := backends.NewGroup(rule, loads)
//	rank := g.Rank(i, client, now) // the host with the least is the next
//	g.Chosen(i)
//	b := &g.Hosts[i]
//	b.Load.Begin()
//	...
//	b.Load.End()
//	b.Load.Add(took, backends.HealthOf(status, err, refused), now)
//
// Nothing here waits, sends or logs.
package backends

import (
	"errors"
	"hash/maphash"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/upstream"
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
		load, _ := loads.known.LoadOrStore(b.Origin(), &Load{})
		backend := Backend{Name: b.Name, weight: max(b.Weight, 1), Target: b.Target, Load: load.(*Load)}
		if b.Own {
			backend.Limits = b.Name
		}
		weights[i] = backend.weight
		g.Hosts = append(g.Hosts, backend)
	}
	g.rotation = newRotation(weights)
	return g
}

var stickiness = maphash.MakeSeed()

// Rank returns the place of a host in the order in which a client's request takes one, as
// queue.Ranking describes.
func (g *Group) Rank(i int, client string, now time.Time) [4]uint64 {
	if i >= len(g.Hosts) {
		return [4]uint64{}
	}
	b := &g.Hosts[i]
	switch {
	case g.sticky: // each host has the share of clients that its weight says (rendezvous hashing)
		part := (float64(maphash.Comparable(stickiness, [2]string{client, b.Name})>>11) + 0.5) / (1 << 53)
		return [4]uint64{math.Float64bits(-math.Log(part) / float64(b.weight))}
	case g.balance == "round-robin":
		return g.rotation.rank(i, 0)
	case g.balance == "least-loaded":
		return g.rotation.rank(i, uint64(max(b.Load.InFlight(), 0)))
	}
	return [4]uint64{math.Float64bits(b.Load.cost(now) / float64(b.weight))} // that of a positive number orders it
}

// Chosen counts the choice of a host where the next choice depends on it.
func (g *Group) Chosen(i int) {
	if !g.sticky && (g.balance == "round-robin" || g.balance == "least-loaded") {
		g.rotation.take(i)
	}
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
		if common%uint64(w) > 0 {
			common = min(common*uint64(w), 1<<32)
		}
	}
	r := &rotation{stride: make([]uint64, len(weights)), turn: make([]uint64, len(weights))}
	for i, w := range weights {
		r.stride[i] = max(common/uint64(w), 1)
	}
	return r
}

// rank returns the place of a backend that is busy with so many requests.
func (r *rotation) rank(i int, busy uint64) [4]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return [4]uint64{busy * r.stride[i], max(r.turn[i], r.now), r.turn[i] + r.stride[i]}
}

// take gives a backend its turn.
func (r *rotation) take(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = max(r.turn[i], r.now)
	r.turn[i] = r.now + r.stride[i]
	if r.now > farTurn {
		for i := range r.turn {
			r.turn[i] -= min(r.turn[i], r.now)
		}
		r.now = 0
	}
}

// Load is the work of a backend: its requests under way, and how quick and how reliable
// the last ones were. It outlives reloads.
type Load struct {
	Lost     atomic.Bool // the last attempt did not reach it
	inFlight atomic.Int64

	mu      sync.Mutex // held for a few instructions; guards the fields below
	latency float64    // seconds to the head of an answer, averaged
	failing float64    // part of the attempts that failed, averaged
	updated time.Time  // when the averages last changed
}

const (
	newestWeight = 0.2             // of one attempt in the averages
	failureCost  = 1               // seconds that a backend seems slower by when all fails there
	fading       = 1 * time.Minute // after which an average counts for a third
)

// Begin counts a request that is about to be sent to the backend.
func (l *Load) Begin() { l.inFlight.Add(1) }

// End counts a request to the backend that is over.
func (l *Load) End() { l.inFlight.Add(-1) }

// InFlight returns the number of requests that the backend is busy with.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Add adds an attempt to the averages.
func (l *Load) Add(took time.Duration, how Health, now time.Time) {
	if how == Unknown {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := 0.0
	if how == Ill {
		failed = 1
	} else {
		l.latency = average(l.latency, took.Seconds(), l.updated)
	}
	l.failing = average(l.failing, failed, l.updated)
	l.updated = now
}

// AddAbandoned adds an attempt that its client gave up before there was an answer. It
// counts only if it took long: a backend that hangs is slow.
func (l *Load) AddAbandoned(took time.Duration, now time.Time) {
	if took >= failureCost*time.Second {
		l.Add(took, Well, now)
	}
}

func average(was, latest float64, began time.Time) float64 {
	if began.IsZero() {
		return latest
	}
	return was + newestWeight*(latest-was)
}

// cost estimates the seconds that a request would take at the backend. Old averages count
// for less and less, so that a backend that was slow or failed is tried again, as is one
// without any request so far.
func (l *Load) cost(now time.Time) float64 {
	l.mu.Lock()
	took := l.latency + failureCost*l.failing
	if !l.updated.IsZero() {
		took *= math.Exp(-now.Sub(l.updated).Seconds() / fading.Seconds())
	}
	l.mu.Unlock()
	return (took + 0.001) * float64(l.inFlight.Load()+1)
}

// Loads are the loads of all backends, by origin. The zero value is ready.
type Loads struct{ known sync.Map }

// InFlight counts the requests that the backends are busy with.
func (l *Loads) InFlight() (n int) {
	l.known.Range(func(_, value any) bool {
		n += int(value.(*Load).InFlight())
		return true
	})
	return n
}

// Health is the evidence of an attempt that its site works.
type Health uint8

const (
	Unknown Health = iota // the client's doing, or abide's
	Well
	Ill
)

// HealthOf reads an attempt: its status, or its error. A refusal because of a limit is a
// sign of life.
func HealthOf(status int, err error, refused bool) Health {
	switch {
	case refused:
		return Well
	case err != nil:
		return Blame(err)
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return Ill
	}
	return Well
}

// Blame returns Ill for an error that is the site's, Unknown for any other.
func Blame(err error) Health {
	if e, ok := errors.AsType[*upstream.Error](err); ok && e.Stale {
		return Unknown // the site has closed an idle connection
	}
	switch upstream.KindOf(err) {
	case upstream.Resolve, upstream.Refused, upstream.Unreachable, upstream.ConnectTimeout, upstream.TLS,
		upstream.AnswerTimeout, upstream.Stalled, upstream.Closed, upstream.Protocol:
		return Ill
	}
	return Unknown
}
