package dispatch

import (
	"errors"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// attempt describes the end of one sending of a request, and the attempts before it.
type attempt struct {
	status   int   // 0 when there was no answer
	refusal  hint  // what it says of a limit
	err      error // when there was none
	safe     bool  // it may be sent again whatever became of it
	possible bool  // its body is still at hand, and its client wants it
	failures int   // earlier ones that were retried
	refusals int   // earlier ones
	row      int   // cooldowns of what refused it, in a row, without a success

	comesBack bool // the site has answered before, and is expected to answer again, or this was to find out whether it does
}

// again reports whether a failure is not the last one: while the site is expected to come back, failures do not count.
func (a *attempt) again(p policy.Retry) bool {
	return a.possible && (a.comesBack || a.failures < p.Attempts)
}

// pause returns the time that this request alone waits before it is sent again.
func (a *attempt) pause(p policy.Retry, jitter float64) time.Duration {
	return backoff(p.Base, p.Max, min(a.failures, p.Attempts), jitter)
}

// verdict decides what follows an attempt. The zero value answers with its answer.
type verdict struct {
	again   bool
	refused bool          // by the site, because of a limit
	unclear bool          // whether it is refused is verified first
	denied  bool          // by the site, because of the token: another may be accepted
	token   time.Time     // denied: the end of the token's quarantine; zero: it has none
	reason  string        // of replays_total
	alone   bool          // refused: that says nothing of other requests
	until   time.Time     // refused: nothing of that scope goes before
	pause   time.Duration // this request alone waits
	why     string        // the cause, for people
}

// judge decides about an attempt. It is pure but for the jitter, which is an
// argument: a number from 0 to 1.
func judge(p policy.Retry, a attempt, now time.Time, jitter float64) verdict {
	switch {
	case a.refusal.refused:
		return judgeRefusal(p, a, now, jitter)
	case a.err != nil:
		return judgeFailure(p, a, jitter)
	case a.refusal.lock:
		if !a.possible || a.failures >= p.Attempts {
			return verdict{}
		}
		return verdict{again: true, reason: "lock", pause: max(a.refusal.wait, a.pause(p, jitter))}
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		if !a.safe || !a.again(p) {
			return verdict{}
		}
		reason := "gateway"
		if a.status == http.StatusServiceUnavailable {
			reason = "unavailable"
		}
		return verdict{again: true, reason: reason, pause: a.pause(p, jitter)}
	}
	return verdict{}
}

// patienceStep is the shortest cooldown after a second refusal. It doubles.
const patienceStep = 100 * time.Millisecond

// patientRefusals of a request that say nothing of others do not make its pause longer.
const patientRefusals = 3

// judgeRefusal decides about a refusal because of a limit. If the site refuses again after the
// time that it named, all requests wait longer with each refusal in a row, and this request
// longer with each refusal of its own: it may be that no other request is refused. An overload is that of all.
func judgeRefusal(p policy.Retry, a attempt, now time.Time, jitter float64) verdict {
	v, wait := verdict{refused: true, reason: "refused", why: a.refusal.why}, a.refusal.wait
	v.again = a.possible && (a.safe || !a.refusal.unsafe || a.err != nil && unsent(a.err)) && a.refusals < p.Refusals
	switch {
	case a.refusal.alone:
		v.alone, v.until, v.pause = true, now, wait
		if !a.refusal.said || a.refusals > 0 {
			v.pause = max(wait, backoff(p.Base, p.Max, max(a.refusals-patientRefusals, 0), 0.75+jitter/2))
		}
		return v
	case a.refusal.exact:
	case !a.refusal.said && a.refusal.overload:
		wait = overloadPause(min(p.Max, 30*time.Second), a.row, 0.5+jitter/2)
	case !a.refusal.said:
		// Nobody says for how long: longer each time, so that a site that means it
		// is left alone.
		wait = backoff(time.Second, p.Max, a.row, 0.5+jitter/2)
	case a.row > 0:
		wait = max(wait, backoff(patienceStep, p.Max, a.row-1, 1))
	}
	v.until = now.Add(wait)
	if a.refusals > 0 && !a.refusal.overload {
		v.pause = wait + backoff(patienceStep, p.Max, a.refusals-1, 1)
	}
	return v
}

// judgeFailure decides about an attempt without an answer.
func judgeFailure(p policy.Retry, a attempt, jitter float64) verdict {
	switch upstream.KindOf(a.err) {
	case upstream.Resolve, upstream.Refused, upstream.Unreachable, upstream.ConnectTimeout, upstream.Closed, upstream.AnswerTimeout, upstream.Files, upstream.Hop:
	default:
		return verdict{}
	}
	if !a.possible || !(a.safe || unsent(a.err)) {
		return verdict{}
	}
	if a.failures == 0 && stale(a.err) {
		// An idle connection had come to its end, which says nothing.
		return verdict{again: true, reason: "connection"}
	}
	if !a.again(p) {
		return verdict{}
	}
	return verdict{again: true, reason: "connection", pause: a.pause(p, jitter)}
}

// backoff doubles for each failure, up to the longest, and takes a part of that.
func backoff(base, longest time.Duration, failures int, part float64) time.Duration {
	d := longest
	if failures < 30 && base < longest>>failures {
		d = base << failures
	}
	return time.Duration(float64(d) * part)
}

// overloadPause grows by a half for each overload in a row, up to the longest, so that the end
// of an overload is noticed soon.
func overloadPause(longest time.Duration, row int, part float64) time.Duration {
	d := time.Second
	for range min(row, 30) {
		d = min(d*3/2, longest)
	}
	return time.Duration(float64(d) * part)
}

// unsent reports whether nothing of a request that failed has reached its site.
func unsent(err error) bool { e := (*upstream.Error)(nil); return errors.As(err, &e) && !e.Sent }

// stale reports whether a request failed because its idle connection had been closed.
func stale(err error) bool { e := (*upstream.Error)(nil); return errors.As(err, &e) && e.Stale }

// outcomeOf returns the outcome of an attempt for limits that adapt.
func outcomeOf(status int, err error, v verdict) limit.Outcome {
	switch {
	case v.refused:
		return limit.Refused
	case err != nil && backends.Blame(err) != backends.Ill, v.unclear:
		return limit.Abandoned
	case err != nil || status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return limit.Failed
	}
	return limit.Success
}

// hint describes what an answer says of the limit because of which it refuses. The zero value is
// no refusal.
type hint struct {
	refused  bool          // because of a limit
	lock     bool          // another request is in the way: nothing is learned
	overload bool          // the site is short of capacity
	unsafe   bool          // the site may have done what was asked
	said     bool          // for how long it has to wait
	alone    bool          // it says nothing of other requests
	exact    bool          // the wait follows from what is known of the limit
	wait     time.Duration // if that is said
	why      string        // the cause, for people
}

// plainHint reads Retry-After alone.
func plainHint(status int, h http.Header, now time.Time) hint {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return hint{}
	}
	wait, said := RetryAfter(h, now)
	return hint{refused: said || status == http.StatusTooManyRequests, said: said, wait: wait, why: whyRefused(said, h)}
}

// refusedUntimed is the cause of a pause after a refusal that says no time.
const refusedUntimed = "refused without a time"

// whyRefused describes the cause of a refusal to people.
func whyRefused(said bool, h http.Header) string {
	switch {
	case !said:
		return refusedUntimed
	case len(h["Retry-After"]) > 0:
		return "Retry-After"
	}
	return "the site said when"
}

// longestRetryAfter bounds the wait that a site can ask for. After a day one request asks the
// site again.
const longestRetryAfter = 24 * time.Hour

// RetryAfter reads the header alone, as answers of sites are read.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, said bool) {
	l := learn.Read(http.StatusTooManyRequests, http.Header{"Retry-After": h["Retry-After"], "Date": h["Date"]}, nil, learn.Request{}, now)
	return min(max(l.RetryAt.Sub(now), 0), longestRetryAfter), l.Named
}

// repeatable reports whether a request may be sent twice (RFC 9110, 9.2.2).
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return len(r.Header["Idempotency-Key"]) > 0 || len(r.Header["X-Idempotency-Key"]) > 0
}
