package main

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// announcedServices say what is left in the headers of each answer.
var announcedServices = []*service{
	{
		name: "GitHub", source: "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api", host: "api.github.com", kind: announced, requests: 1200, paths: []string{"/repos/golang/go/issues/%d"},
		rules: own(func() rule { return &window{amount: 60, length: time.Hour} }), announce: triple("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", epochSeconds),
		refuse: refusing(403, `{"message":"API rate limit exceeded for user ID 1."}`),
	},
	{
		name: "X", source: "https://docs.x.com/x-api/fundamentals/rate-limits", host: "api.x.com", kind: announced, requests: 1500, paths: []string{"/2/tweets/%d/retweeted_by"},
		rules: own(func() rule { return &window{amount: 75, length: 15 * time.Minute} }), announce: triple("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", epochSeconds),
		refuse: refusing(429, `{"title":"Too Many Requests"}`),
	},
	{
		name: "X, two endpoints", source: "https://docs.x.com/x-api/fundamentals/rate-limits", host: "api.x.com", kind: announced, requests: 3000, paths: []string{"/2/tweets/%d/retweeted_by", "/2/users/%d/tweets"},
		scope: lastPart,
		rules: func(path string) []rule {
			return []rule{&window{amount: map[string]float64{"retweeted_by": 75, "tweets": 900}[lastPart(path)], length: 15 * time.Minute}}
		},
		announce: triple("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", epochSeconds), refuse: refusing(429, `{"errors":[{"code":88,"message":"Rate limit exceeded"}]}`),
	},
	{
		name: "GitHub, core and search", source: "https://docs.github.com/en/rest/search/search#rate-limit", host: "api.github.com", kind: announced, requests: 900, atOnce: 100,
		paths: []string{"/repos/golang/go/issues/%d", "/search/repositories", "/users/gopher/repos"}, scope: githubResource,
		rules: func(path string) []rule {
			if githubResource(path) == "search" {
				return []rule{&window{amount: 10, length: time.Minute}}
			}
			return []rule{&window{amount: 300, length: time.Hour}}
		},
		announce: func(s *said, h http.Header) {
			triple("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", epochSeconds)(s, h)
			h.Set("X-Ratelimit-Used", strconv.Itoa(int(s.rules[0].(*window).used)))
			h.Set("X-Ratelimit-Resource", githubResource(s.path))
		},
		refuse: refusing(403, `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`),
		busy:   secondaryLimit,
	},
	{
		name: "GitLab", source: "https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/", host: "gitlab.test", kind: announced, requests: 2000,
		rules: own(func() rule { return &window{amount: 100, length: time.Minute, aligned: true} }), announce: triple("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", epochSeconds),
		refuse: refusing(429, "Retry later"),
	},
	{
		name: "Reddit", source: "https://support.reddithelp.com/hc/en-us/articles/16160319875092", host: "oauth.reddit.com", kind: announced, requests: 6000, paths: []string{"/r/golang/new", "/user/gopher/comments"},
		rules: own(func() rule { return &window{amount: 600, length: 10 * time.Minute, aligned: true} }),
		announce: func(s *said, h http.Header) {
			w := s.rules[0].(*window)
			h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%.1f", w.left(s.now)))
			h.Set("X-Ratelimit-Used", strconv.Itoa(int(w.used)))
			h.Set("X-Ratelimit-Reset", deltaFloor(s.now, w.end()))
		},
		refuse: refusing(429, `{"message":"Too Many Requests","error":429}`),
	},
	{
		name: "Shopify", source: "https://shopify.dev/docs/api/usage/limits", host: "gophers.myshopify.com", kind: announced, requests: 400, paths: []string{"/admin/api/2024-01/orders.json"},
		rules: own(func() rule { return &bucket{size: 40, rate: 2} }),
		announce: func(s *said, h http.Header) {
			b := s.rules[0].(*bucket)
			h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/40", int(math.Ceil(40-b.level-1e-9))))
		},
		refuse: refusing(429, `{"errors":"Exceeded 2 calls per second for api client."}`, "Retry-After", "2.0"),
	},
	{
		name: "Twitch", source: "https://dev.twitch.tv/docs/api/guide/#twitch-rate-limits", host: "api.twitch.tv", kind: announced, requests: 4000, paths: []string{"/helix/users"},
		rules: own(func() rule { return &bucket{size: 800, rate: 800. / 60} }), announce: fullBucket("Ratelimit", epochSeconds), refuse: refusing(429, `{"error":"Too Many Requests"}`),
	},
	{
		name: "Anthropic", source: "https://docs.anthropic.com/en/api/rate-limits", host: "api.anthropic.com", kind: announced, requests: 500, paths: []string{"POST /v1/messages"},
		rules: own(func() rule { return &bucket{size: 50, rate: 50. / 60} }),
		announce: func(s *said, h http.Header) {
			b := s.rules[0].(*bucket)
			h.Set("Anthropic-Ratelimit-Requests-Limit", "50")
			h.Set("Anthropic-Ratelimit-Requests-Remaining", strconv.Itoa(int(b.level+1e-9)))
			h.Set("Anthropic-Ratelimit-Requests-Reset", b.full(s.now).Add(time.Second-1).UTC().Truncate(time.Second).Format(time.RFC3339))
		},
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("Retry-After", seconds(s.wait()))
			return 429, `{"type":"error","error":{"type":"rate_limit_error"}}`
		},
	},
	{
		name: "OpenAI", source: "https://platform.openai.com/docs/guides/rate-limits", host: "api.openai.com", kind: announced, requests: 500, paths: []string{"POST /v1/responses"},
		rules: own(func() rule { return &bucket{size: 60, rate: 1} }),
		announce: func(s *said, h http.Header) {
			b := s.rules[0].(*bucket)
			h.Set("X-Ratelimit-Limit-Requests", "60")
			h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(b.level+1e-9)))
			h.Set("X-Ratelimit-Reset-Requests", b.full(s.now).Sub(s.now).Truncate(time.Millisecond).String())
		},
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("Retry-After", seconds(s.wait()))
			return 429, `{"error":{"code":"rate_limit_exceeded"}}`
		},
	},
	{
		name: "IETF draft 08, 4 s", source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/", host: "draft.test", kind: announced, requests: 240,
		rules: own(func() rule { return &window{amount: 12, length: 4 * time.Second} }),
		announce: func(s *said, h http.Header) {
			w := s.rules[0].(*window)
			h.Set("Ratelimit-Policy", `"default";q=12;w=4`)
			h.Set("Ratelimit", fmt.Sprintf(`"default";r=%d;t=%s`, int(w.left(s.now)), seconds(w.end().Sub(s.now))))
		},
		refuse: refusing(429, "{}"),
	},
	{
		name: "IETF draft 07, 5 s", source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/07/", host: "seven.test", kind: announced, requests: 200,
		rules: own(func() rule { return &window{amount: 10, length: 5 * time.Second, aligned: true} }),
		announce: func(s *said, h http.Header) {
			w := s.rules[0].(*window)
			h.Set("Ratelimit-Policy", "10;w=5")
			h.Set("Ratelimit", fmt.Sprintf("limit=10, remaining=%d, reset=%s", int(w.left(s.now)), seconds(w.end().Sub(s.now))))
		},
		refuse: refusing(429, "{}"),
	},
	{
		name: "10 in 12 s, whole seconds", source: "the issue's figure", host: "twelve.test", kind: announced, requests: 200,
		rules: own(func() rule { return &window{amount: 10, length: 12 * time.Second} }), announce: triple("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", epochSeconds),
		refuse: refusing(429, ""),
		goal:   goal{ratio: 1.07, slower: 1.07},
	},
	{
		name: "GitHub GraphQL", source: "https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api", host: "api.github.com", kind: announced, requests: 500, paths: []string{"POST /graphql"},
		rules: own(func() rule { return &window{amount: 200, length: time.Hour} }), cost: func(n int) float64 { return float64(1 + n*7%15) },
		announce: triple("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", epochSeconds),
		refuse:   refusing(200, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`),
		goal:     goal{ratio: 1.12, unsaid: true}, // a window more of 20: what the most expensive may cost stays unused
	},
	{
		name: "IETF draft 06, 1 min", source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/06/", host: "six.test", kind: announced, requests: 1200,
		rules: own(func() rule { return &window{amount: 60, length: time.Minute, aligned: true} }),
		announce: func(s *said, h http.Header) {
			h.Set("Ratelimit-Policy", "60;w=60")
			triple("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", deltaCeil)(s, h)
		},
		refuse: refusing(429, "{}"),
	},
	{
		name: "IETF draft 08, two windows", source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/", host: "eight.test", kind: announced, requests: 1200,
		rules: func(string) []rule {
			return []rule{&window{amount: 20, length: 10 * time.Second}, &window{amount: 60, length: time.Minute}}
		},
		announce: func(s *said, h http.Header) {
			burst, minute := s.rules[0].(*window), s.rules[1].(*window)
			h.Set("Ratelimit-Policy", `"burst";q=20;w=10, "minute";q=60;w=60`)
			h.Set("Ratelimit", fmt.Sprintf(`"burst";r=%d;t=%s, "minute";r=%d;t=%s`,
				int(burst.left(s.now)), deltaCeil(s.now, burst.end()), int(minute.left(s.now)), deltaCeil(s.now, minute.end())))
		},
		refuse: refusing(429, "{}"),
	},
	{
		name: "OpenAI, requests and tokens", source: "https://platform.openai.com/docs/guides/rate-limits", host: "api.openai.com", kind: announced, requests: 500, paths: []string{"POST /v1/responses"},
		rules: func(string) []rule {
			return []rule{&counted{&bucket{size: 100, rate: 100. / 60}}, &bucket{size: 40000, rate: 40000. / 60}}
		},
		cost: func(n int) float64 { return float64(200 + n*7919%801) },
		announce: func(s *said, h http.Header) {
			for i, name := range []string{"Requests", "Tokens"} {
				limit, left, full := state(s.rules[i], s.now)
				h.Set("X-Ratelimit-Limit-"+name, strconv.Itoa(limit))
				h.Set("X-Ratelimit-Remaining-"+name, strconv.Itoa(left))
				h.Set("X-Ratelimit-Reset-"+name, (full.Sub(s.now) + time.Millisecond - 1).Truncate(time.Millisecond).String())
			}
		},
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(s.wait().Seconds()*1000)), 10))
			return waiting(429, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached"}}`)(s, h)
		},
		goal: goal{unsaid: true},
	},
	{
		name: "Riot", source: "https://developer.riotgames.com/docs/portal#web-apis_rate-limiting", host: "euw1.api.riotgames.com", kind: announced, requests: 1200, paths: []string{"/lol/match/v5/matches/%d", "/lol/status/v4/platform-data"},
		rules: func(string) []rule {
			return []rule{&window{amount: 20, length: time.Second}, &window{amount: 100, length: 2 * time.Minute}}
		},
		announce: func(s *said, h http.Header) {
			second, minutes := s.rules[0].(*window), s.rules[1].(*window)
			h.Set("X-App-Rate-Limit", "20:1,100:120")
			h.Set("X-App-Rate-Limit-Count", fmt.Sprintf("%d:1,%d:120", 20-int(second.left(s.now)), 100-int(minutes.left(s.now))))
		},
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("X-Rate-Limit-Type", "application")
			return waiting(429, `{"status":{"message":"Rate limit exceeded","status_code":429}}`)(s, h)
		},
	},
	{
		name: "GCRA", source: "https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm", host: "gcra.test", kind: announced, requests: 600,
		rules: own(func() rule { return &bucket{size: 20, rate: 1} }), announce: fullBucket("X-Ratelimit", deltaCeil), refuse: waiting(429, "{}"),
	},
	{
		name: "Discord, a bucket for each channel", source: "https://discord.com/developers/docs/topics/rate-limits", host: "discord.com", kind: announced, requests: 600,
		paths: []string{"/api/v10/channels/41771983423143937/messages", "/api/v10/channels/41771983423143938/messages", "/api/v10/channels/41771983423143939/messages", "/api/v10/guilds/41771983423143937/members"}, scope: discordBucket,
		rules: func(path string) []rule {
			if strings.HasPrefix(discordBucket(path), "guilds") {
				return []rule{&window{amount: 10, length: time.Second}}
			}
			return []rule{&window{amount: 5, length: 5 * time.Second}}
		},
		announce: func(s *said, h http.Header) {
			limit, left, end := state(s.rules[0], s.now)
			h.Set("X-Ratelimit-Limit", strconv.Itoa(limit))
			h.Set("X-Ratelimit-Remaining", strconv.Itoa(left))
			h.Set("X-Ratelimit-Reset", fmt.Sprintf("%.3f", float64(end.UnixMicro())/1e6))
			h.Set("X-Ratelimit-Reset-After", fmt.Sprintf("%.3f", end.Sub(s.now).Seconds()))
			h.Set("X-Ratelimit-Bucket", map[bool]string{true: "abcd1234", false: "efgh5678"}[limit == 5]) // all channels have the same name
		},
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("X-Ratelimit-Scope", "user")
			return waiting(429, fmt.Sprintf(`{"message":"You are being rate limited.","retry_after":%.3f,"global":false}`, s.wait().Seconds()))(s, h)
		},
	},
	{
		name: "HubSpot", source: "https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines", host: "api.hubapi.com", kind: announced, requests: 2000, paths: []string{"/crm/v3/objects/contacts/%d"},
		rules: own(func() rule { return &rolling{amount: 100, length: 10 * time.Second} }),
		announce: func(s *said, h http.Header) {
			w := s.rules[0].(*rolling)
			h.Set("X-Hubspot-Ratelimit-Max", "100")
			h.Set("X-Hubspot-Ratelimit-Remaining", strconv.Itoa(100-len(w.counted(s.now))))
			h.Set("X-Hubspot-Ratelimit-Interval-Milliseconds", "10000")
		},
		refuse: refusing(429, `{"errorType":"RATE_LIMIT","policyName":"TEN_SECONDLY_ROLLING"}`),
		goal:   goal{ratio: 1.05},
	},
	{
		name: "OpenAlex", source: "https://developers.openalex.org/api-reference/authentication", host: "api.openalex.org", kind: announced, requests: 6000,
		paths: []string{"/works", "/authors", "/works/W%d", "/works/W%d"},
		rules: own(func() rule { return &window{amount: 1500, length: 30 * time.Second} }),
		cost:  func(n int) float64 { return []float64{10, 10, 1, 1}[n%4] }, announce: triple("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", deltaCeil),
		refuse: waiting(429, "{}"),
		goal:   goal{ratio: 1.1, slower: 1.1},
	},
	{
		name: "tokens of a language model", source: "https://platform.openai.com/docs/guides/rate-limits", host: "llm.test", kind: announced, requests: 200, paths: []string{"POST /v1/chat/completions"},
		latency:  500 * time.Millisecond,
		rules:    own(func() rule { return &window{amount: 1000, length: 20 * time.Second} }),
		cost:     func(int) float64 { return 100 },
		announce: triple("X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", deltaCeil),
		refuse:   waiting(429, "{}"),
		goal:     goal{ratio: 1.1},
	},
}

