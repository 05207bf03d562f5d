package main

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// roundings are the ways to write when a window ends in whole seconds.
var roundings = []struct {
	name string
	text func(now, end time.Time) string
}{
	{"seconds left, rounded up", deltaCeil},
	{"seconds left, rounded down", deltaFloor},
	{"seconds left, rounded", func(now, end time.Time) string { return strconv.Itoa(int(end.Sub(now).Seconds() + 0.5)) }},
	{"epoch, rounded up", epochCeil},
	{"epoch, rounded down", epochSeconds},
	{"epoch, rounded", func(_, end time.Time) string { return strconv.FormatInt(end.Add(time.Second/2).Unix(), 10) }},
}

// TestWindowsOfWholeSecondsLoseATripAtMost is about 5 requests in 5 seconds. A window took 6 s for ever where it began
// with its first request and seconds left were rounded up, and 6 to 9 s where the end was written as a date.
func TestWindowsOfWholeSecondsLoseATripAtMost(t *testing.T) {
	t.Parallel()
	const windows = 40
	for _, rounding := range roundings {
		for _, aligned := range []bool{false, true} {
			for _, dated := range []bool{true, false} {
				for _, c := range []setting{{clients: 1}, {clients: 4}, {clients: 16}, {clients: 4, latency: 2 * time.Millisecond}} {
					c.tokens = 1
					name := fmt.Sprintf("%s, on the clock %v, Date %v, %d clients, answers in %v", rounding.name, aligned, dated, c.clients, c.latency)
					s := &service{host: "five.test", kind: announced, requests: 5 * windows, refuse: refusing(429, "{}")}
					s.rules = own(func() rule {
						return &window{amount: 5, length: 5 * time.Second, aligned: aligned, phase: 370 * time.Millisecond}
					})
					s.announce = func(t *said, h http.Header) {
						if !dated {
							h.Del("Date")
						}
						triple("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", rounding.text)(t, h)
					}
					r := newRun(s, c)
					got, err := r.abide()
					if err != nil {
						t.Fatal(err)
					}
					at, half := r.site.served, s.requests/2
					mean := at[len(at)-5].Sub(at[half]).Seconds() / float64(len(at)-5-half) * 5
					t.Logf("%s: %.2f s, %d refused", name, mean, got.refused)
					if got.refused > 0 || got.errors > 0 || mean > 5.13 {
						t.Errorf("%s: a window takes %.2f s, %d refused, %d errors", name, mean, got.refused, got.errors)
					}
				}
			}
		}
	}
}
