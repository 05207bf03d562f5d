package advice

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// factsOf are the facts of the last hour, with changes.
func factsOf(changes ...func(*Facts)) Facts {
	f := Facts{Now: noon, Since: noon.Add(-time.Hour), Active: time.Hour, Pools: map[string]string{}, Waiting: map[string]queue.SiteWaiting{}}
	for _, change := range changes {
		change(&f)
	}
	return f
}

// blocked is a limit that held requests for a part of the hour.
func blocked(site, limit string, share float64) func(*Facts) {
	return func(f *Facts) {
		busy := time.Duration(share * float64(time.Hour))
		f.History[store.BlockedRows] = append(f.History[store.BlockedRows], store.Row{Site: site, Limit: limit, Held: 3 * busy, Busy: busy})
	}
}

func usage(u store.Row) func(*Facts) {
	return func(f *Facts) { f.History[store.UsageRows] = append(f.History[store.UsageRows], u) }
}

func used(site, client string, priority int, requests, refusals int64, waited time.Duration, bytes int64) func(*Facts) {
	return usage(store.Row{Site: site, Client: client, Priority: priority, Requests: requests, Refusals: refusals, Waited: waited, In: bytes})
}

func failed(site, what string, requests int64) func(*Facts) {
	return func(f *Facts) {
		f.History[store.FailedRows] = append(f.History[store.FailedRows], store.Row{Site: site, What: what, Requests: requests})
	}
}

func lately(site, what string) func(*Facts) {
	return func(f *Facts) { f.Failed = append(f.Failed, store.Row{Site: site, What: what, Requests: 1}) }
}

func limits(list ...status.Limit) func(*Facts) {
	return func(f *Facts) { f.Limits = append(f.Limits, list...) }
}

// pool has a pool of tokens, each with these limits, for a site.
func pool(site string, labels []string, of ...status.Announced) func(*Facts) {
	return func(f *Facts) {
		p := status.Pool{Name: "x"}
		for _, label := range labels {
			p.Tokens = append(p.Tokens, status.Token{Label: label, State: "ready", Limits: of})
		}
		f.Tokens.Pools = append(f.Tokens.Pools, p)
		f.Pools[site] = "x"
	}
}

func announced(list ...status.Announced) func(*Facts) {
	return func(f *Facts) { f.Tokens.Limits = append(f.Tokens.Limits, list...) }
}

// waiting has requests that wait at a site, of which the queue expects the last to go after a time.
func waiting(site string, n int, after time.Duration) func(*Facts) {
	return func(f *Facts) {
		f.Waiting[site] = queue.SiteWaiting{Held: n, Last: func() time.Time { return noon.Add(after) }}
	}
}

