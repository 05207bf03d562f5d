//go:build linux

package main

import (
	"context"
	"io"
	"math/rand"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// crowd is crawlers with lists of pages: each has one at one abide, some pages at a
// time, and then another list at another abide.
type crowd struct {
	host     string
	members  []*member
	sessions int           // at once
	length   int           // requests of one, on average
	parallel int           // of these at a time
	think    time.Duration // between two requests, on average

	mu      sync.Mutex
	samples []sample
	left    []time.Duration // how long those had waited that had no answer when run ended
}

// sample is a request.
type sample struct {
	began  time.Time
	took   time.Duration
	status int // 0: no answer
}

// run goes on until ctx is done.
func (c *crowd) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range c.sessions {
		all.Go(func() {
			rnd := rand.New(rand.NewSource(int64(i)))
			for ctx.Err() == nil {
				m := c.members[rnd.Intn(len(c.members))]
				if m.away() {
					pause(ctx, 5*time.Millisecond)
					continue
				}
				c.session(ctx, m, 1+int(rnd.ExpFloat64()*float64(c.length)))
			}
		})
	}
	all.Wait()
}

func (c *crowd) session(ctx context.Context, m *member, left int) {
	var mu sync.Mutex
	take := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0
	}
	out := m.outed()
	var all sync.WaitGroup
	for range c.parallel {
		all.Go(func() {
			for ctx.Err() == nil && !m.away() && take() {
				done := make(chan bool, 1)
				go func() { done <- c.get(ctx, m) }() // ends with ctx at the latest
				select {
				case ok := <-done:
					if !ok {
						pause(ctx, 50*time.Millisecond)
					}
				case <-out:
					return // whoever is away may answer later
				}
				pause(ctx, time.Duration(rand.Int63n(int64(2*c.think)+1)))
			}
		})
	}
	all.Wait()
}

// get is one request.
func (c *crowd) get(ctx context.Context, m *member) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.host+"/", nil)
	if err != nil {
		return false
	}
	s := sample{began: time.Now()}
	if answer, err := m.client.RoundTrip(request); err == nil {
		s.status = answer.StatusCode
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			s.status = 0
		}
		answer.Body.Close()
	}
	s.took = time.Since(s.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		c.left = append(c.left, s.took)
		return false // it was ended by us
	}
	c.samples = append(c.samples, s)
	return s.status == http.StatusOK
}

// between are the requests that began in an interval.
func (c *crowd) between(from, to time.Time) (took []time.Duration, failed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.samples {
		if s.began.Before(from) || !s.began.Before(to) {
			continue
		}
		if s.status != http.StatusOK {
			failed++
		}
		took = append(took, s.took)
	}
	return took, failed
}

// pause waits, unless ctx is done before.
func pause(ctx context.Context, d time.Duration) { _ = process.Pause(ctx, d) }

// until waits for a moment.
func until(ctx context.Context, t time.Time) error {
	pause(ctx, time.Until(t))
	return ctx.Err()
}

// directly is a way to a site without a proxy.
func directly(site *origin) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, site.at)
		},
	}
}
