// Package ledger keeps what servers have said of their own limits, so that what
// they allow is used to the last unit and none of it is asked for twice. It is
// pure: now is an argument.
//
// A Ledger is one limit of a server's for one budget (a token, or nobody's), as a
// limit.Meter that hears answers. Routes says which of its limits a site's routes
// are under.
package ledger

import (
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Answer is what an answer said of one limit.
type Answer struct {
	Sent time.Time // when its request was let go: the time of Take
	N    int64     // what it took of this limit; 0 is nothing, which nobody expected

	Said    learn.Limit // the zero value is no word on it
	Refused bool        // it was refused because of this limit
	RetryAt time.Time   // of a refusal; zero is not said
}

// News is what an answer shows beside what was expected.
type News struct {
	Foreign int64 // units that somebody else has used since the answer before
	Higher  bool  // more is left, inside a window, than there was: two counters are taken for one
}

// Limit is one that requests of a class are under. It does not change.
type Limit struct {
	ID    string // unique in its site
	Title string // for people: "75 per 15m"
	Part  string // what has it for itself: "channels/7"; "" is nothing
	Kind  Kind
	Unit  learn.Unit
	Site  bool // the site counts all alike, whatever their credentials
}

// Kind is what sort of meter a limit has.
type Kind uint8

const (
	Announced Kind = iota // New
	Hidden                // NewPace: the server says nothing of it and refuses
)

// Class is what requests alike have in common. It does not change: what is learned
// makes another.
type Class struct {
	Route    string // "GET /2/tweets/*/retweeted_by"; with its host where a site has several
	Template string // the same with a * for what tells budgets apart
	Unknown  bool   // no answer yet: one request goes alone (NewFirst)
	Limits   []Limit
	Version  uint64 // of the routes by which it was made

	part part
}

// Told is a limit of a lesson that is known.
type Told struct {
	ID      string
	Title   string
	Part    string
	Site    bool // see Limit
	Said    learn.Limit
	Refused bool
	RetryAt time.Time
}

// Learned is what follows from a lesson.
type Learned struct {
	Told    []Told
	Changed bool // the limits of some routes are others now: Version is larger
}