func TestEachRuleHasATrueAndAFalseCase(t *testing.T) {
	const site = "api.test"
	perToken := func(left int64) []status.Limit {
		var list []status.Limit
		for _, label := range []string{"a", "b", "c"} {
			list = append(list, status.Limit{Site: site, Limit: "900 requests per 15m by token", Of: label, By: "token", Amount: 900, Left: left, Unit: "requests", Per: "15m", Window: 900})
		}
		return list
	}
	second := status.Limit{Site: site, Limit: "1 request per 1s", Amount: 1, Unit: "requests", Per: "1s", Window: 1}
	bytes := status.Limit{Site: site, Limit: "1MB per 1m", Amount: 1e6, Unit: "bytes", Per: "1m", Window: 60}
	five := status.Announced{Site: site, Title: "5 per 1s", Limit: 5, Remaining: 0, Window: 1}
	unknown := status.Announced{Site: site, Title: "5 requests", Limit: 5, Remaining: 0}
	foreign := func(share float64, reset time.Time) status.Announced {
		return status.Announced{Site: site, Title: "5 per 1s", Limit: 5, Window: 1, Foreign: share, Reset: reset}
	}
	hiddenLimit := status.Announced{Site: site, Title: status.HiddenTitle, State: status.Hidden, Limit: 20, Remaining: -1, Window: 1}
	cooling := func(f *Facts) {
		f.Cooldowns = []status.Cooldown{{Site: site, Until: noon.Add(30 * time.Hour), Why: `Retry-After: 429, "Five a day"`}}
	}
	three := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		rule  string
		facts []func(*Facts)
		want  []string // parts of the text and its change; none: there is no such advice
	}{
		"a limit of tokens is busy": {
			"limit",
			[]func(*Facts){blocked(site, "900 requests per 15m by token", .92), limits(perToken(0)...), pool(site, three), waiting(site, 3600, 25*time.Minute)},
			[]string{"has held requests for 55 min 12 s of the last hour", "One more token in the pool x would raise 3/s to 4/s", "the 3600 requests that wait now would have gone by 12:10:00 instead of 12:25:00 UTC"},
		},
		"a daily quota of the site is spent": {
			status.OwnAnswers,
			[]func(*Facts){failed(site, "wait", 20), lately(site, "wait"), used(site, "a", 3, 80, 0, 0, 0), announced(status.Announced{Site: site, Title: "60 requests", Limit: 60, Remaining: 0, Reset: noon.Add(3*time.Hour + 2*time.Second)})},
			[]string{"most waited for 60 requests", "No wait is long enough: it has more from 15:00:02 UTC on; until then, send fewer requests in all"},
		},
		"the store is slower than the limit":              {"limit", []func(*Facts){blocked(site, "store", .5), blocked(site, second.Limit, .05), limits(second), used(site, "a", 3, 1800, 0, 0, 0)}, []string{"the time in which abide stores its counts has held requests for 30 min 00 s of the last hour", "Look at the disk"}},
		"the limit is reached although the store is slow": {"limit", []func(*Facts){blocked(site, "store", .5), blocked(site, second.Limit, .05), limits(second), used(site, "a", 3, 3500, 0, 0, 0)}, nil},
		"another limit holds for longer than the store":   {"limit", []func(*Facts){blocked(site, "store", .2), blocked(site, "paused by the operator", .3), used(site, "a", 3, 1800, 0, 0, 0)}, nil},
		"a limit of tokens is busy for a moment":          {"limit", []func(*Facts){blocked(site, "900 requests per 15m by token", .05), limits(perToken(0)...), pool(site, three)}, nil},
		"a limit without tokens is busy":                  {"limit", []func(*Facts){blocked(site, second.Limit, .5), limits(second)}, []string{`the configured limit "1 request per 1s"`, "Twice the limit would raise 1/s to 2/s, if the site allows it"}},
		"another limit allows little more": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(status.Limit{Site: site, Limit: "1000 requests per 1m", Amount: 1000, Unit: "requests", Window: 60})},
			[]string{`One more token in the pool x would raise 15/s to 16.7/s, which "1000 requests per 1m" allows.`},
		},
		"another limit allows no more": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(status.Limit{Site: site, Limit: "100 requests per 1m", Amount: 100, Unit: "requests", Window: 60})},
			[]string{`One more token in the pool x would not help: "100 requests per 1m" allows 1.67/s.`},
		},
		"another limit of each token is lower": {
			"limit",
			[]func(*Facts){blocked(site, "900 tokens", .5), pool(site, three, status.Announced{Site: site, Title: "900 tokens", Limit: 900, Window: 10}, status.Announced{Site: site, Title: "20 requests for POST", Limit: 20, Window: 10})},
			[]string{`One more token in the pool x would raise 6/s to 8/s, which "20 requests for POST" allows.`},
		},
		"a quota of which enough is left is no ceiling": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(status.Limit{Site: site, Limit: "1000000 requests per month", Amount: 1e6, Left: 990_000, Unit: "requests", Window: 30 * 86400})},
			[]string{"would raise 15/s to 20/s"},
		},
		"a daily quota that is far from used up is no ceiling now": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(status.Limit{Site: site, Limit: "5000 requests per day", Amount: 5000, Left: 4800, Unit: "requests", Window: 86400})},
			[]string{`would raise 15/s to 20/s, until "5000 requests per day" is used up.`},
		},
		"an announced quota of which enough is left is no ceiling": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five, status.Announced{Site: site, Title: "90000 points per day", Limit: 90_000, Remaining: 80_000, Window: 86400})},
			[]string{"would raise 15/s to 20/s."},
		},
		"an announced quota that is used up is a ceiling": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five, status.Announced{Site: site, Title: "5000 per hour", Limit: 5000, Remaining: 300, Window: 3600})},
			[]string{`would raise 4.17/s to 5.56/s, which "5000 per hour" allows.`},
		},
		"what is left of another site's quota does not count": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(
				status.Limit{Site: site, Limit: "5000 requests per day", Amount: 5000, Unit: "requests", Window: 86400},
				status.Limit{Site: "other.test", Limit: "5000 requests per day", Amount: 5000, Left: 5000, Unit: "requests", Window: 86400})},
			[]string{`would not help: "5000 requests per day" allows 3.47 a minute.`},
		},
		"a limit of clients is no ceiling": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five), limits(status.Limit{Site: site, Limit: "100 requests per 1m by client", By: "client", Amount: 100, Unit: "requests", Window: 60})},
			[]string{"would raise 15/s to 20/s"},
		},
		"an announced limit of tokens is busy": {
			"limit",
			[]func(*Facts){blocked(site, "5 per 1s", .5), pool(site, three, five)},
			[]string{`the limit "5 per 1s", which the site announces,`, "would raise 15/s to 20/s"},
		},
		"an announced limit whose window is not known is busy": {"limit", []func(*Facts){blocked(site, "5 requests", .5), pool(site, three, unknown)}, []string{"One more token in the pool x would give 33 % more"}},
		"an announced limit without tokens is busy":            {"limit", []func(*Facts){blocked(site, "5 per 1s", .5), announced(five)}, []string{"The limit is the site's own"}},
		"a limit of concurrency is busy":                       {"limit", []func(*Facts){blocked(site, "4 at once", .5), limits(status.Limit{Site: site, Limit: "4 at once", Amount: 4, Unit: "requests"})}, []string{"More than 4 at once"}},
		"an adaptive limit is busy":                            {"limit", []func(*Facts){blocked(site, "adaptive", .5), limits(status.Limit{Site: site, Limit: "adaptive", Rate: 2.5})}, []string{"2.5/s now"}},
		"a hidden limit is found": {
			"limit",
			[]func(*Facts){blocked(site, status.HiddenTitle, .5), announced(hiddenLimit)},
			[]string{"about 20 in 1s, not announced, has held", "accepts about 20 in 1s, and does not say so"},
		},
		"the site refused":                    {"refusals", []func(*Facts){blocked(site, "cooldown", .5), used(site, "a", 3, 10, 1, 0, 0)}, []string{"refused 9 % of all attempts, 1 of 11. They were sent again. Requests were held for 30 min 00 s of the last hour because of that."}},
		"a share below a percent is not none": {"refusals", []func(*Facts){blocked(site, "cooldown", .5), used(site, "a", 3, 1000, 3, 0, 0)}, []string{"refused less than 1 % of all attempts, 3 of 1003."}},
		"all that follows from refusals is one": {
			"refusals",
			[]func(*Facts){blocked(site, "cooldown", .4), blocked(site, "retry", .5), blocked(site, status.HiddenTitle, .6), used(site, "a", 3, 70, 30, 0, 0), announced(hiddenLimit)},
			[]string{"refused 30 % of all attempts, 30 of 100. They were sent again. Requests were held for 36 min 00 s of the last hour because of that.", "accepts about 20 in 1s, and does not say so"},
		},
		"refusals have no other advice": {"limit", []func(*Facts){blocked(site, "cooldown", .4), blocked(site, "retry", .5), blocked(site, status.HiddenTitle, .6), used(site, "a", 3, 70, 30, 0, 0), announced(hiddenLimit)}, nil},
		"refusals are at random": {
			"refusals",
			[]func(*Facts){blocked(site, status.HiddenTitle, .6), used(site, "a", 3, 940, 60, 0, 0), announced(status.Announced{Site: site, Title: status.HiddenTitle, State: status.Hidden, Limit: -1, AtRandom: .06})},
			[]string{"refused 6 % of all attempts", "refuses some requests at random, whatever the rate is: abide sends them again, and nothing here makes them fewer."},
		},
		"abide answers itself":             {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "429", 1260), failed(site, "wait", 1260)}, []string{"api.test: abide itself answered 1260 of 2000 requests with \"the wait would be too long\".", "Allow a longer wait (queue.wait, Abide-Max-Wait), or send fewer requests at once: see docs/troubleshooting.md#wait."}},
		"abide answers itself by a quota":  {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "wait", 1260), limits(status.Limit{Site: site, Limit: "5000 requests per month", Amount: 5000, Unit: "requests", Window: 30 * 86400})}, []string{"; most waited for 5000 requests per month.", "No wait is long enough: send fewer requests in all, or get a larger limit."}},
		"an outage is over":                {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "breaker", 1260)}, []string{"api.test failed for a time: abide itself answered 1260 of 2000 requests meanwhile.", "No limit is the reason: see docs/troubleshooting.md#breaker."}},
		"a backend is still failing":       {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "breaker", 1260), func(f *Facts) { f.Broken = []status.Breaker{{Site: site, Backend: "b", State: "open"}} }}, []string{"abide itself answered 1260 of 2000 requests with \"the site is being left alone\"."}},
		"a certificate is not trusted":     {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "tls_issuer", 1260), blocked(site, "1MB per 1m", .6), limits(bytes)}, []string{"not trusted\"."}},
		"a pause goes on until tomorrow":   {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "wait", 1260), cooling}, []string{`; now no request goes, because of a pause: Retry-After: 429, "Five a day".`, "It is asked again at 2026-"}},
		"refusals until tomorrow":          {"refusals", []func(*Facts){used(site, "a", 3, 70, 30, 0, 0), cooling, announced(hiddenLimit)}, []string{`Now no request goes, because of a pause: Retry-After: 429, "Five a day".`, "It is asked again at 2026-"}},
		"abide answers little itself":      {"own-answers", []func(*Facts){used(site, "a", 3, 2000, 0, 0, 0), failed(site, "wait", 3), failed(site, "503", 30)}, nil},
		"a dead backend is named once":     {"limit", []func(*Facts){blocked(site, "backend", .5), func(f *Facts) { f.Broken = []status.Breaker{{Site: site, Backend: "b", State: "open"}} }}, nil},
		"the site failed":                  {"limit", []func(*Facts){blocked(site, "cooldown", .5), used(site, "a", 3, 10, 0, 0, 0)}, []string{"a pause after refusals or failures has held requests for 30 min 00 s of the last hour"}},
		"backends failed":                  {"limit", []func(*Facts){blocked(site, "backend", .5)}, nil},
		"the operator has paused the site": {"limit", []func(*Facts){blocked(site, "paused by the operator", .9)}, nil},

		"a site was out of order":            {"limit", []func(*Facts){blocked(site, "outage", .5)}, []string{site + ": an outage or a ban that is over has held requests for 30 min 00 s of the last hour", "Look at the site"}},
		"a limit is below the announced one": {"limit-below-announced", []func(*Facts){blocked(site, second.Limit, .5), limits(second), announced(five)}, []string{"(1/s) is below the 5/s that the site announces"}},
		"a limit is above the announced one": {"limit-below-announced", []func(*Facts){blocked(site, "9 requests per 1s", .5), limits(status.Limit{Site: site, Limit: "9 requests per 1s", Amount: 9, Unit: "requests", Window: 1}), announced(five)}, nil},
		"a low limit holds nothing":          {"limit-below-announced", []func(*Facts){blocked(site, second.Limit, .001), limits(second), announced(five)}, nil},
		"another site announces more":        {"limit-below-announced", []func(*Facts){blocked(site, second.Limit, .5), limits(second), announced(status.Announced{Site: "other.test", Limit: 5, Window: 1})}, nil},

		"one client fills a limit of bytes":   {"one-client", []func(*Facts){blocked(site, bytes.Limit, .2), limits(bytes), used(site, "big", 3, 1, 0, 0, 900), used(site, "small", 3, 1, 0, 0, 100)}, []string{"full 12 min 00 s of each hour", "90 % of the bytes are those of one client, big"}},
		"two clients fill a limit of bytes":   {"one-client", []func(*Facts){blocked(site, bytes.Limit, .2), limits(bytes), used(site, "big", 3, 1, 0, 0, 500), used(site, "small", 3, 1, 0, 0, 500)}, nil},
		"there is one client alone":           {"one-client", []func(*Facts){blocked(site, bytes.Limit, .2), limits(bytes), used(site, "big", 3, 1, 0, 0, 500)}, nil},
		"one client fills a limit of its own": {"one-client", []func(*Facts){blocked(site, bytes.Limit, .2), limits(status.Limit{Site: site, Limit: bytes.Limit, By: "client", Unit: "bytes"}), used(site, "big", 3, 1, 0, 0, 900), used(site, "small", 3, 1, 0, 0, 1)}, nil},

		"a site refuses much":              {"refusals", []func(*Facts){used(site, "a", 3, 80, 20, 0, 0)}, []string{"refused 20 % of all attempts, 20 of 100", "write the limit under sites"}},
		"a site with a limit refuses much": {"refusals", []func(*Facts){used(site, "a", 3, 80, 20, 0, 0), limits(second)}, []string{"lower the limits"}},
		"a site refuses little":            {"refusals", []func(*Facts){used(site, "a", 3, 8000, 20, 0, 0)}, nil},
		"a token is not accepted": {"denied-token", []func(*Facts){pool(site, three), func(f *Facts) {
			token := &f.Tokens.Pools[0].Tokens[2]
			token.State, token.Why, token.Until = "quarantined", "402: no credit", noon.Add(10*time.Minute)
		}}, []string{"The token c of the pool x is not accepted (402: no credit), and it is not used until 12:10:00 UTC. Replace c, or remove it from the pool. An accepted token in its place would give 50 % more."}},
		"the last token is not accepted": {"denied-token", []func(*Facts){pool(site, []string{"a"}), func(f *Facts) {
			f.Tokens.Pools[0].Tokens[0].Why = "402: no credit"
		}}, []string{"The token a of the pool x is not accepted (402: no credit). Replace a"}},
		"a token is spent": {"denied-token", []func(*Facts){pool(site, three), func(f *Facts) {
			f.Tokens.Pools[0].Tokens[2].State, f.Tokens.Pools[0].Tokens[2].Why = "spent", "nothing is left"
		}}, nil},
		"others use a token":                 {"others-use-token", []func(*Facts){pool(site, []string{"a"}, foreign(.37, noon))}, []string{`37 % of the use of "5 per 1s" of the token a is not this abide's`}},
		"others use little of a token":       {"others-use-token", []func(*Facts){pool(site, []string{"a"}, foreign(.1, noon))}, nil},
		"others are tokens of the same pool": {"others-use-token", []func(*Facts){pool(site, []string{"a", "b"}, foreign(.5, noon))}, nil},
		"tokens move together":               {"one-account", []func(*Facts){pool(site, []string{"a", "b"}, foreign(.5, noon))}, []string{"tokens a and b of the pool x are used together"}},
		"a token moves alone":                {"one-account", []func(*Facts){pool(site, []string{"a"}, foreign(.5, noon))}, nil},
		"a priority waits for long":          {"priority", []func(*Facts){used(site, "a", 6, 10, 0, 2*time.Hour, 0), used(site, "b", 1, 70, 0, time.Minute, 0)}, []string{"priority 6 have waited 12 min 00 s on average; 70 more urgent ones went first"}},
		"all priorities wait for long":       {"priority", []func(*Facts){used(site, "a", 6, 10, 0, 2*time.Hour, 0), used(site, "b", 1, 10, 0, 2*time.Hour, 0)}, nil},
		"there is one priority alone":        {"priority", []func(*Facts){used(site, "a", 6, 10, 0, 2*time.Hour, 0)}, nil},
		"clients give up": {"given-up", []func(*Facts){used(site, "news", 4, 40, 0, 200*time.Second, 0), failed(site, "499: 5s", 30)}, []string{
			"api.test: clients gave up 30 of 40 requests after 5 s, before the end of the answer; a request waited for 5 s on average.", "longer time-out, see docs/crawlers.md#time-outs",
		}},
		"clients give up what does not wait": {"given-up", []func(*Facts){used(site, "news", 4, 40, 0, time.Second, 0), failed(site, "499: 5s", 30)}, []string{"30 of 40 requests after 5 s, before the end of the answer."}},
		"requests are stopped":               {"given-up", []func(*Facts){used(site, "news", 4, 40, 0, 0, 0), failed(site, "499: 1s", 10), failed(site, "499: 7.1s", 9), failed(site, "499: 2m0s", 9), failed(site, "499: the site failed", 20)}, nil},
		"one request is given up":            {"given-up", []func(*Facts){used(site, "news", 4, 40, 0, 0, 0), failed(site, "499", 1), failed(site, "404", 30)}, nil},
		"a site refuses all": {"refuses-all", []func(*Facts){used(site, "news", 4, 40, 0, 0, 0), failed(site, "403", 30), lately(site, "403"), failed(site, "403: by abide: insecure", 8), failed(site, "insecure", 8)}, []string{
			"api.test answered 403 to 30 of 40 requests, so it may block this crawler.", "rules for crawlers",
		}},
		"a site refuses all no more": {"refuses-all", []func(*Facts){used(site, "news", 4, 40, 0, 0, 0), failed(site, "403", 30), failed(site, "403: by abide: insecure", 8), failed(site, "insecure", 8)}, []string{
			"api.test answered 403 to 30 of 40 requests, so it may have blocked this crawler.", "rules for crawlers",
		}},
		"a site does not work": {"outage", []func(*Facts){func(f *Facts) {
			f.Broken = []status.Breaker{{Site: site, State: status.Failing, Why: "it answers 503 to all requests", Since: noon.Add(-time.Hour)}}
		}}, []string{"api.test does not work: it answers 503 to all requests, since 11:00:00 UTC. Look at it, or at the network: no limit is the reason. abide asks again for 502, 503, 504 and connections that fail; other answers reach the client"}},
		"a backend does not work": {"outage", []func(*Facts){func(f *Facts) {
			f.Broken = []status.Breaker{{Site: site, Backend: "b", State: "open", Why: "the host refused the connection"}}
		}}, []string{"api.test / b does not work: the host refused the connection. Look at it"}},
		"a limit of what does not work": {"limit", []func(*Facts){blocked(site, second.Limit, .5), limits(second), func(f *Facts) { f.Broken = []status.Breaker{{Site: site, State: "open"}} }}, nil},
		"abide forbids it":              {"refuses-all", []func(*Facts){used(site, "news", 4, 40, 0, 0, 0), failed(site, "403: by abide: forbidden", 38), failed(site, "forbidden", 38)}, nil},
		"https passes unread": {"unread", []func(*Facts){func(f *Facts) {
			f.Unread = []status.SiteUnread{{Site: site, Reasons: []status.UnreadReason{{Reason: "auto", Connections: 340, Remedy: "use listen_open"}}}}
		}}, []string{"340 https connections to api.test have passed unread", "Use listen_open."}},
		"https is meant to pass unread": {"unread", []func(*Facts){func(f *Facts) {
			f.Unread = []status.SiteUnread{{Site: site, Reasons: []status.UnreadReason{{Reason: "excluded", Connections: 340}}}}
		}}, nil},
		"hardly any https has passed unread": {"unread", []func(*Facts){func(f *Facts) {
			f.Unread = []status.SiteUnread{{Site: site, Reasons: []status.UnreadReason{{Reason: "auto", Connections: 2, Remedy: "use listen_open"}}}}
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, one := range Advise(factsOf(c.facts...)).Advice {
				if one.Rule == c.rule {
					found = append(found, one.Text+" "+one.Change)
				}
			}
			if len(found) != min(len(c.want), 1) {
				t.Fatalf("%q", found)
			}
			for _, part := range c.want {
				if !strings.Contains(found[0], part) {
					t.Errorf("no %q in %q", part, found[0])
				}
			}
		})
	}
}

