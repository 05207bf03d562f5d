package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
)

// problems turns refusals and failures into answers of abide.
type problems struct {
	gate  *queue.Gate
	log   *logrus.Logger
	lines sitelog.LineLimit // about failures of TLS and waits that would be too long
	clock clock.Clock
}

// ofQueue are the answers to what the queue refuses.
var ofQueue = map[queue.Reason]*problem.Problem{
	queue.TooLong: &problem.TooLong, queue.Never: &problem.Never, queue.Away: &problem.Away,
	queue.Exhausted: &problem.Exhausted, queue.Draining: &problem.Draining,
}

// ofRefusal turns a refusal of the queue into an answer of abide.
func (s *problems) ofRefusal(x *Request, err error) *problem.Problem {
	var refusal *queue.Refusal
	if errors.Is(err, errInsecure) {
		return &problem.Insecure
	}
	if !errors.As(err, &refusal) {
		if a := x.Caller.BodyProblem(false); a != nil {
			return a // the client is there, and its body makes no sense
		}
		return problem.Left
	}
	a, t := cmp.Or(ofQueue[refusal.Reason], &problem.QueueFull), &x.progress
	switch refusal.Reason {
	case queue.TooLong:
		switch {
		case t.lastError != nil:
			return s.ofFailure(x, t.lastError) // the last attempt's, which was to be repeated
		case t.lastStatus != 0:
			failed := problem.Failed // whose status is the site's
			a, failed.Status = &failed, t.lastStatus
		case strings.Contains(refusal.Limit, sitelog.SiteFailed):
			a = &problem.Broken
		}
	case queue.Draining:
		if x.Caller.HasLeft() {
			return problem.Left // a command that gave up a held request has often ended with it
		}
	}
	ours := a.Until(s.labelOf(x.site, refusal.Limit), refusal.RetryAt, s.clock.Now())
	if ours.Retry == 0 && refusal.Reason != queue.Never {
		ours.Retry = time.Second // the time is not known, but waiting helps
	}
	if ours.Reason == problem.TooLong.Reason && s.lines.Due(ours.Reason+" "+x.site, time.Now()) {
		s.log.WithFields(logrus.Fields{"site": x.site, "limit": ours.Limit}).Warnf("%s: abide answers a request with %d, as its wait%s would be too long (queue.wait, Abide-Max-Wait), limit: %s", x.site, ours.Status, sitelog.Until(s.clock.Now(), refusal.RetryAt), ours.Limit)
	}
	return ours
}

// labelOf adds the measured length of windows to the name of a learned limit.
func (s *problems) labelOf(site, name string) string {
	s.gate.VisitSite(site, func(now time.Time, at queue.ResourceInfo) {
		rest, found := strings.CutPrefix(name, at.Title)
		if m, learned := at.Meter.(*ledger.Ledger); found && learned && strings.HasPrefix(rest+" of ", " of ") {
			got := m.Status(now)
			name = status.Announced{Title: at.Title, Limit: got.Limit, Window: got.Window.Seconds(), State: got.State, SoFar: got.SoFar}.Label() + rest
		}
	})
	return name
}

// ofFailure turns an error into an answer of abide.
func (s *problems) ofFailure(x *Request, err error) *problem.Problem {
	// A body that could not be read comes first: net/http cancels the request
	// for it, although the client may well be there to hear why.
	if a := x.Caller.BodyProblem(upstream.KindOf(err) == upstream.Canceled); a != nil {
		return a
	}
	s.log.WithError(err).WithFields(logrus.Fields{"host": x.Target.Host, "cause": errors.Unwrap(err)}).Debug("upstream failed")
	a := problem.OfUpstream(err)
	s.logTLS(x.site, x.destination().HostPort(), err, a)
	if a == problem.Left && (x.Caller.Spared() || x.ctx.Err() == nil) {
		return problem.Of(upstream.Closed)
	}
	return a
}

// lineEvery is the time in which a failure of one kind at one site is not logged again.
const lineEvery = time.Minute

// logTLS logs that TLS with a host of a site, or with the next hop on the way to it, failed.
func (s *problems) logTLS(site, host string, err error, a *problem.Problem) {
	f := upstream.TLSFailureOf(err)
	if f == nil || !s.lines.Due(site+" "+a.Reason+" "+f.Fault.String(), time.Now()) {
		return
	}
	issuer := ""
	if f.Issuer != "" {
		issuer = fmt.Sprintf(" (issued by %q)", f.Issuer)
	}
	s.log.WithFields(logrus.Fields{"site": site, "reason": a.Title}).Warnf("%s: %s%s; %s", host, a.Title, issuer, a.Detail)
}
