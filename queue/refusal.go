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
	Full     Reason = "the queue of the site is full"
	FullAll  Reason = "the queue is full"
	Never    Reason = "it is larger than the limit"
	Draining Reason = "abide is shutting down"

	// Away is of a meter that is kept elsewhere, where nobody answers.
	Away Reason = "what it is counted in does not answer"

	// Stalled is of bytes that a request which is under way has waited for.
	Stalled Reason = "its bytes would have to wait too long"

	// Exhausted is of a Limit that nobody waits for.
	Exhausted Reason = "it is used up"
)

// Refusal is the error of a request that may not go.
type Refusal struct {
	Reason  Reason
	Limit   string    // the name of the slot, or of the setting, that refused it
	RetryAt time.Time // when it could have gone, as far as that is known; zero is not known
}

func (r *Refusal) Error() string {
	if r.Limit == "" {
		return string(r.Reason)
	}
	return fmt.Sprintf("%s: %s", r.Limit, r.Reason)
}
