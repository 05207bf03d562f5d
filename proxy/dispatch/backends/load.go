package backends

import (
	"errors"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// Load is the work of a backend: its requests under way, and how quick and how reliable
// the last ones were. It outlives reloads.
type Load struct {
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

// of returns the load of a backend.
func (l *Loads) of(origin string) *Load {
	any, _ := l.known.LoadOrStore(origin, &Load{})
	return any.(*Load)
}

// InFlight counts the requests that each backend, by its origin, is busy with.
func (l *Loads) InFlight() map[string]int64 {
	all := map[string]int64{}
	l.known.Range(func(origin, value any) bool {
		all[origin.(string)] = value.(*Load).InFlight()
		return true
	})
	return all
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
	case err != nil:
		return Blame(err)
	case refused:
		return Well
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
