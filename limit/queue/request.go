package queue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Request asks to send a request of a client to a site.
type Request struct {
	Site     string
	Client   string
	Weight   int
	Priority int   // 0 (most urgent) to 7; DefaultPriority is the usual one
	Cost     int64 // what fairness counts for it; 0 is 1

	Method, Path string // its route, for limits by it

	Wait time.Duration // shorter than the gate's; 0 is the gate's

	Tag        any    // the caller's own, for the gate's Plan
	Generation uint64 // the Generation by which Limits were made, asked for before they were
	Version    uint64 // what was known of the site then, for Replan

	// Limits are alternatives: it needs all of one of them. Empty is no limit. The
	// gate keeps the slices and does not change them, and neither may anybody else.
	Limits [][]Limit
	Order  Ranking // of the alternatives; nil takes the first that is ready
	Needs  *Needs  // Limits as Compile has made it, if many requests have these; nil: this request alone

	// Now refuses it unless it may go at once, or when a store has said what is left of a limit. Wait has no
	// meaning then.
	Now bool

	// Observe lets it go at once, whatever the limits say. Permit.Would tells what
	// would have kept it.
	Observe bool
}

// Priorities run from 0, the most urgent, to 7, as in RFC 9218.
const (
	mostUrgent      = 0
	DefaultPriority = 3
	leastUrgent     = 7

	numPriorities = leastUrgent + 1
)

// Scope names what a cooldown or an observation is about: one of the request's
// limits, or the whole site if it is zero.
type Scope struct {
	Limit, Key string
}

// Result describes the end of a granted request.
type Result struct {
	Outcome limit.Outcome

	// Unsent says that nothing of it has reached the server: everything that it
	// took is given back.
	Unsent bool

	// Cost and Bytes are the true ones; 0 is as estimated.
	Cost, Bytes int64

	// Exact says that Bytes is true also when it is 0.
	Exact bool
}

// Limit is an amount that a request needs of a limit. Two with the same name
// and key in one site are the same meter.
type Limit struct {
	Name  string // which limit it is, whatever its amount, so that a reload finds it
	Title string // as people know it: "900 requests per 15m"; "" is Name
	Key   string // whose: a client, a token, a backend; "" is everyone's

	// Spec is the limit's arithmetic; nil without a Source is something that only cools. One that
	// differs from the meter's changes the meter, which stays as used as it was.
	Spec *limit.Spec

	// Subject names the things the limit counts: a limit of another name with one like it, that
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

// By names the part of a request that tells its own meter of a limit from others.
type By uint8

// The parts.
const (
	byAll    By = iota // all requests share one
	ByClient           // Request.Client
	ByRoute            // Request.Method and Request.Path
)

// Unit is the unit of the amount of a Limit, which says how the amount is settled.
type Unit uint8

// The units.
const (
	_     Unit = iota // requests: the amount is certain
	Cost              // settled with Result.Cost
	Bytes             // settled with Result.Bytes
)

// Scope returns the scope of a cooldown that concerns the limit, for a request.
func (l *Limit) Scope(r *Request) Scope { return Scope{l.Name, l.key(r)} }

// scope returns the scope under which a limit's resource is found.
func (l *Limit) scope(r *Request) Scope { return Scope{l.Name, boundKey(l.key(r))} }

// key is the key of the resource that the request takes from.
func (l *Limit) key(r *Request) string {
	part := ""
	switch l.By {
	case ByClient:
		part = r.Client
	case ByRoute:
		part = r.Method + " " + r.Path
	case byAll:
	}
	if l.Key == "" || part == "" {
		return l.Key + part
	}
	return l.Key + " " + part
}

// units returns the number of units that a request needs.
func (l *Limit) units(r *Request) int64 {
	if l.Of == Cost {
		return max(l.N, r.Cost)
	}
	return l.N
}

// made tells whether Source makes the limit's meter.
func (l *Limit) made() bool { return l.Spec == nil && l.Source != nil }

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
		m, _ := limit.New(spec) // it was right a moment ago
		return m
	}, nil
}

// longestKey is the longest key that is kept as it is. Routes and clients come
// from strangers.
const longestKey = 128

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

// Reason is why a request is not held any longer, or not at all.
type Reason string

// The reasons.
const (
	TooLong  Reason = "the wait would be too long"
	siteFull Reason = "the queue of the site is full"
	allFull  Reason = "the queue is full"
	Never    Reason = "it is larger than the limit"
	Draining Reason = "abide is shutting down"

	// Away is of a meter that is kept elsewhere, where nobody answers.
	Away Reason = "what it is counted in does not answer"

	// stalled is of bytes that a request which is under way has waited for.
	stalled Reason = "its bytes would have to wait too long"

	// Exhausted is of a Limit that nobody waits for.
	Exhausted Reason = "it is used up"
)

// Refusal is the error of a request that may not go.
type Refusal struct {
	Reason  Reason
	Limit   string    // the name of the resource, or of the setting, that refused it
	RetryAt time.Time // when it could have gone, as far as that is known; zero is not known
}

func (r *Refusal) Error() string {
	if r.Limit == "" {
		return string(r.Reason)
	}
	return fmt.Sprintf("%s: %s", r.Limit, r.Reason)
}

// Blocker describes the cause that blocks a hold.
type Blocker struct {
	Limit  string    // the resource's name
	Why    string    // of a cooldown: who asked for it, or that it was just over
	Until  time.Time // when that resource lets it go; zero: when something is finished, or nobody knows
	Behind bool      // the resource has enough, but for those before it
	Asking bool      // the resource's meter waits for the answer of a store: nobody knows yet what it has

	// Any counts the alternatives of which each lacks something of a limit with the same Title; 0: there
	// is one. Limit is then that of the alternative that is ready first.
	Any   int
	Title string
}

// String names the limit, and why it blocks if the reason is not its amount.
func (k Blocker) String() string {
	if k.Why == "" {
		return k.Limit
	}
	return k.Limit + " (" + k.Why + ")"
}
