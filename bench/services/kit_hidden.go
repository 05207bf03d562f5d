package main

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// kitKind is a kind of service of the kit, and how it is crawled and judged.
type kitKind struct {
	service
	pages    int  // most requests of one client; 0: any number
	tokens   int  // of a pool; 0: no pool
	tls      bool // by https
	html     bool // pages, not JSON
	closes   bool // a refusal closes the connection
	reset    bool // by a reset
	blocked  bool // another credential is refused for an hour
	tarpit   time.Duration
	bound    bound
	pausing  bool // the ideal time is that of clients that pause a second after each refusal
	dawdling bool // no ideal time is known
}

// through is the host that is crawled through abide.
func (k *kitKind) through() string { return cmp.Or(k.host, k.name+kitDomain) }

// bound is what a crawl may need. The zero value is the one of an announced limit.
type bound struct {
	amounts int     // that are to be found; 8 refusals for each, and one in 100 requests
	refused int     // refusals besides
	share   float64 // of the requests that may be refused besides
	ratio   float64 // time ÷ ideal; 0: 1.1, or 1.5 where amounts are to be found
	chance  bool    // refusals depend on chance: their number is not compared with Retry's
}

const second = time.Second

// every is a window of the clock, starting one that begins with its first request, within is a
// rolling one.
func every(length time.Duration, amount float64) rule {
	return &window{amount: amount, length: length, aligned: true}
}

func starting(length time.Duration, amount float64) rule {
	return &window{amount: amount, length: length}
}

func within(length time.Duration, amount float64) rule {
	return &rolling{amount: amount, length: length}
}
func filling(size, rate float64) rule { return &bucket{size: size, rate: rate} }

// alone makes the rules of each token from functions that make one each.
func alone(make ...func() rule) func(string) []rule {
	return func(string) (list []rule) {
		for _, f := range make {
			list = append(list, f())
		}
		return list
	}
}

// closing refuses without an answer.
func closing(*said, http.Header) (int, string) { return 0, "" }

// failing answers at random or in an outage.
func failing(status int, body string, pairs ...string) func(http.Header) (int, string) {
	return func(h http.Header) (int, string) { return refusing(status, body, pairs...)(nil, h) }
}

// search is the scope of a route that has a limit of its own.
func search(path string) string {
	return strconv.FormatBool(strings.HasPrefix(path, "/search"))
}

// searchRules are those of a route, beside none for all others.
func searchRules(make func() rule) func(string) []rule {
	return func(path string) []rule {
		if search(path) == "true" {
			return []rule{make()}
		}
		return nil
	}
}

// oneIn are paths of which one in n is a search.
func oneIn(n int) []string {
	list := []string{"/search?q=%d"}
	for range n - 1 {
		list = append(list, "/items/%d")
	}
	return list
}

const html = "text/html; charset=utf-8"

