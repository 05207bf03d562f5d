package main

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestRefusalsAtRandomDoNotStopACrawl: refusals that do not depend on the rate once made a crawl ten thousand times slower.
// Their goal is the speed of clients that pause; what is held here is what is reached in the worst of these crawls.
func TestRefusalsAtRandomDoNotStopACrawl(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(http.Header) (int, string) {
		return func(http.Header) (int, string) { return status, "" }
	}
	limit := func() []rule { return []rule{&bucket{size: 20, rate: 5}} }
	cells := crawlNoisy([]*service{
		noisy(0.005, "429", refuse(429), "no limit", nil), noisy(0.05, "429", refuse(429), "no limit", nil), noisy(0.05, "503", refuse(503), "no limit", nil),
		noisy(0.005, "429", refuse(429), "20 at once, 5 a second", limit), noisy(0.05, "503", refuse(503), "20 at once, 5 a second", limit),
	}, 1, 8)
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			t.Fatal(c.err)
		}
		t.Logf("%s, %d clients: %.2f of the speed of clients that pause, %d refused", c.service.name, c.clients, c.speed(), c.abide.refused)
		if c.abide.errors > 0 || c.speed() < 0.7 {
			t.Errorf("%s, %d clients: %v, where clients that pause need %v; %d errors", c.service.name, c.clients, c.abide.took, c.pausing.took, c.abide.errors)
		}
	}
}

// TestALimitOfFailuresBesideRefusalsAtRandomIsFound: where 503 is the limit's and some requests are refused with 429 at random,
// one crawl of ten once stood still for two to eight hours.
func TestALimitOfFailuresBesideRefusalsAtRandomIsFound(t *testing.T) {
	t.Parallel()
	inParallel(24, func(seed int) {
		s := noisy(0.02, "429", func(http.Header) (int, string) { return http.StatusTooManyRequests, "" }, "a limit", func() []rule { return []rule{&bucket{size: 10, rate: 5}} })
		s.refuse, s.seed = refusing(http.StatusServiceUnavailable, ""), uint64(seed)
		if r, err := newRun(s, setting{clients: 8, tokens: 1}).abide(); err != nil || r.took > 5*time.Minute || r.errors > 0 {
			t.Errorf("%d: %v, %d errors: %v; two minutes are enough", seed, r.took, r.errors, err)
		}
	})
}

// TestRefusalsAtRandomCostLittleInEachCrawl: two refusals one after the other once slowed one crawl of twenty down to a fourteenth.
func TestRefusalsAtRandomCostLittleInEachCrawl(t *testing.T) {
	t.Parallel()
	for _, kind := range kitKinds() {
		if !kind.pausing {
			continue
		}
		sized := kind.sized(8)
		sized.host = kind.through()
		sum, err := sized.simulate(8, 20, false)
		if err != nil {
			t.Fatal(err)
		}
		worst := slices.Max(sum.ratios)
		t.Logf("%s: %.2f × the time of clients that pause in the worst of 20 crawls", kind.name, worst)
		if worst > 5 || sum.errors > 3 {
			t.Errorf("%s: %.2f × the time of clients that pause, %d errors", kind.name, worst, sum.errors)
		}
	}
}

// TestHalfOfTheRequestsMayBeRefusedAtRandom: a crawl once stood still, as six refusals in a row, which half of the requests give soon,
// were taken for a limit.
func TestHalfOfTheRequestsMayBeRefusedAtRandom(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, clients := range []int{1, 8} {
			k := &kitKind{service: service{name: "half", host: "half.kit.test", requests: 600, latency: 50 * time.Millisecond, noise: 0.5, overdone: failing(status, "")}, pausing: true}
			sum, err := k.simulate(clients, 4, false)
			if err != nil {
				t.Fatal(err)
			}
			worst := slices.Max(sum.ratios)
			t.Logf("%d, %d clients: %.2f × the time of clients that pause in the worst of 4 crawls, %d errors", status, clients, worst, sum.errors)
			if worst > 4 || sum.errors > 24 {
				t.Errorf("%d, %d clients: %.2f × the time of clients that pause, %d errors", status, clients, worst, sum.errors)
			}
		}
	}
}

// TestAFailureNowAndThenDoesNotStopAShortCrawl: most sites of a crawl have few pages, so the first failures count.
// With one client the speed is that of a client that pauses; several clients share what they learn of a site.
func TestAFailureNowAndThenDoesNotStopAShortCrawl(t *testing.T) {
	t.Parallel()
	for _, m := range mishaps() {
		for clients, least := range map[int]float64{1: 0.4, 8: 0.12} {
			sum, err := m.crawl(12, clients)
			if err != nil {
				t.Fatal(err)
			}
			speed := sum.pausing.Seconds() / sum.abide.Seconds()
			t.Logf("%s, %d requests, %d clients: %.2f of the speed of clients that pause", m.name, m.requests, clients, speed)
			if speed < least/m.slower || sum.errors > 0 {
				t.Errorf("%s, %d requests, %d clients: %.2f of the speed of clients that pause, %d errors", m.name, m.requests, clients, speed, sum.errors)
			}
		}
	}
}

// TestAnOutageSaysNothingAboutARate: after half a minute of 503 beside a limit, what was found of the limit still holds.
func TestAnOutageSaysNothingAboutARate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		shared       func() []rule
		rate         float64
		from, outage time.Duration
	}{
		{"20 at once, 5 a second", func() []rule { return []rule{&bucket{size: 20, rate: 5}} }, 5, time.Minute, 30 * time.Second},
		{"50 in 10 s", func() []rule { return []rule{&window{amount: 50, length: 10 * time.Second}} }, 5, time.Minute, 30 * time.Second},
		{"10 in 4 s", func() []rule { return []rule{&window{amount: 10, length: 4 * time.Second}} }, 2.5, 7 * time.Second, 5 * time.Second},
		{"rolling, 10 in 4 s", func() []rule { return []rule{&rolling{amount: 10, length: 4 * time.Second}} }, 2.5, 7 * time.Second, 40 * time.Second},
	} {
		name, requests, outage := c.name, int(240*c.rate), c.outage
		ideal := 4*time.Minute + outage
		for _, clients := range []int{1, 8} {
			s := noisy(0, "503", func(http.Header) (int, string) { return http.StatusServiceUnavailable, "" }, name, c.shared)
			s.requests, s.overload = requests, between(c.from, c.from+outage)
			r, err := newRun(s, setting{clients: clients, tokens: 1}).abide()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %d clients: %v, %.2f × ideal, %d refused", name, clients, r.took, r.took.Seconds()/ideal.Seconds(), r.refused)
			if r.took > ideal*3/2 || r.errors > 0 {
				t.Errorf("%s, %d clients: %v, more than one and a half times %v; %d errors", name, clients, r.took, ideal, r.errors)
			}
		}
	}
}
