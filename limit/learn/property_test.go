package learn

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// names and values are what the properties make responses of: those that mean
// something, and those that nearly do.
var names = []string{
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-RateLimit-Used", "X-RateLimit-Bucket",
	"X-RateLimit-Resource", "X-RateLimit-Scope", "X-RateLimit-Limit-Requests", "X-RateLimit-Remaining-Requests", "X-RateLimit-Reset-Tokens",
	"X-RateLimit-Remaining-Tokens", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "RateLimit-Policy", "Retry-After",
	"Retry-After-Ms", "X-Retry-In", "RetryAfter", "X-Rate-Limit", "X-Rate-Limit-Interval", "X-Rate-Limit-Type", "X-App-Rate-Limit",
	"X-App-Rate-Limit-Count", "X-RateLimit-Usage", "X-ReadRateLimit-Limit", "X-Shopify-Shop-Api-Call-Limit", "Sforce-Limit-Info", "X-App-Usage",
	"X-Business-Use-Case-Usage", "X-Amzn-Ratelimit-Limit", "X-Ms-Ratelimit-Remaining-Resource", "X-Mbx-Used-Weight-1m", "X-RateLimit-Next",
	"X-App-Limit-24hour-Limit", "X-App-Limit-24hour-Remaining", "Zendesk-Ratelimit-Tickets-Index", "X-RateLimit-Replenish-Rate",
	"Date", "Age", "Stripe-Rate-Limited-Reason", "X-RateLimit-UserLimit", "X-RateLimit-UserRemaining", "X_RATELIMIT_LIMIT", "X-Rl", "X-Ttl",
}

var values = []string{
	"0", "1", "42", "-1", "-3", "5000", "298.0", "1.25", "60", "60;", "1700000060", "1699999990", "1700000060000", "1700000001.250", "99999999999",
	"99999999999999999999999", "1e3", "0x1E", "NaN", "Inf", "", " ", "５", "5,000", "60, 60", "10, 20", "100, 100;w=10", "6m0s", "20ms", "1s", "PT1M", "minute",
	`"default";r=50;t=30`, `"a";r=0;t=9, "b";r=4;t=1`, `"a";q=10;w=60`, "limit=10, remaining=3, reset=5", "total=100; remaining=99; resets=41",
	`"unterminated;r=5`, "20:1,100:120", "200,2000", "20,500", "32/40", "api-usage=18/5000", "core", "global", "application", "user", "192.0.2.1",
	`{"limit":50,"remaining":0,"until":"2023-11-14T22:14:00Z"}`, `{"call_count":101,"estimated_time_to_regain_access":19}`, "a-lim:3;a-rem:0;",
	"Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 21:13:20 GMT", "2023-11-14T22:14:20Z", "2023-11-14T22:13Z", "Microsoft.X/Y3Min;197",
	"9223372036854775807", "9007199254740993", "+30", "1.", ".5", "18446744073709551616", "1700000060000000000", "P1DT2H", "99999999d",
}

var bodies = []string{
	"", `{"errors":[{"type":"RATE_LIMITED"}]}`, `{"retry_after":64.57,"global":true}`, `{"retry_after":1e99}`, "error code: 1015",
	`{"code":"THROTTLED","requestedQueryCost":502,"maximumAvailable":1000,"currentlyAvailable":2,"restoreRate":0.0001}`,
	"more requests available in 99999999999 seconds", "available in ", "Throttled: 1700000060", `{"backoff":10,"quota_max":1,"quota_remaining":0}`,
	"secondary rate limit", `{"reason":"quotaExceeded"}`, `{"code":"lock_timeout"}`, `{"retryDelay":"34.5s"}`,
}

var hosts = []string{
	"api.example.com", "api.github.com", "discord.com", "www.strava.com", "s.myshopify.com", "api.kraken.com", "www.googleapis.com",
	"api.yelp.com", "ip-api.com", "api.linkedin.com", "api.stackexchange.com", "api.prisjakt.nu", "graph.facebook.com", "",
}

// response is one that a property is about.
type response struct {
	status  int
	lines   [][2]string
	body    string
	request Request
	now     time.Time
}

func (r *response) read() Lesson {
	return Read(r.status, headersOf(r.lines...), []byte(r.body), r.request, r.now)
}

func responses(t *rapid.T) response {
	text := rapid.OneOf(rapid.SampledFrom(values), rapid.SampledFrom(values), rapid.String(), rapid.StringMatching(`[0-9]{1,24}(\.[0-9]{1,12})?`))
	name := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom(names), rapid.SampledFrom(names), rapid.StringMatching(`X-RateLimit-[A-Za-z0-9-]{0,20}`))
	line := rapid.Custom(func(t *rapid.T) [2]string { return [2]string{name.Draw(t, "name"), text.Draw(t, "value")} })
	return response{
		status: rapid.SampledFrom([]int{200, 202, 301, 304, 400, 401, 403, 404, 413, 418, 420, 422, 429, 500, 503, 529}).Draw(t, "status"),
		lines:  rapid.SliceOfN(line, 0, 9).Draw(t, "headers"),
		body:   rapid.OneOf(rapid.SampledFrom(bodies), rapid.String()).Draw(t, "body"),
		request: Request{
			Method: rapid.SampledFrom([]string{"GET", "POST", "HEAD"}).Draw(t, "method"),
			Host:   rapid.SampledFrom(hosts).Draw(t, "host"), Path: rapid.SampledFrom([]string{"/", "/graphql", "/w/api.php"}).Draw(t, "path"),
		},
		now: base.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "nanos"))),
	}
}