func TestEveryRuleIsTested(t *testing.T) {
	var names []string
	for _, one := range rules {
		names = append(names, one.name)
	}
	slices.Sort(names)
	if got := len(slices.Compact(names)); got != 13 {
		t.Errorf("%d rules; add the cases of a new one to TestEachRuleHasATrueAndAFalseCase", got)
	}
}

func TestWhatClientsGiveUpComesFirst(t *testing.T) {
	list := Advise(factsOf(blocked("a", "cooldown", 1), used("b", "news", 4, 400, 0, 0, 0), failed("b", "499: 5s", 30))).Advice
	if len(list) != 2 || list[0].Rule != "given-up" {
		t.Errorf("%+v", list)
	}
}

// TestWhatClientsLoseSaysWhetherItIsSoLately: what is over is advice, and nothing that is wrong. The limit has its name.
func TestWhatClientsLoseSaysWhetherItIsSoLately(t *testing.T) {
	facts := []func(*Facts){
		used("a", "news", 4, 400, 0, 0, 0), failed("a", "499: 5s", 30), lately("a", "499: 9s together"),
		used("b", "news", 4, 400, 0, 0, 0), failed("b", "499: 5s", 30), lately("a", "503"),
		used("c", "news", 4, 400, 0, 0, 0), failed("c", "wait", 30), lately("c", "wait"), limits(status.Limit{Site: "c", Limit: "6 requests per 1m", Amount: 6}),
		used("e", "news", 4, 400, 0, 0, 0), failed("e", "breaker", 30), lately("e", "breaker"), // it answers again
		used("d", "news", 4, 400, 0, 0, 0), failed("d", "wait", 30), lately("d", "queue"), blocked("d", "4 in flight", .01), blocked("d", "3 requests per 1m", .9), limits(status.Limit{Site: "d", Limit: "4 in flight", Amount: 4, Left: 1}), // the other was replaced
	}
	for _, one := range Advise(factsOf(facts...)).Advice {
		if want := one.Site == "a" || one.Site == "c"; one.Loses() != want {
			t.Errorf("%+v", one)
		}
		if limit := map[string]string{"c": "; most waited for 6 requests per 1m.", "d": "; most waited for 4 in flight."}[one.Site]; !strings.HasSuffix(one.Text, limit) {
			t.Errorf("%q lacks %q", one.Text, limit)
		}
	}
}

