package proxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// simServices are well-known services by name. Their limits are the documented ones, or
// smaller ones of the same kind.
func simServices() []*simService {
	return []*simService{
		simX(), simGitHub(300, 10), simReddit(), simDiscord(), simShopify(),
		simDraft06(), simDraft07(), simDraft08(), simOpenAI(), simRiot(), simGCRA(),
	}
}

func simOneBucket(string) string { return "" }

func simOneWindow(limit float64, per time.Duration) func(string) []simMeter {
	return func(string) []simMeter { return []simMeter{&simWindow{limit: limit, per: per}} }
}

// left is what a limit has left in whole units, and in how long it is whole again.
func (w *simWord) left(i int) (int, time.Duration) {
	return int(max(0, math.Floor(w.limits[i].left(w.now)+roundingError))), w.limits[i].refill(w.now).Sub(w.now)
}

func simEpoch(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func simSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds() - 1e-9)) }

// simX counts every endpoint in quarters of an hour that the first request opens,
// and truncates when they end.
func simX() *simService {
	limits := map[string]float64{"retweeters": 75, "tweets": 900}
	return &simService{
		name: "X", host: "api.twitter.com", span: 15 * time.Minute, windows: 2, counts: []int{0},
		paths: []string{"/2/tweets/%d/retweeted_by", "/2/users/%d/tweets"},
		bucket: func(path string) string {
			if strings.HasSuffix(path, "/retweeted_by") {
				return "retweeters"
			}
			return "tweets"
		},
		limits: func(bucket string) []simMeter {
			return []simMeter{&simWindow{limit: limits[bucket], per: 15 * time.Minute}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			left, whole := w.left(0)
			h.Set("X-Rate-Limit-Limit", strconv.Itoa(int(limits[w.bucket])))
			h.Set("X-Rate-Limit-Remaining", strconv.Itoa(left))
			h.Set("X-Rate-Limit-Reset", simEpoch(w.now.Add(whole)))
			if !w.served {
				return 429, `{"errors":[{"code":88,"message":"Rate limit exceeded"}]}`
			}
			return 200, `{"data":[]}`
		},
	}
}

// simGitHub has a core of so many an hour, which its routes share, a search of so
// many a minute, and a hundred at once.
func simGitHub(core, search float64) *simService {
	return &simService{
		name: "GitHub", host: "api.github.com", span: time.Hour, windows: 2, counts: []int{0}, most: 100,
		paths: []string{"/repos/golang/go/issues/%d", "/search/repositories", "/users/gopher/repos"},
		bucket: func(path string) string {
			if strings.HasPrefix(path, "/search/") {
				return "search"
			}
			return "core"
		},
		limits: func(bucket string) []simMeter {
			if bucket == "search" {
				return []simMeter{&simWindow{limit: search, per: time.Minute}}
			}
			return []simMeter{&simWindow{limit: core, per: time.Hour}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			limit := w.limits[0].(*simWindow)
			left, whole := w.left(0)
			h.Set("X-Ratelimit-Limit", strconv.Itoa(int(limit.limit)))
			h.Set("X-Ratelimit-Remaining", strconv.Itoa(left))
			h.Set("X-Ratelimit-Used", strconv.Itoa(int(limit.in)))
			h.Set("X-Ratelimit-Reset", simEpoch(w.now.Add(whole)))
			h.Set("X-Ratelimit-Resource", w.bucket)
			switch {
			case w.crowd:
				h.Set("Retry-After", "60")
				return 403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
			case !w.served:
				return 403, `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`
			}
			return 200, "[]"
		},
	}
}

// simReddit counts in ten minutes of the clock, in floats, and says how many whole
// seconds are left.
func simReddit() *simService {
	return &simService{
		name: "Reddit", host: "oauth.reddit.com", span: 10 * time.Minute, windows: 3, counts: []int{0},
		paths: []string{"/r/golang/new", "/user/spez/comments"}, bucket: simOneBucket,
		limits: func(string) []simMeter {
			return []simMeter{&simWindow{limit: 600, per: 10 * time.Minute, aligned: true}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			left, whole := w.left(0)
			h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%d.0", left))
			h.Set("X-Ratelimit-Used", strconv.Itoa(600-left))
			h.Set("X-Ratelimit-Reset", strconv.Itoa(int(whole.Seconds())))
			if !w.served {
				h.Set("X-Ratelimit-Used", "1")
				return 429, `{"message":"Too Many Requests","error":429}`
			}
			return 200, `{"kind":"Listing"}`
		},
	}
}

// simDiscord has buckets with names, of some seconds. Two routes share one.
func simDiscord() *simService {
	return simDiscordOf("/api/v10/channels/41771983423143937/messages", "/api/v10/guilds/41771983423143937/members", "/api/v10/channels/41771983423143937/pins")
}

// simDiscordOf counts each channel for itself, and calls the buckets of all by one
// name.
func simDiscordOf(paths ...string) *simService {
	members := func(bucket string) bool { return strings.HasPrefix(bucket, "guilds") }
	return &simService{
		name: "Discord", host: "discord.com", span: time.Minute, windows: 1, counts: []int{0}, paths: paths, short: true,
		bucket: func(path string) string {
			parts := strings.Split(path, "/")
			return parts[3] + " " + parts[4]
		},
		limits: func(bucket string) []simMeter {
			if members(bucket) {
				return []simMeter{&simWindow{limit: 10, per: time.Second}}
			}
			return []simMeter{&simWindow{limit: 5, per: 5 * time.Second}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			limit := w.limits[0].(*simWindow)
			left, whole := w.left(0)
			h.Set("X-Ratelimit-Limit", strconv.Itoa(int(limit.limit)))
			h.Set("X-Ratelimit-Remaining", strconv.Itoa(left))
			h.Set("X-Ratelimit-Reset", fmt.Sprintf("%.3f", float64(w.now.Add(whole).UnixMicro())/1e6))
			h.Set("X-Ratelimit-Reset-After", fmt.Sprintf("%.3f", whole.Seconds()))
			h.Set("X-Ratelimit-Bucket", "abcd1234")
			if members(w.bucket) {
				h.Set("X-Ratelimit-Bucket", "efgh5678")
			}
			if !w.served {
				h.Set("Retry-After", strconv.Itoa(simSeconds(whole)))
				h.Set("X-Ratelimit-Scope", "user")
				return 429, fmt.Sprintf(`{"message":"You are being rate limited.","retry_after":%.3f,"global":false}`, whole.Seconds())
			}
			return 200, "[]"
		},
	}
}

// simShopify is a bucket of 40 that leaks two a second, and says only how full it is.
func simShopify() *simService {
	return &simService{
		name: "Shopify", host: "gophers.myshopify.com", span: 8 * time.Minute, windows: 1, counts: []int{0},
		paths: []string{"/admin/api/2024-01/products/%d.json", "/admin/api/2024-01/orders.json"}, bucket: simOneBucket,
		limits: func(string) []simMeter { return []simMeter{&simBucket{size: 40, rate: 2}} },
		say: func(w simWord, h http.Header) (int, string) {
			left, _ := w.left(0)
			h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/40", 40-left))
			if !w.served {
				h.Set("Retry-After", "2.0")
				return 429, `{"errors":"Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service."}`
			}
			return 200, `{"products":[]}`
		},
	}
}

func simDraft06() *simService {
	return &simService{
		name: "IETF 06", host: "six.test", span: time.Minute, windows: 10, counts: []int{0},
		paths: []string{"/a/%d", "/b"}, bucket: simOneBucket,
		limits: func(string) []simMeter {
			return []simMeter{&simWindow{limit: 60, per: time.Minute, aligned: true}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			left, whole := w.left(0)
			h.Set("Ratelimit-Policy", "60;w=60")
			h.Set("Ratelimit-Limit", "60")
			h.Set("Ratelimit-Remaining", strconv.Itoa(left))
			h.Set("Ratelimit-Reset", strconv.Itoa(simSeconds(whole)))
			if !w.served {
				return 429, "{}"
			}
			return 200, "{}"
		},
	}
}

func simDraft07() *simService {
	return &simService{
		name: "IETF 07", host: "seven.test", span: time.Minute, windows: 10, counts: []int{0},
		paths: []string{"/a/%d", "/b"}, bucket: simOneBucket, limits: simOneWindow(60, time.Minute),
		say: func(w simWord, h http.Header) (int, string) {
			left, whole := w.left(0)
			h.Set("Ratelimit-Policy", "60;w=60")
			h.Set("Ratelimit", fmt.Sprintf("limit=60, remaining=%d, reset=%d", left, simSeconds(whole)))
			if !w.served {
				h.Set("Retry-After", strconv.Itoa(simSeconds(whole)))
				return 429, "{}"
			}
			return 200, "{}"
		},
	}
}

// simDraft08 has two windows at once. What it allows is what the longer one does.
func simDraft08() *simService {
	return &simService{
		name: "IETF 08", host: "eight.test", span: time.Minute, windows: 10, counts: []int{1},
		paths: []string{"/a/%d", "/b"}, bucket: simOneBucket,
		limits: func(string) []simMeter {
			return []simMeter{&simWindow{limit: 20, per: 10 * time.Second}, &simWindow{limit: 60, per: time.Minute}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			burst, soon := w.left(0)
			left, whole := w.left(1)
			h.Set("Ratelimit-Policy", `"burst";q=20;w=10, "minute";q=60;w=60`)
			h.Set("Ratelimit", fmt.Sprintf(`"burst";r=%d;t=%d, "minute";r=%d;t=%d`, burst, simSeconds(soon), left, simSeconds(whole)))
			if !w.served {
				return 429, "{}"
			}
			return 200, "{}"
		},
	}
}

// simOpenAI counts requests and tokens in buckets and says when they are full. How
// many tokens a request takes is known only then.
func simOpenAI() *simService {
	return &simService{
		name: "OpenAI", host: "api.openai.com", span: 6 * time.Minute, windows: 1, counts: []int{0, 1}, unsaid: true,
		paths: []string{"/v1/responses"}, bucket: simOneBucket,
		limits: func(string) []simMeter {
			return []simMeter{&simBucket{size: 100, rate: 100. / 60}, &simBucket{size: 40000, rate: 40000. / 60}}
		},
		cost: func(chance *rand.Rand, i int) float64 {
			if i == 0 {
				return 1
			}
			return float64(200 + chance.IntN(801))
		},
		say: func(w simWord, h http.Header) (int, string) {
			for i, name := range []string{"Requests", "Tokens"} {
				left, whole := w.left(i)
				h.Set("X-Ratelimit-Limit-"+name, strconv.Itoa(int(w.limits[i].(*simBucket).size)))
				h.Set("X-Ratelimit-Remaining-"+name, strconv.Itoa(left))
				h.Set("X-Ratelimit-Reset-"+name, (whole + time.Millisecond - 1).Truncate(time.Millisecond).String())
			}
			if !w.served {
				wait := max(w.limits[0].(*simBucket).until(w.now, w.costs[0]), w.limits[1].(*simBucket).until(w.now, w.costs[1]))
				h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(wait.Seconds()*1000)), 10))
				h.Set("Retry-After", strconv.Itoa(simSeconds(wait)))
				return 429, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached"}}`
			}
			return 200, "{}"
		},
	}
}

// simRiot says what counts in which window, and never when one ends.
func simRiot() *simService {
	return &simService{
		name: "Riot", host: "euw1.api.riotgames.com", span: 2 * time.Minute, windows: 5, counts: []int{1},
		paths: []string{"/lol/match/v5/matches/%d", "/lol/status/v4/platform-data"}, bucket: simOneBucket,
		limits: func(string) []simMeter {
			return []simMeter{&simWindow{limit: 20, per: time.Second}, &simWindow{limit: 100, per: 2 * time.Minute}}
		},
		say: func(w simWord, h http.Header) (int, string) {
			second, soon := w.left(0)
			left, whole := w.left(1)
			h.Set("X-App-Rate-Limit", "20:1,100:120")
			h.Set("X-App-Rate-Limit-Count", fmt.Sprintf("%d:1,%d:120", 20-second, 100-left))
			if !w.served {
				if left > 0 {
					whole = soon
				}
				h.Set("X-Rate-Limit-Type", "application")
				h.Set("Retry-After", strconv.Itoa(max(1, simSeconds(whole))))
				return 429, `{"status":{"message":"Rate limit exceeded","status_code":429}}`
			}
			return 200, "{}"
		},
	}
}

// simGCRA says when it is full again, which is long after the next request may go.
func simGCRA() *simService {
	return &simService{
		name: "GCRA", host: "gcra.test", span: 10 * time.Minute, windows: 1, counts: []int{0},
		paths: []string{"/a/%d", "/b"}, bucket: simOneBucket,
		limits: func(string) []simMeter { return []simMeter{&simBucket{size: 20, rate: 1}} },
		say: func(w simWord, h http.Header) (int, string) {
			left, whole := w.left(0)
			h.Set("X-Ratelimit-Limit", "20")
			h.Set("X-Ratelimit-Remaining", strconv.Itoa(left))
			h.Set("X-Ratelimit-Reset", strconv.Itoa(simSeconds(whole)))
			if !w.served {
				h.Set("Retry-After", strconv.Itoa(simSeconds(w.limits[0].(*simBucket).until(w.now, 1))))
				return 429, "{}"
			}
			return 200, "{}"
		},
	}
}
