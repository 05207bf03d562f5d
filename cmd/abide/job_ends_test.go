package main

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/backfill"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// A job is fetched under a limit with windows of seconds, minutes or days: from a twentieth of the way
// on the end is known to within a tenth of the rest, or two requests. Where no limit is known that slows
// the job down, the rest takes as long as the part before.
func TestTheEndOfAJobIsKnownWhereALimitHoldsIt(t *testing.T) {
	start := time.Date(2026, time.March, 1, 9, 30, 0, 0, time.UTC)
	const latency = 200 * time.Millisecond
	for limits, sent := range map[string]func(now time.Time) int64{ // how many may have been sent at a time
		"{requests: 100, per: 10s}": func(now time.Time) int64 { return 100 * (1 + int64(now.Sub(start)/(10*time.Second))) },
		"{requests: 60, per: 1m}":   func(now time.Time) int64 { return 60 * (1 + int64(now.Sub(start)/time.Minute)) },
		"{requests: 500, per: day}": func(now time.Time) int64 {
			return 500 * (1 + int64(now.Truncate(24*time.Hour).Sub(start.Truncate(24*time.Hour))/(24*time.Hour)))
		},
		"": func(now time.Time) int64 { return 1 + int64(now.Sub(start)/(2*time.Second)) },
	} {
		p, err := policy.Load(policy.Source{Data: []byte("sites: [{host: api.test, learn: false, limits: [" + limits + "]}]"), Lookup: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		job := &jobfile.Job{Name: "orders", Workers: 4, Request: jobfile.Request{Method: "GET", URL: "http://api.test/{item}", Priority: policy.DefaultPriority}}
		const all = 2000
		type point struct {
			w    backfill.Work
			held float64
		}
		var points []point
		answered, last, held := int64(0), start, 0.0
		for now := start; answered < all; now = now.Add(latency / 4) { // a request each, by four workers
			if answered < sent(now) {
				answered, last = answered+1, now.Add(latency)
				if answered%199 == 0 {
					points = append(points, point{backfill.Work{Began: start, Last: last, Requests: answered, Left: all - answered}, held})
				}
			} else if limits != "" {
				held += 4 * (latency/4 + time.Second).Seconds() // of the four workers
				now = now.Add(time.Second)
			}
		}
		for _, one := range points {
			ends := simulatedEnd(p, job, nil, one.w, one.held)
			rest := last.Sub(one.w.Last)
			if wrong := ends.Sub(last).Abs(); wrong > max(rest/10, 4*time.Second) {
				t.Errorf("%q: after %d requests in %v the end is expected after %v; it was after %v", limits, one.w.Requests, one.w.Last.Sub(start), ends.Sub(start), last.Sub(start))
			}
		}
	}
}
