package dispatch

import (
	"time"

	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// LogDecision writes a line about a decision on the request, at log level debug: see
// sitelog.Log.Decided.
func (x *Request) LogDecision(format string, args ...any) {
	x.Snapshot.activity.Decided(&x.activity, x.subject.Method, x.Target.Scheme+"://"+x.Target.HostPort(), format, args...)
}

// withToken names the token that a request is sent with.
func withToken(label string) string {
	if label == "" {
		return ""
	}
	return ", with the token " + label
}

// decidedOutcome writes how an attempt ended, and what follows.
func (x *Request) decidedOutcome(status int, err error, v verdict) {
	took := x.answered.Sub(x.sent).Round(time.Millisecond)
	switch {
	case err != nil:
		x.LogDecision("no answer after %v: %s", took, upstream.KindOf(err))
	case v.refused:
		x.LogDecision("refused after %v: status %d, of the %s, until %s (%s)", took, status, x.progress.learned.word, sitelog.ClockTime(x.answered, v.until), v.why)
	default:
		x.LogDecision("answered after %v: status %d", took, status)
	}
	if v.again {
		x.LogDecision("is sent again: %s", v.reason)
	}
}