// sane says what is wrong with a lesson, whatever the response was.
func sane(l Lesson, status int, now time.Time) error {
	inside := func(name string, at time.Time) error {
		if !at.IsZero() && (at.Before(now) || at.After(now.Add(maxAhead+time.Minute))) {
			return fmt.Errorf("%s: %v is not within 31 days after %v", name, at, now)
		}
		return nil
	}
	number := func(name string, a Amount) error {
		if math.IsNaN(a.N) || math.IsInf(a.N, 0) || a.N < 0 || a.N > 1<<54 {
			return fmt.Errorf("%s: %v", name, a.N)
		}
		return nil
	}
	all := []error{
		inside("reset", l.Reset), inside("retry", l.RetryAt), number("limit", l.Limit), number("remaining", l.Remaining),
	}
	for _, one := range l.Limits {
		all = append(all, inside("reset of a limit", one.Reset), number("a limit", one.Limit), number("a remaining", one.Remaining),
			number("a used", one.Used), number("a rate", Amount{N: one.Rate}))
		if one.Window < 0 || one.Window > maxAhead {
			all = append(all, fmt.Errorf("a window of %v", one.Window))
		}
	}
	if (status == 429 || status == 420 || status == 529) && !l.Throttled {
		all = append(all, fmt.Errorf("%d is no refusal", status))
	}
	if l.Throttled && l.Scope == None {
		all = append(all, fmt.Errorf("a refusal of nobody"))
	}
	if !l.RetryAt.IsZero() && !l.RetryAt.After(now) {
		all = append(all, fmt.Errorf("a wait for nothing"))
	}
	if l.Scope == None && (l.Limit.Known || l.Remaining.Known || !l.RetryAt.IsZero() || len(l.Limits) > 0) {
		all = append(all, fmt.Errorf("a lesson about nobody: %+v", l))
	}
	if l.Window < 0 || l.Window > maxAhead {
		all = append(all, fmt.Errorf("a window of %v", l.Window))
	}
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestWhateverAServerSaysTimesAndNumbersStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := responses(t)
		if err := sane(r.read(), r.status, r.now); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReadingTwiceTeachesTheSameAndChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := responses(t)
		headers := headersOf(r.lines...)
		before := fmt.Sprint(headers)
		lesson := Read(r.status, headers, []byte(r.body), r.request, r.now)
		two := Read(r.status, headers, []byte(r.body), r.request, r.now)
		if !reflect.DeepEqual(lesson, two) {
			t.Fatalf("%+v\n%+v", lesson, two)
		}
		if fmt.Sprint(headers) != before {
			t.Fatal("the headers have changed")
		}
	})
}

func TestTheOrderOfHeadersMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := responses(t)
		// Lines of one name keep their order, as they do in a http.Header.
		seen := map[string]bool{}
		r.lines = slices.DeleteFunc(r.lines, func(line [2]string) bool {
			name := strings.ToLower(line[0])
			twice := seen[name]
			seen[name] = true
			return twice
		})
		lesson := r.read()
		r.lines = rapid.Permutation(r.lines).Draw(t, "another order")
		if two := r.read(); !reflect.DeepEqual(lesson, two) {
			t.Fatalf("%+v\n%+v", lesson, two)
		}
	})
}

func TestLaterNewsOfARetryNeverHoldLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := rapid.IntRange(0, 3600).Draw(t, "short")
		long := rapid.IntRange(short, 7200).Draw(t, "long")
		lines := [][2]string{{"Retry-After", fmt.Sprint(short)}, {"Retry-After", fmt.Sprint(long)}}
		want := base.Add(time.Duration(max(long, 1)) * time.Second)
		for range 2 {
			r := response{status: 429, lines: lines, now: base}
			if l := r.read(); !l.RetryAt.Equal(want) {
				t.Fatalf("%v, want %v", l.RetryAt, want)
			}
			slices.Reverse(lines)
		}
	})
}

func TestAServersClockDoesNotMatterWhenItSaysWhatItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		skew := time.Duration(rapid.Int64Range(-90*86400, 90*86400).Draw(t, "skew")) * time.Second
		ahead := time.Duration(rapid.Int64Range(1, 30*86400).Draw(t, "ahead")) * time.Second
		server := base.Add(skew).UTC()
		r := response{status: 429, now: base, lines: [][2]string{
			{"Date", server.Format("Mon, 02 Jan 2006 15:04:05 GMT")},
			{"X-RateLimit-Remaining", "0"},
			{"X-RateLimit-Reset", fmt.Sprint(server.Add(ahead).Unix())},
		}}
		want := base.Add(ahead)
		if skew.Abs() <= minSkew { // not worth a correction
			want = want.Add(skew)
		}
		if ahead+skew <= 0 && skew.Abs() <= minSkew || want.Sub(base) > maxAhead {
			return
		}
		if l := r.read(); !l.Reset.Equal(want) {
			t.Fatalf("%v, want %v", l.Reset, want)
		}
	})
}
