package queue

import (
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// Bounds of a Gate. Zero is unbounded.
type Bounds struct {
	Max     int           // holds in all
	PerSite int           // holds of one site
	Wait    time.Duration // the longest wait
	Aging   time.Duration // how long a priority waits for a step
}

// gateState is the part of a Gate that its sites use.
type gateState struct {
	clock    clock.Clock
	bounds   atomic.Pointer[Bounds]
	latest   atomic.Pointer[generation]
	draining atomic.Bool               // new requests are refused
	drainEnd atomic.Pointer[time.Time] // see StartDrain; nil before that
	over     atomic.Bool               // requests that come back are refused too
	held     atomic.Int64              // requests that wait at all sites
	began    time.Time
	many     int // see manySites
}

// generation is the limits between two reloads.
type generation struct {
	number uint64
	hooks  Hooks // nil: limits stay as they came
}

// cooled reports a cooldown to the hooks, after the lock of the site was given back.
func (g *gateState) cooled(site string, at Scope, until time.Time, why string) {
	if hooks := g.latest.Load().hooks; hooks != nil {
		hooks.Cooled(site, at, until, why)
	}
}
