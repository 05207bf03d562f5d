package queue

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// By is which part of a request tells its own meter of a limit from others.
type By uint8

// The parts.
const (
	ByNone   By = iota // all requests share one
	ByClient           // Request.Client
	ByRoute            // Request.Method and Request.Path
)

// Limit is an amount that a request needs of a limit. Two with the same name
// and key in one site are the same meter.
type Limit struct {
	Name  string // which limit it is, whatever its amount, so that a reload finds it
	Title string // as people know it: "900 requests per 15m"; "" is Name
	Key   string // whose: a client, a token, a backend; "" is everyone's

	// Spec is the limit's arithmetic; nil is something that only cools. One that
	// differs from the meter's changes the meter, which stays as used as it was.
	Spec *limit.Spec

	// Subject is what the limit counts: a limit of another name with one like it, that
	// comes in its place, begins with what was spent of it. nil is of its own.
	Subject *Subject

	// Make makes the limit's meter, in place of a Spec, where what a meter is was
	// learned. A slot keeps the first that was made for it, whatever the function
	// later: two functions cannot be compared. It is called under the site's lock,
	// also for a meter that is only looked at, so it does nothing else and never
	// calls the gate. Waits are foreseen only as far as such a meter tells.
	Make func() limit.Meter

	// Keep answers the meter that a slot has in place of m: one that is kept elsewhere
	// too, or m as it was before a restart. It is asked once for each slot, and again for
	// another Spec unless the meter is Changing; another function changes nothing. With
	// Make the spec is the zero one. It is called under the site's lock and never calls
	// the gate. nil, and an answer of nil, leave m.
	Keep func(site string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter

	N  int64 // of Cost, at least: it is Request.Cost, if that is more
	Of Unit
	By By // of Key, a meter for each client or route

	// Refuse lets nobody wait for the limit: a request that such limits keep from every
	// alternative is refused as Exhausted, when it comes or as soon as that is so. One
	// that waits longer for another limit, or for an answer to what was sent before it,
	// is held as ever.
	Refuse bool
}

// Impatient is a meter that answers limit.Unknown while it waits for the answer to a
// request, and does not wait for it for ever.
type Impatient interface {
	// Patience is when another may go without that answer, if nothing happens before;
	// zero is never. That is no promise, so that nobody is refused for it.
	Patience(now time.Time) time.Time
}

// Unknowing is a meter of a limit that may not exist.
type Unknowing interface {
	// Unknown tells whether n units are kept back only because nothing is known of the
	// limit yet. Who would sooner be refused than wait does not wait for that.
	Unknown(now time.Time, n int64) bool
}

// Scope is what a cooldown is about that concerns the limit, for a request.
func (l *Limit) Scope(r *Request) Scope { return Scope{l.Name, l.key(r)} }

// scope is where a limit's slot is found.
func (l *Limit) scope(r *Request) Scope { return Scope{l.Name, short(l.key(r))} }

// key is whose meter the request takes from.
func (l *Limit) key(r *Request) string {
	own := ""
	switch {
	case l.By == ByNone:
		return l.Key
	case l.By == ByClient:
		own = r.Client
	case l.Key != "":
		return l.Key + " " + r.Method + " " + r.Path
	default:
		return r.Method + " " + r.Path
	}
	switch {
	case l.Key == "":
		return own
	case own == "":
		return l.Key
	}
	return l.Key + " " + own
}

// units are what a request needs.
func (l *Limit) units(r *Request) int64 {
	if l.Of == Cost {
		return max(l.N, r.Cost)
	}
	return l.N
}

// need is what a request needs of the limit's slot.
func (l *Limit) need(s *Slot, r *Request) Need { return Need{s, l.units(r), l.Of, l.Refuse} }

// arithmetic is what the limit's meter is made from.
func (l *Limit) arithmetic() (spec *limit.Spec, made bool) {
	if l.Make != nil {
		return nil, true
	}
	return l.Spec, false
}

// own tells whether the need of the limit differs from request to request.
func (l *Limit) own() bool { return l.By != ByNone || l.Of == Cost }

func (l *Limit) title() string { return cmp.Or(l.Title, l.Name) }

// label is what people see of the limit and of whose it is.
func (l *Limit) label(key string) string {
	if key == "" {
		return l.title()
	}
	return l.title() + " of " + strings.ToValidUTF8(key, "?")
}

func (l *Limit) meter() (limit.Meter, func() limit.Meter, error) {
	switch {
	case l.Make != nil:
		return l.Make(), nil, nil
	case l.Spec == nil:
		return nil, nil, nil
	}
	spec := *l.Spec
	m, err := limit.New(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("the limit %q: %w", l.Name, err)
	}
	return m, func() limit.Meter {
		m, err := limit.New(spec)
		if err != nil {
			return nil // it was right a moment ago
		}
		return m
	}, nil
}
