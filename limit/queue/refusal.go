package queue

import (
	"fmt"
	"time"
)

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

// Blocker is what blocks a hold.
type Blocker struct {
	Limit  string    // the resource's name
	Why    string    // of a cooldown: who asked for it, or that it was just over
	Until  time.Time // when that resource lets it go; zero: when something is finished, or nobody knows
	Behind bool      // the resource has enough, but for those before it
	Asking bool      // the resource's meter waits for the answer of a store: nobody knows yet what it has
}

// String names the limit, and why it blocks if the reason is not its amount.
func (k Blocker) String() string {
	if k.Why == "" {
		return k.Limit
	}
	return k.Limit + " (" + k.Why + ")"
}
