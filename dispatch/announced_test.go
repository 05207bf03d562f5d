package dispatch

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/abide-proxy/abide/clock"
)

// counter is the rule of a service that announces its limit, in seconds since the start.
type counter interface {
	// free is the earliest time from at on at which a request of that cost is served.
	free(at, cost float64) float64
	take(at, cost float64)
	// announce writes the headers of an answer that is written at that time.
	announce(h http.Header, at float64, s *announcedService)
}

// announcedService is a simulated service that announces its limit.
type announcedService struct {
	name     string
	requests int
	rule     func() counter
	cost     func(n int) float64 // of request number n; nil: 1
	latency  float64             // 0: 50 ms
	jitter   float64             // part of the latency; 0: a tenth
	offset   float64             // of the service's clock
	undated  bool                // answers have no Date
	url      string
}

const beginsAt = 1_772_366_403.37 // 12:00:03.37 UTC, not at the edge of a window

func (s *announcedService) epoch(at float64) float64 { return beginsAt + at + s.offset }

// fixedWindow allows so many units in each window.
type fixedWindow struct {
	limit, length float64
	aligned       bool // to the service's clock; else a window begins with its first request
	write         func(h http.Header, at, left, limit, end float64, s *announcedService)

	begun       bool
	begin, used float64
}

func (w *fixedWindow) at(at float64) (begin, used float64) {
	switch {
	case w.begun && at < w.begin+w.length:
		return w.begin, w.used
	case w.aligned:
		shift := math.Mod(beginsAt, w.length)
		return math.Floor((at+shift)/w.length)*w.length - shift, 0
	}
	return at, 0
}

func (w *fixedWindow) free(at, cost float64) float64 {
	if begin, used := w.at(at); used+cost > w.limit {
		return begin + w.length
	}
	return at
}

func (w *fixedWindow) take(at, cost float64) {
	w.begin, w.used = w.at(at)
	w.begun = true
	w.used += cost
}

func (w *fixedWindow) announce(h http.Header, at float64, s *announcedService) {
	begin, used := w.at(at)
	w.write(h, at, w.limit-used, w.limit, begin+w.length, s)
}

// refillingBucket gets units at a constant rate.
type refillingBucket struct {
	limit, rate float64
	tick        float64 // units come in such steps; 0: continuously
	write       func(h http.Header, at, left, limit, full float64, s *announcedService)

	begun     bool
	level, on float64
}

func (b *refillingBucket) at(at float64) float64 {
	if !b.begun {
		return b.limit
	}
	if b.tick > 0 {
		return min(b.limit, b.level+(math.Floor(at/b.tick+1e-9)-math.Floor(b.on/b.tick+1e-9))*b.tick*b.rate)
	}
	return min(b.limit, b.level+(at-b.on)*b.rate)
}

func (b *refillingBucket) free(at, cost float64) float64 {
	if wait := max(cost-b.at(at), 0) / b.rate; b.tick == 0 || wait == 0 {
		return at + wait
	}
	for b.at(at) < cost {
		at = (math.Floor(at/b.tick+1e-9) + 1) * b.tick
	}
	return at
}

func (b *refillingBucket) take(at, cost float64) {
	b.level = b.at(at) - cost
	b.on, b.begun = at, true
}

func (b *refillingBucket) announce(h http.Header, at float64, s *announcedService) {
	left := b.at(at)
	b.write(h, at, math.Floor(left+1e-9), b.limit, at+(b.limit-left)/b.rate, s)
}

// both are two limits that each request is under: the second counts so many units for each.
type both struct {
	one, two counter
	each     float64
}

func (b *both) free(at, cost float64) float64 {
	for {
		to := b.two.free(b.one.free(at, cost), b.each*cost)
		if to <= at+1e-9 {
			return to
		}
		at = to
	}
}

func (b *both) take(at, cost float64) {
	b.one.take(at, cost)
	b.two.take(at, b.each*cost)
}

func (b *both) announce(h http.Header, at float64, s *announcedService) {
	b.one.announce(h, at, s)
	b.two.announce(h, at, s)
}

func itoa(n float64) string { return strconv.Itoa(int(n)) }