// namedServices say nothing before they refuse, and for how long when they do.
var namedServices = []*service{
	{
		name: "Slack", source: "https://docs.slack.dev/apis/web-api/rate-limits/", host: "slack.com", kind: named, requests: 400, paths: []string{"/api/conversations.list"},
		rules: own(func() rule { return &window{amount: 20, length: time.Minute} }), refuse: waiting(429, `{"ok":false,"error":"ratelimited"}`),
	},
	{
		name: "Spotify", source: "https://developer.spotify.com/documentation/web-api/concepts/rate-limits", host: "api.spotify.com", kind: named, requests: 1200, paths: []string{"/v1/tracks/%d"},
		shared: one(func() rule { return &rolling{amount: 60, length: 30 * time.Second} }), refuse: waiting(429, `{"error":{"status":429,"message":"API rate limit exceeded"}}`),
		goal: goal{early: 14, often: 30, slower: 1.1}, // one limit of all tokens is taken for one of each for a while
	},
	{
		name: "Gemini", source: "https://ai.google.dev/gemini-api/docs/rate-limits", host: "generativelanguage.googleapis.com", kind: named, requests: 300, paths: []string{"POST /v1beta/models/gemini:generateContent"},
		rules: own(func() rule { return &window{amount: 15, length: time.Minute, aligned: true} }),
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("Content-Type", "application/json")
			return 429, fmt.Sprintf(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%ss"}]}}`, seconds(s.wait()))
		},
		goal: goal{early: 6},
	},
	{
		name: "Cloudflare rule", source: "https://developers.cloudflare.com/waf/rate-limiting-rules/", host: "edge.test", kind: named, requests: 1000,
		shared: one(func() rule { return &window{amount: 50, length: 10 * time.Second} }), refuse: waiting(429, "error code: 1015"),
	},
	{
		name: "Notion", source: "https://developers.notion.com/reference/request-limits", host: "pages.test", kind: named, requests: 300,
		rules: own(func() rule { return &bucket{size: 10, rate: 3} }), refuse: waiting(429, `{"code":"rate_limited"}`),
		goal: goal{early: 10, often: 4},
	},
	{
		name: "20 in 10 s and 60 in a minute", source: "two rolling windows at once", host: "two.test", kind: named, requests: 1200,
		shared: func() []rule {
			return []rule{&rolling{amount: 20, length: 10 * time.Second}, &rolling{amount: 60, length: time.Minute}}
		},
		refuse: waiting(429, "{}"),
		goal:   goal{early: 60, often: 40, slower: 1.4, ratio: 1.4}, // the shorter window is taken for a longer one for a while
	},
	{
		name: "Airtable", source: "https://airtable.com/developers/web/api/rate-limits", host: "bases.test", kind: named, requests: 300,
		rules:  own(func() rule { return &penalty{rule: &rolling{amount: 5, length: time.Second}, length: 30 * time.Second} }),
		refuse: waiting(429, `{"errors":[{"error":"RATE_LIMIT_REACHED"}]}`),
		goal:   goal{ratio: 4.5, pooled: 13, early: 5, slower: 4}, // a refusal costs half of the ideal time, and three halves with three tokens
	},
	{
		name: "GitHub content creation", source: "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits", host: "api.github.com", kind: named, requests: 800, paths: []string{"POST /repos/me/mine/issues"},
		rules:  own(func() rule { return &window{amount: 40, length: time.Minute} }),
		refuse: waiting(403, `{"message":"You have exceeded a secondary rate limit and have been temporarily blocked from content creation."}`),
	},
	{
		name: "Discord, all channels", source: "https://discord.com/developers/docs/topics/rate-limits", host: "discord.com", kind: named, requests: 2000, paths: []string{"/api/v10/users/%d", "/api/v10/channels/7/messages", "/api/v10/channels/8/messages"},
		rules: own(func() rule { return &rolling{amount: 50, length: time.Second} }),
		refuse: func(s *said, h http.Header) (int, string) {
			h.Set("Content-Type", "application/json")
			h.Set("X-Ratelimit-Global", "true")
			h.Set("X-Ratelimit-Scope", "global")
			h.Set("Retry-After", seconds(s.wait()))
			return 429, fmt.Sprintf(`{"message":"You are being rate limited.","retry_after":%.3f,"global":true}`, s.wait().Seconds())
		},
	},
}

