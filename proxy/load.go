package proxy

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// load is what is known of a backend's work. It outlives reloads.
type load struct {
	flying atomic.Int64

	mu      sync.Mutex // held for a few instructions; guards what follows
	latency float64    // seconds to the head of an answer, averaged
	failing float64    // part of the attempts that failed, averaged
	heard   time.Time  // when that was last added to
}

const (
	recent    = 0.2             // the weight of one attempt in the averages
	forgiving = 1               // seconds that a backend seems slower by when all fails there
	memorable = 1 * time.Minute // until what was heard counts for a third
)

// begin counts a request that is about to be sent there.
func (l *load) begin() { l.flying.Add(1) }

// hear adds an attempt to what is known.
func (l *load) hear(took time.Duration, how health, now time.Time) {
	if how == unknown {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := 0.0
	if how == ill {
		failed = 1
	} else {
		l.latency = average(l.latency, took.Seconds(), l.heard)
	}
	l.failing = average(l.failing, failed, l.heard)
	l.heard = now
}

func average(was, is float64, began time.Time) float64 {
	if began.IsZero() {
		return is
	}
	return was + recent*(is-was)
}

// cost is how long a request would take there, as far as one can tell. What was
// heard long ago counts for less and less, so that one that was slow or failed is
// tried again, as one is that nobody has tried.
func (l *load) cost(now time.Time) float64 {
	l.mu.Lock()
	took := l.latency + forgiving*l.failing
	if !l.heard.IsZero() {
		took *= math.Exp(-now.Sub(l.heard).Seconds() / memorable.Seconds())
	}
	l.mu.Unlock()
	return (took + 0.001) * float64(l.flying.Load()+1)
}

// loads are those of all backends, by origin.
type loads struct{ known sync.Map }

func (l *loads) of(name string) *load {
	one, _ := l.known.LoadOrStore(name, &load{})
	return one.(*load)
}