// kitHidden have limits that answers do not announce before they refuse.
var kitHidden = []*kitKind{
	{service: service{name: "window-20-in-4s", requests: 300, rules: alone(func() rule { return starting(4*second, 20) }), refuse: refusing(429, "")}, bound: bound{amounts: 1}},
	{service: service{name: "clock-15-in-3s", requests: 225, rules: alone(func() rule { return every(3*second, 15) }), refuse: refusing(429, `{"error":"Too many requests"}`)}, bound: bound{amounts: 1}, tls: true},
	{service: service{name: "rolling-12-in-4s", requests: 180, rules: alone(func() rule { return within(4*second, 12) }), refuse: refusing(429, "Too Many Requests")}, bound: bound{amounts: 1}},
	{service: service{name: "bucket-10-and-4-a-second", requests: 240, rules: alone(func() rule { return filling(10, 4) }), refuse: refusing(429, "slow down")}, bound: bound{amounts: 1}, tls: true},
	{service: service{name: "gcra-3-a-second", requests: 180, rules: alone(func() rule { return filling(1, 3) }), refuse: refusing(429, "")}, bound: bound{amounts: 1}},
	{service: service{name: "nginx-limit-req", requests: 300, rules: alone(func() rule { return filling(6, 5) }), refuse: refusing(503, "<html><head><title>503 Service Temporarily Unavailable</title></head></html>", "Content-Type", html)}, bound: bound{amounts: 1}, html: true},
	{service: service{name: "notion", requests: 190, rules: alone(func() rule { return filling(10, 3) }), refuse: waiting(429, `{"object":"error","status":429,"code":"rate_limited","message":"You have been rate limited. Please try again in a few minutes."}`)}, bound: bound{amounts: 1}, tls: true},
	{service: service{name: "two-windows", requests: 180, rules: alone(func() rule { return within(second, 5) }, func() rule { return within(10*second, 30) }), refuse: refusing(429, `{"error":"rate limited"}`)}, bound: bound{amounts: 2}},
	{service: service{name: "three-windows", requests: 150, rules: alone(func() rule { return starting(second, 4) }, func() rule { return starting(5*second, 15) }, func() rule { return starting(20*second, 50) }), refuse: refusing(429, "")}, bound: bound{amounts: 3}},
	{service: service{name: "route-and-all", requests: 240, paths: oneIn(8), scope: search, rules: searchRules(func() rule { return every(4*second, 2) }), shared: one(func() rule { return every(4*second, 16) }), refuse: refusing(429, `{"error":"rate limit"}`)}, bound: bound{amounts: 2}},
	{service: service{name: "one-route", requests: 240, paths: oneIn(4), scope: search, rules: searchRules(func() rule { return starting(4*second, 4) }), refuse: refusing(429, "")}, bound: bound{amounts: 1}},
	{service: service{name: "slow-6-in-flight", requests: 300, latency: second, atOnce: 6, busy: failing(429, `{"error":{"message":"Too many concurrent requests"}}`)}, pages: 50, bound: bound{amounts: 1}},
	{service: service{name: "slow-6-in-flight-and-25-in-5s", requests: 250, latency: second, atOnce: 6, busy: failing(429, ""), rules: alone(func() rule { return within(5*second, 25) }), refuse: refusing(429, "")}, pages: 50, bound: bound{amounts: 2}},

	{service: service{name: "raised-10-to-30-in-4s", requests: 350, rules: alone(func() rule {
		return &stages{each: 20 * second, rules: []rule{every(4*second, 10), every(4*second, 30)}}
	}), refuse: refusing(429, "")}, bound: bound{amounts: 2}},
	{service: service{name: "lowered-30-to-10-in-4s", requests: 250, rules: alone(func() rule {
		return &stages{each: 20 * second, rules: []rule{every(4*second, 30), every(4*second, 10)}}
	}), refuse: refusing(429, "")}, bound: bound{amounts: 2}},
	{service: service{name: "somebody-else-30-percent", requests: 210, rules: alone(func() rule { return &foreign{rule: every(4*second, 20), every: 667 * time.Millisecond} }), refuse: refusing(429, "")}, bound: bound{amounts: 1, share: 0.1, ratio: 1.75}},

	{service: service{name: "pool-own", requests: 450, rules: alone(func() rule { return starting(4*second, 10) }), refuse: refusing(429, "")}, tokens: 3, tls: true, bound: bound{amounts: 3}},
	{service: service{name: "pool-own-and-common", requests: 300, rules: alone(func() rule { return starting(4*second, 10) }), shared: one(func() rule { return every(4*second, 20) }), refuse: refusing(429, `{"error":"quota"}`)}, tokens: 3, bound: bound{amounts: 4}, tls: true},
	{service: service{name: "other-credential-blocked", requests: 2560, latency: 250 * time.Millisecond}, pages: 80, blocked: true, bound: bound{ratio: 1.5}},

	{service: service{name: "closed-444", requests: 225, rules: alone(func() rule { return every(3*second, 15) }), refuse: closing}, closes: true, html: true, bound: bound{amounts: 1}},
	{service: service{name: "reset-by-peer", requests: 240, rules: alone(func() rule { return filling(8, 4) }), refuse: closing}, closes: true, reset: true, bound: bound{amounts: 1}},
	{service: service{name: "etherscan", requests: 300, paths: []string{"/api?module=account&action=balance&page=%d"}, rules: alone(func() rule { return every(second, 5) }), refuse: refusing(200, `{"status":"0","message":"NOTOK","result":"Max calls per sec rate limit reached (5/sec)"}`)}, tls: true, bound: bound{amounts: 1}},
	{service: service{name: "robot-page-200", requests: 180, paths: []string{"/dp/%d"}, rules: alone(func() rule { return within(4*second, 12) }), refuse: refusing(200, "<html><head><title>Robot Check</title></head><body><h4>Enter the characters you see below</h4><p>Sorry, we just need to make sure you're not a robot.</p><form action=\"/errors/validateCaptcha\"></form></body></html>", "Content-Type", html)}, html: true, bound: bound{amounts: 1}},
	{service: service{name: "nvd-bare-403", requests: 75, rules: alone(func() rule { return within(4*second, 5) }), refuse: refusing(403, "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>", "Content-Type", html)}, tls: true, bound: bound{amounts: 1}},
	{service: service{name: "google-quota-403", requests: 300, rules: alone(func() rule { return every(2*second, 10) }), refuse: refusing(403, `{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries'","errors":[{"message":"Quota exceeded","domain":"usageLimits","reason":"quotaExceeded"}]}}`)}, tls: true, bound: bound{amounts: 1}},

	{service: service{name: "retry-after-too-long", requests: 300, rules: alone(func() rule { return starting(2*second, 10) }), refuse: refusing(429, "", "Retry-After", "20")}, bound: bound{amounts: 1, ratio: 1.75}},
	{service: service{name: "retry-after-too-short", requests: 225, rules: alone(func() rule { return starting(5*second, 15) }), refuse: refusing(429, "", "Retry-After", "1")}, bound: bound{amounts: 1}},
	{service: service{name: "retry-after-0", requests: 225, rules: alone(func() rule { return every(3*second, 15) }), refuse: refusing(429, "", "Retry-After", "0")}, bound: bound{amounts: 1}},
	{service: service{name: "growing-bans", requests: 300, rules: alone(func() rule { return &growing{rule: within(2*second, 10), length: 2 * second} }), refuse: refusing(429, "banned")}, bound: bound{amounts: 1, ratio: 2}},
	{service: service{name: "tarpit", requests: 225, rules: alone(func() rule { return every(3*second, 15) }), refuse: refusing(200, "")}, tarpit: 3 * second, dawdling: true, bound: bound{chance: true, share: 1}},

	{service: service{name: "503-for-30-percent", requests: 3200, noise: 0.3, overdone: failing(503, "")}, pages: 100, pausing: true, bound: bound{share: 0.5, refused: 20, ratio: 1.25, chance: true}},
	{service: service{name: "429-for-1-percent", requests: 6400, latency: 100 * time.Millisecond, noise: 0.01, overdone: failing(429, "", "Retry-After", "1")}, pages: 300, pausing: true, tls: true, bound: bound{share: 0.02, refused: 5, ratio: 1.25, chance: true}},
	{service: service{name: "503-for-5-percent-and-20-in-4s", requests: 300, noise: 0.05, overdone: failing(503, ""), rules: alone(func() rule { return every(4*second, 20) }), refuse: refusing(429, "")}, pausing: true, bound: bound{amounts: 1, share: 0.1, ratio: 1.25, chance: true}},
	{service: service{name: "outage-of-10s", requests: 4000, latency: 200 * time.Millisecond, overload: between(8*second, 18*second), overdone: failing(503, "Service Unavailable")}, pages: 125, bound: bound{refused: 60, ratio: 1.5, chance: true}},
}

// page is the body of a page, another one for each request.
func (k *kitKind) page(n int) (kind, body string) {
	if k.html {
		return html, fmt.Sprintf("<html><head><title>Item %d</title></head><body><h1>Item %d</h1><p>%s</p></body></html>", n, n, strings.Repeat("An item with a number. ", 20+n%7))
	}
	return "application/json", fmt.Sprintf(`{"status":"1","item":%d,"name":"item %d","text":%q}`, n, n, strings.Repeat("text ", 20+n%7))
}