// writeEpoch writes X-RateLimit headers with a reset in epoch seconds.
func writeEpoch(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, _, left, limit, end float64, s *announcedService) {
		h.Set("X-Ratelimit-Limit", itoa(limit))
		h.Set("X-Ratelimit-Remaining", itoa(left))
		h.Set("X-Ratelimit-Reset", itoa(round(s.epoch(end))))
	}
}

func writeDelta(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, at, left, limit, end float64, _ *announcedService) {
		h.Set("X-Ratelimit-Limit", itoa(limit))
		h.Set("X-Ratelimit-Remaining", itoa(left))
		h.Set("X-Ratelimit-Reset", itoa(round(end-at)))
	}
}

func writeDraft07(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, at, left, limit, end float64, s *announcedService) {
		if w, ok := s.rule().(*fixedWindow); ok {
			h.Set("Ratelimit-Policy", fmt.Sprintf("%v;w=%v", limit, w.length))
		}
		h.Set("Ratelimit", fmt.Sprintf("limit=%v, remaining=%v, reset=%v", limit, left, round(end-at)))
	}
}

func noPolicy(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, at, left, limit, end float64, _ *announcedService) {
		h.Set("Ratelimit", fmt.Sprintf("limit=%v, remaining=%v, reset=%v", limit, left, round(end-at)))
	}
}

func writeDraft08(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, at, left, limit, end float64, s *announcedService) {
		w := s.rule().(*fixedWindow).length
		h.Set("Ratelimit-Policy", fmt.Sprintf(`"default";q=%v;w=%v`, limit, w))
		h.Set("Ratelimit", fmt.Sprintf(`"default";r=%v;t=%v`, left, round(end-at)))
	}
}

func writeTwitch(round func(float64) float64) func(h http.Header, at, left, limit, full float64, s *announcedService) {
	return func(h http.Header, _, left, limit, full float64, s *announcedService) {
		h.Set("Ratelimit-Limit", itoa(limit))
		h.Set("Ratelimit-Remaining", itoa(left))
		h.Set("Ratelimit-Reset", itoa(round(s.epoch(full))))
	}
}

func writeDraft03(round func(float64) float64) func(h http.Header, at, left, limit, end float64, s *announcedService) {
	return func(h http.Header, at, left, limit, end float64, _ *announcedService) {
		h.Set("Ratelimit-Limit", itoa(limit))
		h.Set("Ratelimit-Remaining", itoa(left))
		h.Set("Ratelimit-Reset", itoa(round(end-at)))
	}
}

func writeAnthropic(dim string) func(h http.Header, at, left, limit, full float64, s *announcedService) {
	return func(h http.Header, _, left, limit, full float64, s *announcedService) {
		h.Set("Anthropic-Ratelimit-"+dim+"-Limit", itoa(limit))
		h.Set("Anthropic-Ratelimit-"+dim+"-Remaining", itoa(left))
		h.Set("Anthropic-Ratelimit-"+dim+"-Reset", time.Unix(int64(math.Ceil(s.epoch(full))), 0).UTC().Format(time.RFC3339))
	}
}

func writeJira(h http.Header, _, left, limit, end float64, s *announcedService) {
	h.Set("X-Ratelimit-Limit", itoa(limit))
	h.Set("X-Ratelimit-Remaining", itoa(left))
	h.Set("X-Ratelimit-Reset", time.Unix(int64(math.Floor(s.epoch(end)/60)*60), 0).UTC().Format("2006-01-02T15:04Z"))
}

// varied are costs from 1 to most that have no pattern.
func varied(most int) func(n int) float64 {
	return func(n int) float64 {
		r := rand.New(rand.NewPCG(uint64(n), 11))
		if r.IntN(4) == 0 {
			return float64(1 + r.IntN(most))
		}
		return float64(1 + r.IntN(max(most/8, 1)))
	}
}

