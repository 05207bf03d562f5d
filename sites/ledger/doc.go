// Package ledger calculates how much servers allow, from what they announce of their own
// limits. It is pure: now is an argument.
//
// A Ledger is the meter of one announced limit for one budget: a token, or requests
// without one. A HiddenRate is the meter of a limit that only refusals show. An UnknownRoute
// lets one request go alone while the limits of its route are unknown.
package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Answer is what a response says of one limit.
type Answer struct {
	Sent  time.Time // when its request was let go: the time of Take
	Units int64     // what it took of this limit; 0 is nothing, which nobody expected

	Limit   learn.Limit // the zero value is no word on it
	Refused bool        // it was refused because of this limit
	RetryAt time.Time   // of a refusal; zero is not said
	Named   bool        // the server named RetryAt; otherwise it follows from the announced limit
}

// Surprise is how a response differs from what the ledger expected.
type Surprise struct {
	Foreign int64 // units that somebody else has used since the answer before
	Higher  bool  // more is left, inside a window, than there was: two counters are taken for one

	// Until is when the next request may go, after a refusal. It may be earlier than
	// Answer.RetryAt: a bucket that is full at that time has a unit long before.
	Until time.Time
}
