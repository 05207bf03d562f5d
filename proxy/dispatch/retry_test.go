package dispatch

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/upstream"
)

var usualRetry = policy.Retry{Attempts: 4, Refusals: 20, Base: 500 * time.Millisecond, Max: time.Minute}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header http.Header
		want   time.Duration
		said   bool
	}{
		{header("Retry-After", "120"), 2 * time.Minute, true},
		{header("Retry-After", " 0 "), time.Second, true},
		{header("Retry-After", "0.25"), 250 * time.Millisecond, true},
		{header("Retry-After", "999999999999999999999999"), longestRetryAfter, true},
		{header("Retry-After", "1e3"), 0, false},
		{header("Retry-After", "+5"), 5 * time.Second, true},
		{header("Retry-After", "1_0"), 0, false},
		{header("Retry-After", "0x10"), 0, false},
		{header("Retry-After", ".5"), 0, false},
		{header("Retry-After", "5."), 0, false},
		{header("Retry-After", "1.2.3"), 0, false},
		{header("Retry-After", "-1"), time.Second, true},
		{header("Retry-After", "NaN"), 0, false},
		{header("Retry-After", "Inf"), 0, false},
		{header("Retry-After", "soon"), 0, false},
		{header(), 0, false},
		{header("Retry-After", "Sat, 21 Nov 2026 12:01:00 GMT"), 60 * time.Second, true},
		{header("Retry-After", "Saturday, 21-Nov-26 12:01:00 GMT"), 60 * time.Second, true},
		{header("Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT"), time.Second, true},
		// The site's clock is an hour ahead, and says so.
		{header("Retry-After", "Sat, 21 Nov 2026 13:01:00 GMT", "Date", "Sat, 21 Nov 2026 13:00:00 GMT"), 60 * time.Second, true},
		{header("Retry-After", "Thu, 01 Jan 2099 00:00:00 GMT"), longestRetryAfter, true},
	} {
		wait, said := RetryAfter(c.header, now)
		if wait != c.want || said != c.said {
			t.Errorf("%v: %v %v, want %v %v", c.header, wait, said, c.want, c.said)
		}
	}
}

func TestWhatIsSentAgain(t *testing.T) {
	now := time.Now()
	lost := func(kind upstream.Kind, sent bool) error { return &upstream.Error{Kind: kind, Sent: sent} }
	for _, c := range []struct {
		name  string
		a     attempt
		again bool
	}{
		{"a 200", attempt{status: 200, safe: true, possible: true}, false},
		{"a 404", attempt{status: 404, safe: true, possible: true}, false},
		{"a 500", attempt{status: 500, safe: true, possible: true}, false},
		{"a 429", attempt{status: 429, possible: true}, true},
		{"a 429 whose body is gone", attempt{status: 429, safe: true}, false},
		{"the 21st 429", attempt{status: 429, possible: true, refusals: 20}, false},
		{"a 503 that says when, to a POST", attempt{status: 503, refusal: plainHint(503, header("Retry-After", "1"), now), possible: true}, true},
		{"a 503 that does not", attempt{status: 503, safe: true, possible: true}, true},
		{"a 503 that does not, to a POST", attempt{status: 503, possible: true}, false},
		{"a 502 to a GET", attempt{status: 502, safe: true, possible: true}, true},
		{"the fifth 502", attempt{status: 502, safe: true, possible: true, failures: 4}, false},
		{"a 504 to a POST", attempt{status: 504, possible: true}, false},
		{"nobody listens, a POST", attempt{err: lost(upstream.Refused, false), possible: true}, true},
		{"a GET that broke off", attempt{err: lost(upstream.Closed, true), safe: true, possible: true}, true},
		{"a POST that broke off", attempt{err: lost(upstream.Closed, true), possible: true}, false},
		{"a forbidden address", attempt{err: lost(upstream.Forbidden, false), safe: true, possible: true}, false},
		{"a loop", attempt{err: lost(upstream.Self, false), safe: true, possible: true}, false},
		{"a certificate", attempt{err: lost(upstream.TLS, false), safe: true, possible: true}, false},
		{"an answer that is not safe", attempt{err: lost(upstream.Protocol, true), safe: true, possible: true}, false},
		{"a client that left", attempt{err: lost(upstream.Canceled, true), safe: true, possible: true}, false},
		{"something else", attempt{err: errors.New("?"), safe: true, possible: true}, false},
	} {
		if !c.a.refusal.refused {
			c.a.refusal = plainHint(c.a.status, http.Header{}, now)
		}
		if v := judge(usualRetry, c.a, now, 0.5); v.again != c.again {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// TestTheEndOfAnOverloadIsNoticedSoon: no pause is longer than three quarters of the time since the
// overload began, nor than 30 s, however often the same request was refused.
func TestTheEndOfAnOverloadIsNoticedSoon(t *testing.T) {
	now := time.Now()
	lasted := time.Duration(0)
	for row := range 100 {
		v := judge(usualRetry, attempt{status: 529, safe: true, possible: true, row: row, refusals: row, refusal: hint{refused: true, overload: true}}, now, 1)
		pause := max(v.until.Sub(now), v.pause)
		if pause <= 0 || pause > 30*time.Second || row > 2 && pause > lasted*3/4 {
			t.Errorf("after %v it is left alone for %v", lasted, pause)
		}
		lasted += pause
	}
}

func TestAVerdictIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := attempt{
			status: rapid.SampledFrom([]int{200, 429, 502, 503, 504}).Draw(t, "status"),
			safe:   rapid.Bool().Draw(t, "safe"), possible: rapid.Bool().Draw(t, "possible"),
			failures: rapid.IntRange(0, 100).Draw(t, "failures"), refusals: rapid.IntRange(0, 100).Draw(t, "refusals"),
			row: rapid.IntRange(0, 100).Draw(t, "row"),
		}
		now := time.Now()
		a.refusal = plainHint(a.status, header("Retry-After", rapid.String().Draw(t, "Retry-After"), "Date", rapid.String().Draw(t, "Date")), now)
		v := judge(usualRetry, a, now, rapid.Float64Range(0, 1).Draw(t, "jitter"))
		switch {
		case v.pause < 0 || v.pause > usualRetry.Max && !v.refused || v.pause > usualRetry.Max+longestRetryAfter:
			t.Errorf("a pause of %v", v.pause)
		case v.refused && (v.until.Before(now) || v.until.After(now.Add(longestRetryAfter))):
			t.Errorf("nothing goes before %v", v.until.Sub(now))
		case v.again && (!a.possible || a.failures >= usualRetry.Attempts && !v.refused || a.refusals >= usualRetry.Refusals && v.refused):
			t.Errorf("sent again: %+v", a)
		}
	})
}

