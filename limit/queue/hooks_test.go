package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// planFunc are hooks that only answer limits.
type planFunc func(Request) ([][]Limit, uint64)

func (f planFunc) Limits(r Request) ([][]Limit, *Needs, uint64) {
	limits, version := f(r)
	return limits, nil, version
}
func (planFunc) Waits(*Request, *Permit)                 {}
func (planFunc) Cooled(string, Scope, time.Time, string) {}

// cooledFunc are hooks that only hear of cooldowns.
type cooledFunc func(site string, at Scope, until time.Time, why string)

func (cooledFunc) Limits(r Request) ([][]Limit, *Needs, uint64) { return r.Limits, r.Needs, r.Version }
func (cooledFunc) Waits(*Request, *Permit)                      {}
func (f cooledFunc) Cooled(site string, at Scope, until time.Time, why string) {
	f(site, at, until, why)
}

type rankFunc func(i int) uint64

func (f rankFunc) Rank(i int) Rank     { return Rank{f(i)} }
func (f rankFunc) Rests(int) time.Time { return time.Time{} }
func (f rankFunc) Chosen(int)          {}
func (f rankFunc) Common() any         { return nil }

// turns chooses the alternative that was chosen longest ago.
type turns struct {
	rankFunc
	used []uint64
	now  uint64
}

func (t *turns) Rank(i int) Rank { return Rank{t.used[i]} }
func (t *turns) Common() any     { return t }
func (t *turns) Chosen(i int) {
	t.now++
	t.used[i] = t.now
}

// makeFunc is a source that only makes meters.
type makeFunc func() limit.Meter

func (f makeFunc) NewMeter() limit.Meter                                     { return f() }
func (makeFunc) External(string, Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// externalFunc is a source that only replaces meters.
type externalFunc func(site string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter

func (externalFunc) NewMeter() limit.Meter { return nil }
func (f externalFunc) External(site string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	return f(site, at, spec, m)
}
