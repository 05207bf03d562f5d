package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// resets are the ways in which random services announce when units come back, at a time
// that is end.
var resets = []struct {
	name string
	text func(now, end time.Time) string
}{
	{"epoch, rounded down", epochSeconds},
	{"epoch, rounded up", func(_, end time.Time) string { return strconv.FormatInt(end.Add(time.Second-1).Unix(), 10) }},
	{"epoch in ms", func(_, end time.Time) string { return strconv.FormatInt(end.UnixMilli(), 10) }},
	{"seconds, rounded down", deltaFloor},
	{"seconds, rounded up", deltaCeil},
	{"seconds with decimals", func(now, end time.Time) string { return fmt.Sprintf("%.3f", end.Sub(now).Seconds()) }},
	{"a date", func(_, end time.Time) string { return end.UTC().Format(time.RFC3339) }},
}

// randomAnnounced is the service of a number. It announces its limit by three headers, or by
// two without the limit.
func randomAnnounced(n int) *service {
	r := rand.New(rand.NewPCG(uint64(n), 16))
	length := randomLengths[2+r.IntN(len(randomLengths)-2)]
	amount := math.Round(math.Exp(math.Log(5) + r.Float64()*math.Log(60)))
	s := &service{host: fmt.Sprintf("announced%d.test", n), kind: announced, requests: requestsOf(amount)}
	s.latency = randomLatencies[r.IntN(len(randomLatencies))]
	s.source = randomLimits[r.IntN(4)]
	phase := time.Duration(r.Float64() * float64(length))
	if r.IntN(2) == 0 {
		phase = 0
	}
	s.rules = own(func() rule { return newRule(s.source, amount, length, phase) })
	reset, limited, dated, named := resets[r.IntN(len(resets))], r.IntN(4) > 0, r.IntN(4) > 0, r.IntN(2) == 0
	s.announce = func(t *said, h http.Header) {
		if limited {
			h.Set("X-RateLimit-Limit", strconv.Itoa(int(amount)))
		}
		if !dated {
			h.Del("Date")
		}
		_, left, back := state(t.rules[0], t.now)
		h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
		h.Set("X-RateLimit-Reset", reset.text(t.now, back))
	}
	s.refuse = refusing(429, "{}")
	if named {
		s.refuse = waiting(429, "{}")
	}
	s.name = fmt.Sprintf("%s, %.0f in %v, %s, limit %v, Date %v, Retry-After %v, answers in %v", s.source, amount, length, reset.name, limited, dated, named, s.latency)
	return s
}
