package queue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/abide-proxy/abide/limit"
)

// By is which part of a request tells its own meter of a limit from others.
type By uint8

// The parts.
const (
	byAll    By = iota // all requests share one
	ByClient           // Request.Client
	ByRoute            // Request.Method and Request.Path
)

// Limit is an amount that a request needs of a limit. Two with the same name
// and key in one site are the same meter.
type Limit struct {
	Name  string // which limit it is, whatever its amount, so that a reload finds it
	Title string // as people know it: "900 requests per 15m"; "" is Name
	Key   string // whose: a client, a token, a backend; "" is everyone's

	// Spec is the limit's arithmetic; nil without a Source is something that only cools. One that
	// differs from the meter's changes the meter, which stays as used as it was.
	Spec *limit.Spec

	// Subject is what the limit counts: a limit of another name with one like it, that
	// comes in its place, begins with what was spent of it. nil is of its own.
	Subject *Subject

	// Source makes the limit's meter where there is no Spec, and may keep the meter
	// elsewhere. nil: the meter is made from Spec and kept here only.
	Source MeterSource

	N  int64 // of Cost, at least: it is Request.Cost, if that is more
	Of Unit
	By By // of Key, a meter for each client or route

	// Refuse lets nobody wait for the limit: a request that such limits keep from every
	// alternative is refused as Exhausted, when it comes or as soon as that is so. One
	// that waits longer for another limit, or for an answer to what was sent before it,
	// is held as ever.
	Refuse bool
}

// Scope is what a cooldown is about that concerns the limit, for a request.
func (l *Limit) Scope(r *Request) Scope { return Scope{l.Name, l.key(r)} }

// scope is where a limit's resource is found.
func (l *Limit) scope(r *Request) Scope { return Scope{l.Name, boundKey(l.key(r))} }

// key is the key of the resource that the request takes from.
func (l *Limit) key(r *Request) string {
	own := ""
	switch {
	case l.By == byAll:
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

// made tells whether Source makes the limit's meter.
func (l *Limit) made() bool { return l.Spec == nil && l.Source != nil }

// arithmetic is what the limit's meter is made from.
func (l *Limit) arithmetic() (spec *limit.Spec, made bool) {
	return l.Spec, l.made()
}

// own tells whether the need of the limit differs from request to request.
func (l *Limit) own() bool { return l.By != byAll || l.Of == Cost }

func (l *Limit) title() string { return cmp.Or(l.Title, l.Name) }

// label names a resource of the limit for the operator.
func (l *Limit) label(key string) string {
	if key == "" {
		return l.title()
	}
	return l.title() + " of " + strings.ToValidUTF8(key, "?")
}

func (l *Limit) meter() (limit.Meter, func() limit.Meter, error) {
	switch {
	case l.made():
		return l.Source.NewMeter(), nil, nil
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

// boundKey is the key itself, or a hash of bounded length, which is longer than any key
// that is kept as it is: so no client can use the resource of another by its key.
func boundKey(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:longestKey-32] + "~" + hex.EncodeToString(sum[:16])
}

// isBoundKey tells whether a key is one that short has made of a longer one.
func isBoundKey(key string) bool { return len(key) == longestKey+1 && key[longestKey-32] == '~' }

// longestKey is the longest key that is kept as it is. Routes and clients come
// from strangers.
const longestKey = 128