func TestWishesAreReadAndRemoved(t *testing.T) {
	h := header("Abide-Priority", "0", "Abide-Max-Wait", "1m30s", "Abide-Cost", "5", "Abide-Client", "news", "Abide-Retry", "none", "X-Other", "stays")
	w, ok := ReadOptions(h, RequestOptions{Cost: 2})
	if !ok || w != (RequestOptions{1, 90 * time.Second, 5, "news", true, true}) || len(h) != 1 {
		t.Errorf("%+v %v %v", w, ok, h)
	}
	for name, bad := range map[string][]string{
		"Abide-Priority": {"8", "-1", "high", ""}, "Abide-Max-Wait": {"30", "-1s", "-0s", ""}, "Abide-Cost": {"0", "-5", "1.5", "99999999999"},
		"Abide-Client": {""}, "Abide-Retry": {"yes"}, "Abide-Priorty": {"1"},
	} {
		for _, value := range bad {
			if _, ok := ReadOptions(header(name, value), RequestOptions{}); ok {
				t.Errorf("%s: %q was taken", name, value)
			}
		}
	}
	if w, ok := ReadOptions(http.Header{}, RequestOptions{Urgency: 7, Cost: 2}); !ok || w != (RequestOptions{Urgency: 7, Cost: 2}) {
		t.Errorf("what the CONNECT said is lost: %+v", w)
	}
	if _, ok := ReadOptions(http.Header{"Abide-Cost": {"1", "2"}}, RequestOptions{}); ok {
		t.Error("a header that came twice was taken")
	}
}

func TestAVerdictOnAnAttemptTeachesLimitsThatAdapt(t *testing.T) {
	for _, c := range []struct {
		status int
		v      verdict
		want   limit.Outcome
	}{
		{200, verdict{}, limit.Success},
		{404, verdict{}, limit.Success},
		{501, verdict{}, limit.Success},
		{500, verdict{}, limit.Failed},
		{503, verdict{}, limit.Failed},
		{503, verdict{refused: true}, limit.Refused},
	} {
		if got := outcomeOf(c.status, nil, c.v); got != c.want {
			t.Errorf("%d: %v", c.status, got)
		}
	}
}