func TestTrivialAdviceIsNotGiven(t *testing.T) {
	for requests, want := range map[int64]int{40_000: 0, 400: 1} {
		if list := Advise(factsOf(used("a", "news", 4, requests, 0, 0, 0), failed("a", "wait", 5))).Advice; len(list) != want {
			t.Errorf("5 of %v: %+v", requests, list)
		}
	}
}

func TestFaultsComeFirst(t *testing.T) {
	list := Advise(factsOf(blocked("a", "cooldown", 1), pool("b", []string{"ann", "ben"}), func(f *Facts) {
		f.Broken = []status.Breaker{{Site: "c", State: "open", Why: "it answered 502"}}
		f.Tokens.Pools[0].Tokens[0].State, f.Tokens.Pools[0].Tokens[0].Why = "quarantined", "401"
	})).Advice
	if len(list) != 3 || list[0].Rule != "outage" || list[1].Rule != "denied-token" {
		t.Errorf("%+v", list)
	}
}

func TestAdviceIsSortedAndBounded(t *testing.T) {
	var changes []func(*Facts)
	for i := range 3 * most {
		site, title := fmt.Sprint("s", i), fmt.Sprint("limit", i)
		changes = append(changes, blocked(site, title, .11+float64(i)/1000), limits(status.Limit{Site: site, Limit: title, Amount: 9, Unit: "bytes", Window: 1}))
	}
	list := Advise(factsOf(changes...)).Advice
	if len(list) != most || list[0].Site != fmt.Sprint("s", 3*most-1) {
		t.Errorf("%d, the first is %+v", len(list), list[0])
	}
}

