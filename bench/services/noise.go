package main

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// noisy is a service that refuses some requests at random, whatever the rate is.
func noisy(share float64, name string, refuse func(http.Header) (int, string), limit string, shared func() []rule) *service {
	s := &service{
		name: fmt.Sprintf("%g %% of %s, %s", share*100, name, limit), host: "noisy.test", kind: silent, requests: 600,
		shared: shared, noise: share, overdone: refuse, refuse: refusing(http.StatusTooManyRequests, ""),
	}
	if shared == nil {
		s.requests = 4000
	}
	return s
}

// noisyServices are services that refuse at random, with and without a limit beside.
func noisyServices() (list []*service) {
	for _, l := range []struct {
		name   string
		shared func() []rule
	}{
		{"no limit", nil},
		{"50 in 10 s", func() []rule { return []rule{&window{amount: 50, length: 10 * time.Second}} }},
		{"20 at once, 5 a second", func() []rule { return []rule{&bucket{size: 20, rate: 5}} }},
	} {
		for _, share := range []float64{0.005, 0.01, 0.02, 0.05, 0.08, 0.3} {
			list = append(list,
				noisy(share, "503", func(http.Header) (int, string) { return http.StatusServiceUnavailable, "" }, l.name, l.shared),
				noisy(share, "429", func(http.Header) (int, string) { return http.StatusTooManyRequests, "" }, l.name, l.shared),
				noisy(share, "429, Retry-After: 1", func(h http.Header) (int, string) {
					h.Set("Retry-After", "1")
					return http.StatusTooManyRequests, ""
				}, l.name, l.shared))
		}
	}
	return list
}

// mishap is a service without a limit that fails now and then, or for ten seconds.
type mishap struct {
	name     string
	requests int
	slower   float64 // than the others, which the goal of the test takes into account
	service  func(requests, seed int) *service
}

// mishaps are short crawls: most sites of a crawl have few pages.
func mishaps() (list []mishap) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		refuse := func(http.Header) (int, string) { return code, "" }
		for _, c := range []struct {
			share    float64
			requests int
		}{{0.05, 20}, {0.05, 100}, {0.05, 300}, {0.15, 60}, {0.3, 100}} {
			list = append(list, mishap{fmt.Sprintf("%g %% of %d", 100*c.share, code), c.requests, 1, func(requests, seed int) *service {
				s := noisy(c.share, "", refuse, "", nil)
				s.requests, s.seed = requests, uint64(seed)
				return s
			}})
		}
		for _, c := range []struct {
			share    float64
			requests int
			wait     string
			slower   float64
		}{{0.01, 2400, "1", 1}, {0.1, 400, "2", 1}, {0.1, 400, "10", 5}} {
			list = append(list, mishap{fmt.Sprintf("%g %% of %d, Retry-After: %s", 100*c.share, code, c.wait), c.requests, c.slower, func(requests, seed int) *service {
				s := noisy(c.share, "", func(h http.Header) (int, string) {
					h.Set("Retry-After", c.wait)
					return code, ""
				}, "", nil)
				s.requests, s.seed = requests, uint64(seed)
				return s
			}})
		}
		list = append(list, mishap{fmt.Sprintf("%d for 10 s", code), 600, 1, func(requests, seed int) *service {
			s := noisy(0, "", refuse, "", nil)
			from := time.Duration(1+seed%5) * time.Second
			s.requests, s.overload, s.latency = requests, between(from, from+10*time.Second), 2*usualLatency
			return s
		}})
	}
	return list
}

// shortCrawls is so many crawls of a mishap.
type shortCrawls struct {
	abide, pausing time.Duration
	errors         int
}

// crawl crawls a mishap some times.
func (m *mishap) crawl(times, clients int) (sum shortCrawls, err error) {
	set := setting{clients: clients, tokens: 1}
	for seed := range times {
		r, err := newRun(m.service(m.requests, seed), set).abide()
		if err != nil {
			return sum, err
		}
		sum.abide += r.took
		sum.errors += r.errors
		sum.pausing += newRun(m.service(m.requests, seed), set).pausing().took
	}
	return sum, nil
}

