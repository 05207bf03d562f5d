package dispatch

import (
	"net/http"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/status"
)

// Report tells what became of a request so far.
type Report struct {
	Site     string
	Client   string         // name or address of the client
	Priority int            // 0 (first) to 7
	Meter    *metrics.Site  // nil before the site is known
	First    time.Time      // when it was first sent; zero: never
	Sent     time.Time      // when it was last sent
	Answered time.Time      // when the head of the last answer had come
	Waited   time.Duration  // held, in all its waits
	Before   time.Duration  // of that, before the first attempt
	Attempts int            // times that it was sent
	Refusals int            // answers that refused it because of a limit
	Limit    string         // that held it for longest; "": none
	Token    string         // label of the last attempt's; "": none
	Shared   bool           // it got the answer to another request
	Received int64          // bytes of the answer's body
	Uploaded int64          // bytes of the request's body
	Status   int            // of the answer; 499: the client left before its end
	Denied   string         // why waiting does not help, if the answer says so; of a client that has left after which time
	Refusal  string         // the reason for which abide answered it or cut the answer; "": it did not
	Tunnel   bool           // an https connection that was tunnelled, not a request
	Would    *queue.Blocker // what would have held a request that is only observed; nil: nothing
}

// Report returns the report of the request.
func (x *Request) Report() Report {
	t := &x.progress
	return Report{
		Site: x.site, Client: x.ClientName(), Priority: x.priority(),
		Meter: x.meter, First: x.first, Sent: x.sent, Answered: x.answered,
		Waited: t.waited, Before: t.before, Attempts: t.sent, Refusals: t.refusedAnswers,
		Limit: x.activity.Longest(), Token: t.label, Shared: t.shared, Would: t.wouldBlock,
		Received: x.received, Uploaded: x.Uploaded, Status: x.Status, Refusal: x.Refusal, Denied: x.Denied(),
	}
}

// Left notes when the client of the request has left.
func (x *Request) Left(at time.Time) {
	if why := &x.progress.learned.denial; *why != status.WhileFailing {
		*why = status.Age(at.Sub(x.Start), x.Snapshot.activity.Left.Due(x.site, at))
	}
}

// Denied returns why waiting does not help, if the answer says so, and of a client that has left after which time.
func (x *Request) Denied() string {
	switch {
	case x.Refusal == "":
		return x.progress.learned.denial
	case x.Status >= http.StatusBadRequest && x.Status != status.ClientLeft:
		return status.ByAbide + x.Refusal
	}
	return ""
}

// Site returns the site of the request; "" before that is known.
func (x *Request) Site() string { return x.site }

// Waited returns the time that the request has waited.
func (x *Request) Waited() time.Duration { return x.progress.waited }

// Token finds the credential of the present attempt in headers; nil without one.
func (x *Request) Token() *redact.Finder { return x.progress.shown }

// LogDecision writes a line about a decision on the request, at log level debug: see
// sitelog.Log.Decided.
func (x *Request) LogDecision(format string, args ...any) {
	x.Snapshot.activity.Decided(&x.activity, x.subject.Method, x.Target.Scheme+"://"+x.Target.HostPort(), format, args...)
}

// decidedOutcome writes how an attempt ended, and what follows.
func (x *Request) decidedOutcome(status int, err error, v verdict) {
	took := x.answered.Sub(x.sent).Round(time.Millisecond)
	switch {
	case err != nil:
		x.LogDecision("no answer after %v: %s", took, upstream.KindOf(err))
	case v.refused:
		x.LogDecision("refused after %v: status %d, of the %s%s (%s)", took, status, x.progress.learned.word, sitelog.Until(x.answered, v.until), v.why)
	default:
		x.LogDecision("answered after %v: status %d", took, status)
	}
	if v.again {
		x.LogDecision("is sent again: %s", v.reason)
	}
}
