package main

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// urllib3 crawls as clients with urllib3's Retry(total=10, backoff_factor=1,
// status_forcelist=[429, 500, 502, 503, 504]) do: each for itself, with the tokens in turn.
func (r *run) urllib3() result { return r.retries(10, time.Second) }

// retries crawls as urllib3's Retry does with a total and a backoff factor.
func (r *run) retries(total int, factor time.Duration) result {
	const longestBackoff = 120 * time.Second
	return r.crawl(func(_, n int, answered func(int, string)) {
		var try func(failed int)
		try = func(failed int) {
			r.send(r.token(n+failed), r.site.path(n), n, func(status int, h http.Header, _ string) {
				forced := status == 0 || status == 429 || status >= 500 && status != 501 && status <= 504
				if !forced || failed >= total {
					answered(seen(status, h), "")
					return
				}
				wait := time.Duration(0)
				if failed > 0 {
					wait = min(factor<<failed, longestBackoff)
				}
				if after, ok := retryAfter(h, r.clock.Now()); ok {
					wait = after
				}
				r.clock.AfterFunc(wait, func() { try(failed + 1) })
			})
		}
		try(0)
	})
}

// seen is the status of an answer as its client uses it: a refusal with 200 is no success.
func seen(status int, h http.Header) int {
	if status == http.StatusOK && h.Get(refusedHeader) != "" {
		return http.StatusTooManyRequests
	}
	return status
}

// retryAfter reads Retry-After in seconds or as a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if text == "" {
		return 0, false
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return time.Duration(n * float64(time.Second)), true
	}
	at, err := http.ParseTime(text)
	return max(at.Sub(now), 0), err == nil
}

// token is one of the tokens, in turn.
func (r *run) token(n int) string { return "Bearer t" + strconv.Itoa(n%r.tokens) }

// autothrottle crawls as Scrapy does with AutoThrottle and its other settings as they come:
// a delay of 5 s at first, then the latency, one request at a time on average, and two more
// attempts after a failure.
func (r *run) autothrottle() result {
	const retries, atOnce = 2, 8
	delay, flying := 5*time.Second, 0
	free := r.clock.Now()
	type waiting struct {
		n, failed int
		answered  func(int, string)
	}
	var queue []waiting
	var pump func()
	scheduled := false
	pump = func() {
		for len(queue) > 0 && flying < min(atOnce, r.clients) {
			now := r.clock.Now()
			if free.After(now) {
				if !scheduled {
					scheduled = true
					r.clock.AfterFunc(free.Sub(now), func() {
						scheduled = false
						pump()
					})
				}
				return
			}
			item := queue[0]
			queue = queue[1:]
			flying++
			free = now.Add(time.Duration(float64(delay) * (0.5 + r.random.Float64())))
			sent := now
			r.send(r.token(item.n+item.failed), r.site.path(item.n), item.n, func(status int, h http.Header, _ string) {
				flying--
				took := r.clock.Now().Sub(sent)
				next := max((delay+took)/2, took)
				if status == 200 || next > delay {
					delay = min(next, time.Minute)
				}
				again := status == 429 || status == 408 || status >= 500 && status != 501 && status <= 504
				if again && item.failed < retries {
					queue = append(queue, waiting{item.n, item.failed + 1, item.answered})
				} else {
					item.answered(seen(status, h), "")
				}
				pump()
			})
		}
	}
	return r.crawl(func(_, n int, answered func(int, string)) {
		queue = append(queue, waiting{n, 0, answered})
		pump()
	})
}

// usualAtOnce is how many requests abide has in flight at a site without configuration.
const usualAtOnce = 32

// ideal is the time of clients that know the rules: they wait for the token that may go
// first, and no longer.
func (r *run) ideal() time.Duration {
	s, token, latency := r.site, "", r.latency
	flying, most := 0, min(r.clients, usualAtOnce)
	for _, n := range []int{s.atOnce, s.polite} {
		if n > 0 {
			most = min(most, n)
		}
	}
	var waiting []func()
	res := r.crawl(func(_, n int, answered func(int, string)) {
		var try func()
		try = func() {
			if flying >= most {
				waiting = append(waiting, try)
				return
			}
			arrives := r.clock.Now().Add(latency / 2)
			path, cost := s.path(n), s.costOf(n)
			at := time.Time{}
			for i := range r.tokens {
				if t := s.next(arrives, r.token(i), path, cost); at.IsZero() || t.Before(at) {
					at, token = t, r.token(i)
				}
			}
			for s.overload != nil && s.overload(at.Sub(r.began)) {
				at = at.Add(100 * time.Millisecond)
			}
			if at.After(arrives) {
				r.clock.AfterFunc(at.Sub(arrives), try)
				return
			}
			s.take(arrives, token, path, cost)
			flying++
			r.clock.AfterFunc(latency, func() {
				flying--
				answered(http.StatusOK, "")
				if len(waiting) > 0 {
					next := waiting[0]
					waiting = waiting[1:]
					next()
				}
			})
		}
		try()
	})
	return max(res.took, time.Duration(math.Ceil(float64(s.requests)/float64(most)))*latency)
}
