package sitelog

import (
	"fmt"
	"time"
)

// Refusal is an answer of a site that refused a request because of a limit.
type Refusal struct {
	Site   string
	Status int
	Scope  string    // "site", "route" or "token", as in refusals_total
	Token  string    // label of the token that was refused, "" without one
	Until  time.Time // no request of that scope is sent before
	Why    string    // the header that gave the time, or another cause
	Again  bool      // the request is sent again
}

// describe is the line of a site that begins to refuse requests.
func (r *Refusal) describe(now time.Time) string {
	text := fmt.Sprintf("%s: the site refuses a request (status %d)", r.Site, r.Status)
	if r.Token != "" {
		text += " with the token " + r.Token
	}
	what := "is sent to the site"
	switch r.Scope {
	case "token":
		what = "is sent with this token"
	case "route":
		what = "under the same limit is sent"
	}
	text += fmt.Sprintf("; nothing %s until %s (%s); ", what, ClockTime(now, r.Until), r.Why)
	if r.Again {
		return text + "the request is sent again then, the client does not see it"
	}
	return text + "the client is given the refusal"
}
