package proxy

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/upstream"
)

// debugs tells whether each decision about a request has a line. Who writes one asks
// first, so that nothing is spent on lines that are not written.
func (a *activity) debugs() bool { return a.log.IsLevelEnabled(logrus.DebugLevel) }

// decided writes a line about a decision, at level debug. Neither the arguments nor
// the line may have the path or query of a URL or a secret in them.
func (a *activity) decided(x *exchange, format string, args ...any) {
	if x.number == 0 {
		x.number = a.numbers.Add(1)
	}
	a.log.Debugf("request %d, %s %s://%s: %s", x.number, x.method, x.target.Scheme, x.target.HostPort(), fmt.Sprintf(format, args...))
}

// withToken names the token that a request is sent with.
func withToken(label string) string {
	if label == "" {
		return ""
	}
	return ", with the token " + label
}

// outcome writes what came of an attempt, and what follows.
func (a *activity) outcome(x *exchange, status int, err error, v verdict) {
	took := x.answered.Sub(x.sent).Round(time.Millisecond)
	switch {
	case err != nil:
		a.decided(x, "no answer after %v: %s", took, upstream.KindOf(err))
	case v.refused:
		a.decided(x, "refused after %v: status %d, of the %s, until %s (%s)", took, status, x.turn.study.word, clockTime(x.answered, v.until), v.why)
	default:
		a.decided(x, "answered after %v: status %d", took, status)
	}
	if v.again {
		a.decided(x, "is sent again: %s", v.reason)
	}
}
