package dispatch

import (
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
)

// progress is how far a request is: its permit of the queue, its token, its backend, and how
// its attempts went.
type progress struct {
	tokenUse
	waiting
	attempts
	destination
	learned learned // from the last answer
	plan    *plans.Plan
	permit  *queue.Permit
	pass    backends.Pass // of the breaker, for the attempt
}

// waiting is what a request knows of its waits. The answer needs it when the permit may be
// over.
type waiting struct {
	waitBegan  time.Time      // of its present wait
	until      time.Time      // how long it may wait
	waited     time.Duration  // in all waits
	before     time.Duration  // of that, before the first attempt
	waiter     queue.Waiter   // the permit of its last wait; nil: it never had to wait
	wouldBlock *queue.Blocker // what would have held it, if limits were only observed
	shared     bool           // it shared the answer to another request
}

// attempts are how the attempts of a request went.
type attempts struct {
	sent           int          // attempts that were made
	failures       int          // attempts that failed and were followed by another
	refusals       int          // refusals that were followed by another attempt
	refusedAnswers int          // refusals, the last answer included
	refusedAt      time.Time    // when it was refused last
	odd            bool         // it was refused although the rate was not the cause
	verifies       bool         // the next attempt verifies whether the site blocks
	verifying      bool         // the present attempt does
	level          int64        // requests to the site in flight with the attempt
	result         queue.Result // of the last attempt
	lastError      error        // of the last attempt, if another was to follow it
	lastStatus     int          // the same, where there was an answer
}

// destination is where a request is sent.
type destination struct {
	backend        *backends.Backend // where the attempt is made, if it is counted there
	rewritten      bool              // the request's URL names what it was sent to last
	failedBackends []string          // backends that failed this request
}