func TestAdviceThatIsTheSameForManySitesIsToldOnce(t *testing.T) {
	var of []func(*Facts)
	for i := range 49 {
		of = append(of, used(fmt.Sprintf("s%02d.test", i), "a", 3, 80, int64(20+i), 0, 0))
	}
	list := Advise(factsOf(of...)).Advice
	if len(list) != 1 || len(list[0].Others) != 48 || !strings.Contains(list[0].Text, "The same is so of 48 others: s47.test, ") || !strings.HasSuffix(list[0].Text, " and 43 more.") {
		t.Errorf("%+v", list)
	}
	if list := Advise(factsOf(of[:3]...)).Advice; len(list) != 3 {
		t.Errorf("of three sites: %+v", list)
	}
	labels := strings.Fields("ann ben carl dora")
	list = Advise(factsOf(pool("api.test", labels), func(f *Facts) {
		for i := range f.Tokens.Pools[0].Tokens {
			f.Tokens.Pools[0].Tokens[i].State, f.Tokens.Pools[0].Tokens[i].Why = "quarantined", "401"
		}
	})).Advice
	if len(list) != 1 || !strings.Contains(list[0].Text, "token ann of the pool x is not accepted (401). The same is so of 3 others: ben, carl, dora.") {
		t.Errorf("of tokens: %+v", list)
	}
}

