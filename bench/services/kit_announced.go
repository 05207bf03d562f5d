package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// announces is a kind whose answers announce its limits, so that nothing needs to be refused.
func announces(
	name string, requests int, refuse func(*said, http.Header) (int, string), announce func(*said, http.Header), rules ...func() rule,
) *kitKind {
	return &kitKind{service: service{name: name, requests: requests, rules: alone(rules...), announce: announce, refuse: refuse}}
}

// with changes a kind.
func (k *kitKind) with(change func(*kitKind)) *kitKind {
	change(k)
	return k
}

func secure(k *kitKind) { k.tls = true }

// at has the real name of the host, of which abide knows what it cannot read in headers. The
// name leads to loopback.
func at(host string) func(*kitKind) {
	return func(k *kitKind) { k.tls, k.host = true, host }
}

// unsaid has requests whose cost nobody announces before they are sent.
func unsaid(k *kitKind) { k.tls, k.bound = true, bound{share: 0.01, refused: 1} }

// kitAnnounced are kinds that announce, in headers as services write them, with shorter windows. Where windows begin with their
// first request and whole seconds say when they end, nobody who is never refused can know the end without giving a unit for it:
// what comes within the last second is refused in this window, or is one of the next. So the last window of such a crawl is not
// full. In 15 windows of exactly 15 a single unit would cost a 16th: 75 s in place of 70.
var kitAnnounced = []*kitKind{
	announces("ietf-03", 222, waiting(429, "{}"), fields("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", deltaCeil), func() rule { return starting(5*second, 15) }),
	announces("ietf-07", 300, refusing(429, "{}"), func(s *said, h http.Header) {
		amount, left, end := told(s.rules[0], s.now)
		h.Set("RateLimit-Policy", "20;w=5")
		h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%s", amount, left, deltaCeil(s.now, end)))
	}, func() rule { return every(5*second, 20) }).with(secure),
	announces("ietf-10", 240, refusing(429, "{}"), func(s *said, h http.Header) {
		_, left, end := told(s.rules[0], s.now)
		h.Set("RateLimit-Policy", `"default";q=20;w=10`)
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%s`, left, deltaCeil(s.now, end)))
	}, func() rule { return starting(10*second, 20) }),
	announces("github", 297, refusing(403, `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`), func(s *said, h http.Header) {
		fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", epochCeil)(s, h)
		amount, left, _ := told(s.rules[0], s.now)
		h.Set("X-RateLimit-Used", strconv.Itoa(amount-left))
		h.Set("X-RateLimit-Resource", "core")
	}, func() rule { return starting(5*second, 20) }).with(at("api.github.com")),
	announces("x", 225, refusing(429, `{"title":"Too Many Requests","status":429}`), fields("x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset", epochCeil), func() rule { return every(5*second, 15) }).with(at("api.x.com")),
	announces("reddit", 300, refusing(429, `{"message":"Too Many Requests","error":429}`), func(s *said, h http.Header) {
		amount, left, end := told(s.rules[0], s.now)
		h.Set("X-Ratelimit-Remaining", fmt.Sprintf("%d.0", left))
		h.Set("X-Ratelimit-Used", strconv.Itoa(amount-left))
		h.Set("X-Ratelimit-Reset", deltaCeil(s.now, end))
	}, func() rule { return every(5*second, 20) }).with(secure),
	announces("discord", 225, waiting(429, `{"message":"You are being rate limited.","retry_after":1.0,"global":false}`), func(s *said, h http.Header) {
		fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset-After", func(now, end time.Time) string {
			return fmt.Sprintf("%.3f", end.Sub(now).Seconds())
		})(s, h)
		_, _, end := told(s.rules[0], s.now)
		h.Set("X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(end.UnixMicro())/1e6))
		h.Set("X-RateLimit-Bucket", "efgh5678")
	}, func() rule { return starting(5*second, 5) }).with(func(k *kitKind) {
		k.tls, k.host, k.scope = true, "discord.com", discordBucket
		k.paths = []string{"/api/v10/channels/41771983423143937/messages", "/api/v10/channels/41771983423143938/messages", "/api/v10/channels/41771983423143939/messages"}
	}),
	announces("riot", 180, waiting(429, `{"status":{"message":"Rate limit exceeded","status_code":429}}`), func(s *said, h http.Header) {
		_, left, _ := told(s.rules[0], s.now)
		_, long, _ := told(s.rules[1], s.now)
		h.Set("X-App-Rate-Limit", "8:1,30:10")
		h.Set("X-App-Rate-Limit-Count", fmt.Sprintf("%d:1,%d:10", 8-left, 30-long))
		h.Set("X-Method-Rate-Limit", "2000:10")
		h.Set("X-Method-Rate-Limit-Count", fmt.Sprintf("%d:10", 30-long))
	}, func() rule { return starting(second, 8) }, func() rule { return starting(10*second, 30) }).with(secure),
	announces("binance", 120, waiting(429, `{"code":-1003,"msg":"Too much request weight used; current limit is 60 request weight per 10 SECOND."}`), func(s *said, h http.Header) {
		amount, left, _ := told(s.rules[0], s.now)
		h.Set("x-mbx-used-weight", strconv.Itoa(amount-left))
		h.Set("x-mbx-used-weight-10s", strconv.Itoa(amount-left))
	}, func() rule { return every(10*second, 60) }).with(func(k *kitKind) {
		k.tls, k.cost, k.bound = true, func(n int) float64 { return float64(1 + n%5) }, bound{amounts: 1}
	}),
	announces("docker-hub", 300, refusing(429, `{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}`), func(s *said, h http.Header) {
		_, left, _ := told(s.rules[0], s.now)
		h.Set("ratelimit-limit", "20;w=5")
		h.Set("ratelimit-remaining", fmt.Sprintf("%d;w=5", left))
		h.Set("docker-ratelimit-source", "192.0.2.7")
	}, func() rule { return within(5*second, 20) }).with(secure),
	announces("etsy", 250, waiting(429, `{"error":"Rate limit exceeded"}`), func(s *said, h http.Header) {
		_, left, _ := told(s.rules[0], s.now)
		_, day, _ := told(s.rules[1], s.now)
		h.Set("x-limit-per-second", "5")
		h.Set("x-remaining-this-second", strconv.Itoa(left))
		h.Set("x-limit-per-day", "10000")
		h.Set("x-remaining-today", strconv.Itoa(day))
	}, func() rule { return every(second, 5) }, func() rule { return starting(24*time.Hour, 10000) }).with(secure),
	announces("fitbit", 225, waiting(429, `{"errors":[{"errorType":"request","message":"Too Many Requests"}]}`), fields("Fitbit-Rate-Limit-Limit", "Fitbit-Rate-Limit-Remaining", "Fitbit-Rate-Limit-Reset", deltaCeil), func() rule { return every(5*second, 15) }).with(secure),
	announces("shopify", 240, refusing(429, `{"errors":"Exceeded 4 calls per second for api client. Reduce request rates to resume uninterrupted service."}`, "Retry-After", "1.0"), func(s *said, h http.Header) {
		amount, left, _ := told(s.rules[0], s.now)
		h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", amount-left, amount))
	}, func() rule { return filling(40, 4) }).with(func(k *kitKind) {
		k.tls, k.host, k.bound = true, "gophers.myshopify.com", bound{amounts: 1, ratio: 1.25}
	}),
	announces("openalex-points", 200, waiting(429, `{"error":"Rate limit exceeded"}`), func(s *said, h http.Header) {
		fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", deltaCeil)(s, h)
		h.Set("X-RateLimit-Credits-Used", strconv.Itoa(int(s.cost)))
	}, func() rule { return starting(5*second, 100) }).with(func(k *kitKind) {
		unsaid(k)
		k.paths, k.cost = []string{"/works?page=%d", "/works/W%d"}, func(n int) float64 { return float64(10 - 9*(n%2)) }
	}),
	announces("openai-requests-and-tokens", 150, waiting(429, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached"}}`),
		each("x-ratelimit-%[2]s-%[1]s", []string{"requests", "tokens"}, [3]string{"limit", "remaining", "reset"}, duration),
		func() rule { return &counted{filling(20, 3)} }, func() rule { return filling(3000, 1500) }).with(func(k *kitKind) {
		unsaid(k)
		k.cost = func(n int) float64 { return float64(200 + n*7919%801) }
	}),
	announces("anthropic-requests-and-tokens", 120, waiting(429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`),
		each("anthropic-ratelimit-%s-%s", []string{"requests", "input-tokens"}, [3]string{"limit", "remaining", "reset"}, date),
		func() rule { return &counted{filling(10, 2)} }, func() rule { return filling(4000, 1500) }).with(func(k *kitKind) {
		unsaid(k)
		k.cost = func(n int) float64 { return float64(200 + n*7919%801) }
	}),
	announces("twitch-points", 400, refusing(429, `{"error":"Too Many Requests","status":429}`), fields("Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", epochSeconds), func() rule { return filling(40, 8) }).with(secure),
	announces("announced-30-10-30", 310, refusing(429, "{}"), fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", deltaCeil), func() rule {
		return &stages{each: 20 * second, rules: []rule{every(5*second, 30), every(5*second, 10), every(5*second, 30)}}
	}),
	announces("pool-announced", 441, refusing(429, "{}"), fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", deltaCeil), func() rule { return starting(4*second, 10) }).with(func(k *kitKind) { k.tokens, k.tls = 3, true }),
	announces("announced-second-hidden-minute", 210, waiting(429, "{}"), fields("X-RateLimit-Limit-Second", "X-RateLimit-Remaining-Second", "X-RateLimit-Reset", deltaCeil),
		func() rule { return every(second, 8) }, func() rule { return every(10*second, 35) }).with(func(k *kitKind) { k.bound = bound{amounts: 1} }),
}