// mishapTable prints how fast abide crawls sites without a limit that fail.
func mishapTable() error {
	const times = 60
	fmt.Printf("\n## Short crawls of sites that fail\n\nThe mean of %d crawls of a site without a limit, beside clients that pause one second after each refusal, each for itself.\n\n| refusals | requests | clients | abide: s | pausing: s | speed ÷ pausing |\n| --- | --- | --- | --- | --- | --- |\n", times)
	for _, m := range mishaps() {
		for _, n := range []int{1, 8} {
			sum, err := m.crawl(times, n)
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %d | %d | %.1f | %.1f | %.2f |\n", m.name, m.requests, n, sum.abide.Seconds()/times, sum.pausing.Seconds()/times, sum.pausing.Seconds()/sum.abide.Seconds())
		}
	}
	return nil
}

// pausing crawls as clients do that pause for one second after each refusal, or for as long as it
// names.
func (r *run) pausing() result {
	return r.crawl(func(_, n int, answered func(int, string)) {
		var try func()
		tries := 0
		try = func() {
			r.send(r.token(n+tries), r.site.path(n), n, func(status int, h http.Header, _ string) {
				if seen(status, h) == http.StatusOK {
					answered(status, "")
					return
				}
				tries++
				wait, named := retryAfter(h, r.clock.Now())
				if !named {
					wait = time.Second
				}
				r.clock.AfterFunc(wait, try)
			})
		}
		try()
	})
}

// inFlight is how many requests abide has in flight at a site that no rule names.
const inFlight = 32

// noiseCell is a crawl of a service that refuses at random, beside clients that pause.
type noiseCell struct {
	service *service
	clients int
	abide   result
	pausing result
	err     error
}

// speed is that of abide, divided by that of clients that pause.
func (c *noiseCell) speed() float64 { return c.pausing.took.Seconds() / c.abide.took.Seconds() }

// inParallel calls a function for each of n numbers, one at a time on each processor.
func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			do(i)
			<-free
		})
	}
	all.Wait()
}

// crawlNoisy crawls services with several numbers of clients. Crawls without a limit are longer
// where there are many clients, so that their first seconds do not count for much.
func crawlNoisy(list []*service, clients ...int) []noiseCell {
	cells := make([]noiseCell, 0, len(list)*len(clients))
	for _, s := range list {
		for _, n := range clients {
			long := *s
			if s.shared == nil && n > 1 {
				long.requests *= 10
			}
			cells = append(cells, noiseCell{service: &long, clients: n})
		}
	}
	inParallel(len(cells), func(i int) {
		c := &cells[i]
		set := setting{clients: c.clients, tokens: 1}
		slow := set
		slow.clients = min(set.clients, inFlight)
		c.pausing = newRun(c.service, slow).pausing()
		c.abide, c.err = newRun(c.service, set).abide()
	})
	return cells
}

// noiseTable prints how fast abide crawls services that refuse at random, beside clients that pause.
func noiseTable() error {
	fmt.Print("\n## Refusals at random\n\nBeside clients that pause one second after each refusal, each for itself, and at most 32 of them, as abide has no more requests in flight at a site without a rule.\n\n| service | clients | requests | abide: s | refused | errors | pausing: s | refused | speed ÷ pausing |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	cells := crawlNoisy(noisyServices(), 1, 8, 64)
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			return c.err
		}
		fmt.Printf("| %s | %d | %d | %.0f | %d | %d | %.0f | %d | %.2f |\n", c.service.name, c.clients, c.service.requests, c.abide.took.Seconds(), c.abide.refused, c.abide.errors, c.pausing.took.Seconds(), c.pausing.refused, c.speed())
	}
	return mishapTable()
}