// TestTheWorkOfAdviceGrowsAsTheSites: the memory that it takes counts the work.
func TestTheWorkOfAdviceGrowsAsTheSites(t *testing.T) {
	work := func(sites int) uint64 {
		var changes []func(*Facts)
		for i := range sites {
			name := fmt.Sprintf("s%04d.test", i)
			changes = append(changes, blocked(name, "cooldown", .5), used(name, "a", 3, 80, int64(20+i), 0, 0), failed(name, "403", 5))
		}
		f := factsOf(changes...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Advise(f)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := work(250), work(1000); many > 8*few {
		t.Errorf("%d bytes for 250 sites, %d for 1000", few, many)
	}
}

// TestARefusalBecauseOfAPauseSaysSo: nothing waits, and a longer wait is no remedy.
func TestARefusalBecauseOfAPauseSaysSo(t *testing.T) {
	f := factsOf(used("a.test", "a", 3, 464, 0, 0, 0), failed("a.test", "wait", 422), blocked("a.test", "the first request", .5))
	f.Paused = map[string]status.Pause{"a.test": {}}
	list := Advise(f).Advice
	if len(list) != 1 || list[0].Text != "a.test: abide itself answered 422 of 464 requests with \"the wait would be too long\", because it is paused by the operator for longer than a request may wait (queue.wait)." || list[0].Change != "Resume it: abide resume a.test." {
		t.Errorf("%+v", list)
	}
}