func announcedServices() []announcedService {
	window := func(limit, length float64, aligned bool, write func(h http.Header, at, left, limit, end float64, s *announcedService)) func() counter {
		return func() counter { return &fixedWindow{limit: limit, length: length, aligned: aligned, write: write} }
	}
	return []announcedService{
		{name: "epoch, 10 per 12 s, aligned", requests: 200, rule: window(10, 12, true, writeEpoch(math.Floor))},
		{name: "epoch, 10 per 12 s, first request, floor", requests: 200, rule: window(10, 12, false, writeEpoch(math.Floor))},
		{name: "epoch, 10 per 12 s, first request, floor, no Date", requests: 200, rule: window(10, 12, false, writeEpoch(math.Floor)), undated: true},
		{name: "epoch, 10 per 12 s, first request, clock -30 s", requests: 200, rule: window(10, 12, false, writeEpoch(math.Floor)), offset: -30},
		{name: "epoch, 10 per 12 s, first request, ceil", requests: 200, rule: window(10, 12, false, writeEpoch(math.Ceil))},
		{name: "epoch, 10 per 12 s, aligned, clock +30 s", requests: 200, rule: window(10, 12, true, writeEpoch(math.Floor)), offset: 30},
		{name: "epoch, 10 per 12 s, aligned, clock -1.5 s", requests: 200, rule: window(10, 12, true, writeEpoch(math.Floor)), offset: -1.5, undated: true},
		{name: "epoch, 100 per 60 s, aligned", requests: 2000, rule: window(100, 60, true, writeEpoch(math.Floor))},
		{name: "epoch, 100 per 60 s, first request", requests: 2000, rule: window(100, 60, false, writeEpoch(math.Floor))},
		{name: "epoch, 20 per 5 s, aligned", requests: 400, rule: window(20, 5, true, writeEpoch(math.Ceil))},
		{name: "delta, 10 per 12 s, aligned, floor", requests: 200, rule: window(10, 12, true, writeDelta(math.Floor))},
		{name: "delta, 10 per 12 s, first request, ceil", requests: 200, rule: window(10, 12, false, writeDelta(math.Ceil))},
		{name: "Twitch", requests: 4000, rule: func() counter { return &refillingBucket{limit: 800, rate: 800. / 60, write: writeTwitch(math.Ceil)} }},
		{name: "Anthropic", requests: 1000, url: "https://api.anthropic.com/v1/messages", rule: func() counter {
			return &both{one: &refillingBucket{limit: 50, rate: 50. / 60, write: writeAnthropic("Requests")}, two: &refillingBucket{limit: 30000, rate: 500, write: writeAnthropic("Input-Tokens")}, each: 400}
		}},
		{name: "Anthropic, tokens bind", requests: 1000, url: "https://api.anthropic.com/v1/messages", rule: func() counter {
			return &both{one: &refillingBucket{limit: 50, rate: 50. / 60, write: writeAnthropic("Requests")}, two: &refillingBucket{limit: 30000, rate: 500, write: writeAnthropic("Input-Tokens")}, each: 900}
		}},
		{name: "draft 07, 12 per 3 s, aligned", requests: 240, rule: window(12, 3, true, writeDraft07(math.Ceil))},
		{name: "draft 07, 12 per 3 s, first request", requests: 240, rule: window(12, 3, false, writeDraft07(math.Ceil))},
		{name: "draft 08, 5 per 5 s, aligned", requests: 100, rule: window(5, 5, true, writeDraft08(math.Ceil))},
		{name: "draft 08, 5 per 5 s, first request", requests: 100, rule: window(5, 5, false, writeDraft08(math.Ceil))},
		{name: "draft 07, 40 per 4 s, slow", requests: 800, rule: window(40, 4, true, writeDraft07(math.Ceil)), latency: 0.6},
		{name: "Twitch, ticks of 1 s", requests: 4000, rule: func() counter {
			return &refillingBucket{limit: 800, rate: 800. / 60, tick: 1, write: writeTwitch(math.Ceil)}
		}},
		{name: "Twitch, floor", requests: 4000, rule: func() counter { return &refillingBucket{limit: 800, rate: 800. / 60, write: writeTwitch(math.Floor)} }},
		{name: "Twitch, 80 in 6 s", requests: 800, rule: func() counter { return &refillingBucket{limit: 80, rate: 80. / 6, write: writeTwitch(math.Ceil)} }},
		{name: "Twitch, 100 in 10 s", requests: 1000, rule: func() counter { return &refillingBucket{limit: 100, rate: 10, write: writeTwitch(math.Ceil)} }},
		{name: "Anthropic, 50 in 6 s", requests: 500, url: "https://api.anthropic.com/v1/messages", rule: func() counter {
			return &both{one: &refillingBucket{limit: 50, rate: 50. / 6, write: writeAnthropic("Requests")}, two: &refillingBucket{limit: 30000, rate: 5000, write: writeAnthropic("Input-Tokens")}, each: 400}
		}},
		{name: "Anthropic, 10 in 12 s", requests: 200, url: "https://api.anthropic.com/v1/messages", rule: func() counter {
			return &both{one: &refillingBucket{limit: 10, rate: 10. / 12, write: writeAnthropic("Requests")}, two: &refillingBucket{limit: 30000, rate: 2500, write: writeAnthropic("Input-Tokens")}, each: 400}
		}},
		{name: "draft 03, 12 per 3 s, aligned, floor", requests: 240, rule: window(12, 3, true, writeDraft03(math.Floor))},
		{name: "draft 03, 12 per 3 s, aligned, ceil", requests: 240, rule: window(12, 3, true, writeDraft03(math.Ceil))},
		{name: "draft 03, 12 per 3 s, first request, floor", requests: 240, rule: window(12, 3, false, writeDraft03(math.Floor))},
		{name: "draft 03, 12 per 3 s, first request, ceil", requests: 240, rule: window(12, 3, false, writeDraft03(math.Ceil))},
		{name: "draft 03, 12 per 3 s, first request, round", requests: 240, rule: window(12, 3, false, writeDraft03(math.Round))},
		{name: "draft 07, 12 per 3 s, aligned, floor", requests: 240, rule: window(12, 3, true, writeDraft07(math.Floor))},
		{name: "draft 07, 12 per 3 s, first request, floor", requests: 240, rule: window(12, 3, false, writeDraft07(math.Floor))},
		{name: "draft 08, 5 per 5 s, first request, floor", requests: 100, rule: window(5, 5, false, writeDraft08(math.Floor))},
		{name: "draft 08, 5 per 5 s, first request, round", requests: 100, rule: window(5, 5, false, writeDraft08(math.Round))},
		{name: "draft 07, 12 per 3 s, bucket", requests: 240, rule: func() counter { return &refillingBucket{limit: 12, rate: 4, write: writeDraft07(math.Ceil)} }},
		{name: "draft 07, no policy, 12 per 3 s, first request", requests: 240, rule: window(12, 3, false, noPolicy(math.Ceil))},
		{name: "draft 07, no policy, 12 per 3 s, aligned", requests: 240, rule: window(12, 3, true, noPolicy(math.Ceil))},
		{name: "draft 07, no policy, 12 per 3 s, aligned, floor", requests: 240, rule: window(12, 3, true, noPolicy(math.Floor))},
		{name: "draft 07, no policy, 5 per 5 s, first request, floor", requests: 100, rule: window(5, 5, false, noPolicy(math.Floor))},
		{name: "epoch, 12 per 3 s, aligned", requests: 240, rule: window(12, 3, true, writeEpoch(math.Ceil))},
		{name: "epoch, 12 per 3 s, first request, floor", requests: 240, rule: window(12, 3, false, writeEpoch(math.Floor))},
		{name: "GitHub GraphQL", requests: 6000, url: "https://api.github.com/graphql", rule: window(5000, 3600, false, writeEpoch(math.Floor)), cost: varied(50)},
		{name: "GraphQL, 500 per minute", requests: 1200, url: "https://api.test/graphql", rule: window(500, 60, false, writeEpoch(math.Floor)), cost: varied(50)},
		{name: "Jira", requests: 6000, rule: window(6500, 3600, true, writeJira), cost: varied(20)},
	}
}

