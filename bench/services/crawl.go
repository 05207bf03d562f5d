package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// usualLatency is the mean time of an answer.
const usualLatency = 50 * time.Millisecond

// start is when runs begin: not at the beginning of a minute or a second.
var start = time.Date(2026, time.March, 1, 12, 0, 17, 342_000_000, time.UTC)

// setting describes a crawl besides its service.
type setting struct {
	clients int
	tokens  int
	latency time.Duration // mean time of an answer; 0: that of the service
	skew    time.Duration // the clock of the service is ahead by it
}

// run is a crawl of a service by some clients, each of which sends one request after the
// other.
type run struct {
	setting
	began  time.Time
	clock  *clock.Virtual
	site   *site
	kind   *kitKind // of the kit; nil: none
	random *rand.Rand
	sent   int // requests that clients have begun
	done   int // requests that have ended, for clients
	errors int // of these, with an answer that is no success
	end    time.Time
	failed []string // the first of these
	seed   uint64   // of the pauses of abide
}

// result is what came of a run.
type result struct {
	took    time.Duration
	refused int
	errors  int
	early   int // refusals until the rate was found
	late    int // refusals after that
	served  int // requests after that
	failed  []string
}

func newRun(s *service, c setting) *run { return newRunAt(s, c, start) }

// newRunAt prepares a run that begins at a time.
func newRunAt(s *service, c setting, began time.Time) *run {
	c.latency = cmp.Or(c.latency, s.latency, usualLatency)
	return &run{
		setting: c, began: began, clock: clock.NewVirtual(began), site: newSite(s, began, c.skew),
		random: rand.New(rand.NewPCG(uint64(c.clients), uint64(c.tokens))),
	}
}

// longest bounds a run: a client that makes no progress gives up.
const longest = 400 * 24 * time.Hour

// crawl has all clients send requests until there are no more. ask sends one, and calls the
// function with the status that its client sees.
func (r *run) crawl(ask func(client, n int, answered func(status int, why string))) result {
	var next func(client int)
	next = func(client int) {
		if r.sent >= r.site.requests {
			return
		}
		n := r.sent
		r.sent++
		ask(client, n, func(status int, why string) {
			r.done++
			r.end = r.clock.Now()
			if status != http.StatusOK {
				r.errors++
				if len(r.failed) < 3 {
					r.failed = append(r.failed, fmt.Sprintf("%v: %d %s", r.clock.Now().Sub(r.began), status, why))
				}
			}
			r.clock.AfterFunc(0, func() { next(client) })
		})
	}
	for i := range r.clients {
		next(i)
	}
	for r.done < r.site.requests && r.clock.Now().Sub(r.began) < longest && r.clock.Step() {
	}
	if r.done < r.site.requests {
		r.errors += r.site.requests - r.done
		r.end = r.clock.Now()
		r.failed = append(r.failed, "requests were never answered")
	}
	return r.result()
}

// roundTrip is the time of one answer.
func (r *run) roundTrip() time.Duration {
	return time.Duration(float64(r.latency) * (0.9 + 0.2*r.random.Float64()))
}

// send sends a request to the service, which decides after half of the round trip. A service of the kit decides as soon as it does
// in real time, and a request that it refuses is not in flight any more.
func (r *run) send(token, path string, n int, answered func(status int, h http.Header, body string)) {
	trip := r.roundTrip()
	way := trip / 2
	if r.kind != nil {
		way = min(way, quick/2)
	}
	r.clock.AfterFunc(way, func() {
		status, h, body, left := r.site.answer(r.clock.Now(), token, path, n)
		rest := trip - way
		if r.kind != nil {
			if h.Get(refusedHeader) != "" {
				left()
				left, rest = func() {}, way
			}
			body, rest = r.kind.shape(status, h, n, body, rest)
		}
		r.clock.AfterFunc(rest, func() {
			left()
			answered(status, h, body)
		})
	})
}

// abide crawls through abide, without any configuration but the tokens.
func (r *run) abide() (result, error) {
	d, err := r.dispatcher()
	if err != nil {
		return result{}, err
	}
	answering := func(n int) dispatch.Answering {
		return func(q *http.Request, answer func(*http.Response, error)) {
			r.send(q.Header.Get("Authorization"), q.URL.Path, n, func(status int, h http.Header, body string) {
				if status == 0 {
					answer(nil, &upstream.Error{Kind: upstream.Closed, Sent: true, Err: io.EOF})
					return
				}
				answer(&http.Response{
					StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: q,
					Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				}, nil)
			})
		}
	}
	return r.crawl(func(client, n int, answered func(int, string)) {
		method, path := r.site.line(n)
		q, err := http.NewRequestWithContext(context.Background(), method, "https://"+r.site.host+path, http.NoBody)
		if err != nil {
			panic(err)
		}
		if r.kind == nil && r.tokens == 1 {
			q.Header.Set("Authorization", "Bearer t0")
		}
		x, err := d.NewRequest(q)
		if err != nil {
			panic(err)
		}
		x.Address = fmt.Sprintf("192.0.2.%d", client+1)
		asked := r.clock.Now()
		d.Start(context.Background(), x, answering(n), func(resp *http.Response, err error) {
			d.End(x, 0)
			if r.kind != nil && r.clock.Now().Sub(asked) > patience && err == nil {
				resp.Body.Close()
				answered(0, "after the patience of a client")
				return
			}
			if err != nil {
				answered(0, err.Error())
				return
			}
			resp.Body.Close()
			answered(seen(resp.StatusCode, resp.Header), "")
		})
	}), nil
}

// dispatcher is abide in virtual time.
func (r *run) dispatcher() (*dispatch.Dispatcher, error) {
	var config strings.Builder
	config.WriteString("data: none\nqueue: {wait: 720h}\n")
	if r.tokens > 1 {
		config.WriteString("pools:\n  crawl:\n    tokens:\n")
		for i := range r.tokens {
			fmt.Fprintf(&config, "      - {label: number %d, secret: t%d}\n", i+1, i)
		}
		fmt.Fprintf(&config, "sites:\n  - {host: %s, pool: crawl}\n", r.site.host)
	}
	p, err := policy.Load(policy.Source{Path: "services.yaml", Data: []byte(config.String()), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		return nil, err
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return dispatch.New(dispatch.Options{Policy: p, Metrics: metrics.New(100), Log: log, Clock: r.clock, Jitter: rand.New(rand.NewPCG(r.seed, uint64(r.clients))).Float64})
}

// result is what came of the run.
func (r *run) result() result {
	s := r.site
	out := result{took: r.end.Sub(r.began), refused: len(s.refused), errors: r.errors, failed: r.failed}
	found := s.found()
	for _, at := range s.refused {
		if at.Before(found) {
			out.early++
		} else {
			out.late++
		}
	}
	for _, at := range s.served {
		if !at.Before(found) {
			out.served++
		}
	}
	return out
}

// foundPart is the part of the requests after whose first half a rate counts as found.
const foundPart = 0.5

// found is when a rate counts as found: after half of the requests.
func (s *site) found() time.Time {
	if n := int(foundPart * float64(len(s.served))); n < len(s.served) {
		return s.served[n]
	}
	return start
}
