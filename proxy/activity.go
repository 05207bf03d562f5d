package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/queue"
)

// lookEvery is how often the log looks at what waits, while something does.
const lookEvery = time.Second

// activity hears what becomes of requests, writes lines about it (see siteLog), and
// counts what a summary says in the end. It is safe for concurrent use.
type activity struct {
	log      *logrus.Logger
	wake     ring
	awake    atomic.Bool  // run looks at what waits
	refusing atomic.Int64 // sites that refuse requests
	connects atomic.Uint64
	ports    refusedPorts
	numbers  atomic.Uint64 // of requests, for the lines of log.level debug

	mu     sync.Mutex // guards what follows; nobody logs under it
	sites  siteLog
	counts Activity
	held   map[heldKey]*HeldTime
}

// Activity is what happened since the start, for a summary.
type Activity struct {
	Connects     uint64     // CONNECTs that clients asked for
	RefusedPorts uint64     // of these, those to ports that egress.ports does not name
	Refusals     int        // answers that refused a request because of a limit
	Replayed     int        // of these, those whose request was sent again
	Held         []HeldTime // for what requests were held, the longest in all first
}

// HeldTime is how long requests were held for one limit of a site.
type HeldTime struct {
	Site, Limit string
	Requests    int           // each counts once, however often it waited
	Total       time.Duration // of all of them
	Longest     time.Duration // of one request, in all its waits for the limit
}

type heldKey struct{ site, limit string }

// mostHeldTimes bounds the limits that are told apart. Others count under "other".
const mostHeldTimes = 1000

func newActivity(log *logrus.Logger) *activity {
	return &activity{log: log, wake: make(ring, 1), ports: refusedPorts{lines: lineLimit{every: portSilence}}, held: map[heldKey]*HeldTime{}}
}

// rouse has run look at what waits, or refuses. It does so at every log level: only run
// takes the lines that sites have collected and forgets what is over.
func (a *activity) rouse() {
	if !a.awake.Load() {
		a.wake.ring()
	}
}

// waits is told of a request that has to wait.
func (a *activity) waits(x *exchange, p *queue.Permit) {
	x.turn.held = p
	a.rouse()
	if a.debugs() {
		a.decided(x, "held %s", HeldUntil(time.Now(), p.Keeps()))
	}
}

// released is told of a wait that is over, and which limit it was for. The wait is one of
// x.turn.holds already.
func (a *activity) released(x *exchange, limit string, waited time.Duration) {
	if waited <= 0 {
		return
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sites.released(now, x.site, waited, &x.turn.holds.line)
	key := heldKey{x.site, limit}
	h := a.held[key]
	if h == nil && len(a.held) >= mostHeldTimes {
		key = heldKey{"other", "other"}
		h = a.held[key]
	}
	if h == nil {
		h = &HeldTime{Site: key.site, Limit: key.limit}
		a.held[key] = h
	}
	h.Total += waited
	if own := x.turn.holds.of(limit); own != nil {
		if !own.counted {
			own.counted = true
			h.Requests++
		}
		h.Longest = max(h.Longest, own.total)
	}
}

// refused is told of an answer that refuses a request.
func (a *activity) refused(r siteRefusal) {
	a.mu.Lock()
	a.counts.Refusals++
	if r.again {
		a.counts.Replayed++
	}
	if a.sites.refused(time.Now(), r) {
		a.refusing.Add(1)
	}
	a.mu.Unlock()
	a.rouse()
}

// accepted is told of an answer that refuses nothing.
func (a *activity) accepted(site string, sent time.Time) {
	if a.refusing.Load() == 0 {
		return
	}
	a.mu.Lock()
	if a.sites.accepted(time.Now(), site, sent) {
		a.refusing.Add(-1)
	}
	a.mu.Unlock()
	a.rouse()
}

// run writes lines until ctx is done. It sleeps while nothing waits or refuses.
func (a *activity) run(ctx context.Context, gate *queue.Gate) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.mu.Lock()
			a.sites.finish(time.Now())
			lines := a.sites.take()
			a.mu.Unlock()
			a.write(lines)
			return
		case <-a.wake:
			if !a.awake.Load() {
				a.awake.Store(true)
				tick.Reset(lookEvery)
			}
		case <-tick.C:
		}
		if a.look(gate) {
			continue
		}
		a.awake.Store(false)
		tick.Stop()
		if _, held := gate.Len(); held > 0 { // since it was looked at
			a.wake.ring()
		}
	}
}

// look writes what is to be said now, and tells whether there may be more soon.
func (a *activity) look(gate *queue.Gate) bool {
	var waiting []queue.SiteHolds
	gate.Waiting(func(one queue.SiteHolds) { waiting = append(waiting, one) })
	now := time.Now()
	a.mu.Lock()
	a.sites.waiting(now, waiting)
	a.refusing.Add(-int64(a.sites.pass(now)))
	lines, idle := a.sites.take(), a.sites.idle()
	a.mu.Unlock()
	a.write(lines)
	return !idle || len(waiting) > 0
}

func (a *activity) write(lines []string) {
	for _, line := range lines {
		a.log.Info(line)
	}
}

// Activity is what happened since the start.
func (s *Server) Activity() Activity {
	a := s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.counts
	now.Connects, now.RefusedPorts = a.connects.Load(), a.ports.count.Load()
	for _, h := range a.held {
		now.Held = append(now.Held, *h)
	}
	slices.SortFunc(now.Held, func(x, y HeldTime) int { return int(y.Total - x.Total) })
	return now
}

// Waiting is what waits at each site, in short.
func (s *Server) Waiting() []queue.SiteHolds {
	var list []queue.SiteHolds
	s.gate.Waiting(func(one queue.SiteHolds) { list = append(list, one) })
	return list
}