// arrivals are the times at which clients reach the service.
type arrivals []float64

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i] < a[j] }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(float64)) }
func (a *arrivals) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// ideal is how long the requests take that clients send who know the rule and its state.
func (s *announcedService) ideal(clients int) (end float64) {
	c, a := s.rule(), arrivals{}
	for range clients {
		a = append(a, s.latency/2)
	}
	for n := range s.requests {
		at := heap.Pop(&a).(float64)
		cost := s.costOf(n)
		at = c.free(at, cost)
		c.take(at, cost)
		end = max(end, at+s.latency/2)
		heap.Push(&a, at+s.latency)
	}
	return end
}

func (s *announcedService) costOf(n int) float64 {
	if s.cost == nil {
		return 1
	}
	return s.cost(n)
}

// announcedOutcome is how a run went.
type announcedOutcome struct {
	refused, errors int
	took, ideal     float64
	first           float64 // refusal
}

func (s announcedService) run(t testing.TB, clients int) announcedOutcome {
	if s.latency == 0 {
		s.latency = 0.05
	}
	if s.jitter == 0 {
		s.jitter = 0.1
	}
	if s.url == "" {
		s.url = "https://api.test/items"
	}
	start := time.UnixMilli(1_772_366_403_370).UTC()
	v := clock.NewVirtual(start)
	d := virtual(t, v, "queue: {wait: 24h}\n")
	rule, o := s.rule(), announcedOutcome{ideal: s.ideal(clients)}
	since := func() float64 { return v.Now().Sub(start).Seconds() }
	asked := 0
	site := func(r *http.Request, answer func(*http.Response, error)) {
		asked++
		half := time.Duration(s.latency / 2 * (1 - s.jitter + 2*s.jitter*float64(asked*7919%101)/100) * 1e9)
		v.AfterFunc(half, func() {
			n, _ := strconv.Atoi(r.URL.Query().Get("page"))
			at, cost, status := since(), s.costOf(n), http.StatusOK
			h := http.Header{}
			if rule.free(at, cost) > at {
				status = http.StatusTooManyRequests
				if o.refused++; o.refused == 1 {
					o.first = at
				}
			} else {
				rule.take(at, cost)
			}
			rule.announce(h, at, &s)
			if !s.undated {
				h.Set("Date", time.Unix(int64(math.Floor(s.epoch(at))), 0).UTC().Format(http.TimeFormat))
			}
			v.AfterFunc(half, func() {
				answer(&http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}, nil)
			})
		})
	}
	next := 0
	var fetch func(client string)
	fetch = func(client string) {
		if next == s.requests {
			return
		}
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"?page="+strconv.Itoa(next), nil)
		if err != nil {
			t.Fatal(err)
		}
		next++
		x, err := d.NewRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		x.Address = client
		d.Start(context.Background(), x, site, func(resp *http.Response, err error) {
			d.End(x, 0)
			if err != nil || resp.StatusCode != http.StatusOK {
				o.errors++
			}
			o.took = since()
			fetch(client)
		})
	}
	for i := range clients {
		fetch("192.0.2." + strconv.Itoa(i))
	}
	for v.Step() {
	}
	return o
}