// waiting refuses and says for how long, in whole seconds.
func waiting(status int, body string) func(*said, http.Header) (int, string) {
	refuse := refusing(status, body)
	return func(s *said, h http.Header) (int, string) {
		h.Set("Retry-After", seconds(s.wait()))
		return refuse(s, h)
	}
}

// epochSeconds is a reset as Unix seconds, rounded down.
func epochSeconds(_, end time.Time) string { return strconv.FormatInt(end.Unix(), 10) }

// deltaCeil is a reset as the seconds until then, rounded up.
func deltaCeil(now, end time.Time) string { return seconds(end.Sub(now)) }

// deltaFloor is a reset as the seconds until then, rounded down.
func deltaFloor(now, end time.Time) string { return strconv.Itoa(int(end.Sub(now).Seconds())) }

// lastPart returns the last part of a path.
func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// githubResource names the limit of GitHub that counts a path.
func githubResource(path string) string {
	if strings.HasPrefix(path, "/search/") {
		return "search"
	}
	return "core"
}

// secondaryLimit refuses as GitHub refuses too many requests at once.
func secondaryLimit(h http.Header) (int, string) {
	h.Set("Retry-After", "60")
	return 403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
}

// discordBucket returns the kind and the number of the channel or guild in a path of Discord: each has a limit of its own.
func discordBucket(path string) string {
	parts := strings.Split(path, "/")
	return parts[3] + " " + parts[4]
}

// triple announces a window by three headers.
func triple(limit, left, reset string, when func(now, end time.Time) string) func(*said, http.Header) {
	return func(s *said, h http.Header) {
		w := s.rules[0].(*window)
		if limit != "" {
			h.Set(limit, strconv.Itoa(int(w.amount)))
		}
		h.Set(left, strconv.Itoa(int(w.left(s.now))))
		h.Set(reset, when(s.now, w.end()))
	}
}

// fullBucket announces a bucket, and when it is full.
func fullBucket(family string, when func(now, end time.Time) string) func(*said, http.Header) {
	return func(s *said, h http.Header) {
		b := s.rules[0].(*bucket)
		full := b.full(s.now)
		h.Set(family+"-Limit", strconv.Itoa(int(b.size)))
		h.Set(family+"-Remaining", strconv.Itoa(int(b.level+1e-9)))
		h.Set(family+"-Reset", when(s.now, full))
	}
}