// longer is what a service's requests may take, in times of the ideal, where that is more than
// usually.
var longer = map[string]float64{
	// The last unit of a window is spent on learning when windows end: with as many requests
	// as fill 20 windows, that is another window.
	"epoch, 10 per 12 s, first request, ceil":           1.13,
	"epoch, 10 per 12 s, first request, floor, no Date": 1.26,
	// A duration in seconds that is rounded up: a second of each window is lost.
	"delta, 10 per 12 s, first request, ceil":        1.1,
	"epoch, 12 per 3 s, aligned":                     1.08,
	"epoch, 12 per 3 s, first request, floor":        1.4,
	"draft 03, 12 per 3 s, first request, ceil":      1.36,
	"draft 03, 12 per 3 s, first request, round":     1.36,
	"draft 07, no policy, 12 per 3 s, first request": 1.36,
	"draft 07, 12 per 3 s, bucket":                   1.43, // taken for a window
	"draft 07, 40 per 4 s, slow":                     1.15, // an answer takes 0.6 s
	"Twitch, 80 in 6 s":                              1.13, // taken for a window at first
	"GraphQL, 500 per minute":                        1.08, // 50 points stay unused in each window
}

// TestAnnouncedLimitsAreUsedAndNeverExceeded prints a table with -v: the requests refused, and
// how long all took, in times of the least that is possible.
func TestAnnouncedLimitsAreUsedAndNeverExceeded(t *testing.T) {
	for _, s := range announcedServices() {
		most := max(longer[s.name], 1.05)
		for _, clients := range []int{1, 8, 64} {
			o := s.run(t, clients)
			t.Logf("| %-52s | %2d | refused %d | %8.1f s | × %.3f |", s.name, clients, o.refused, o.took, o.took/o.ideal)
			if o.refused > 0 || o.errors > 0 {
				t.Errorf("%s, %d clients: refused %d, the first at %.1f s; errors %d", s.name, clients, o.refused, o.first, o.errors)
			}
			if o.took > most*o.ideal {
				t.Errorf("%s, %d clients: %.1f s, where %.1f are ideal", s.name, clients, o.took, o.ideal)
			}
		}
	}
}
