package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// site is what answers in place of sites.
type site func(r *http.Request) *http.Response

func (s site) RoundTrip(r *http.Request) (*http.Response, error) { return s(r), nil }

// answer has a status and headers, each "name: value".
func answer(status int, headers ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x")), ContentLength: 1}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		resp.Header.Add(name, value)
	}
	return resp
}

// dispatching has a dispatcher run in fake time, with a site in place of the network.
func dispatching(t *testing.T, yaml string, to site, test func(d *Dispatcher)) {
	synctest.Test(t, func(t *testing.T) {
		p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n" + yaml), Lookup: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		log := logrus.New()
		log.SetOutput(io.Discard)
		d, err := New(Options{Policy: p, Metrics: metrics.New(100), Log: log, Upstream: func(*upstream.Transport) http.RoundTripper { return to }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		test(d)
		stop()
		running.Wait()
	})
}

// get is a request through the dispatcher, with no HTTP server around it.
func get(t *testing.T, d *Dispatcher, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.NewRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.Do(context.Background(), x)
	d.End(x, 1)
	return resp, err
}

func TestARequestNeedsNoServerToBeHeldAndSentAgain(t *testing.T) {
	began, asked := time.Time{}, 0
	to := func(*http.Request) *http.Response {
		if asked++; asked == 2 {
			return answer(429, "Retry-After: 7")
		}
		return answer(200)
	}
	dispatching(t, "sites:\n  - {host: api.test, limits: [{requests: 1, per: 10s, as: fixed}]}\n", to, func(d *Dispatcher) {
		time.Sleep(10*time.Second - time.Since(time.Now().Truncate(10*time.Second)))
		began = time.Now()
		for i, want := range []time.Duration{0, 20 * time.Second} { // the second is refused at 10 s until 17 s
			resp, err := get(t, d, "http://api.test/items")
			if err != nil || resp.StatusCode != 200 || time.Since(began) != want {
				t.Errorf("request %d: %v after %v, not %v", i, err, time.Since(began), want)
			}
		}
		if asked != 3 {
			t.Errorf("the site was asked %d times", asked)
		}
	})
}

func TestARefusalIsAnErrorThatNamesTheProblem(t *testing.T) {
	dispatching(t, "queue: {wait: 1s}\nsites:\n  - {host: api.test, limits: [{requests: 1, per: 1h}]}\n", func(*http.Request) *http.Response { return answer(200) }, func(d *Dispatcher) {
		if _, err := get(t, d, "http://api.test/"); err != nil {
			t.Fatal(err)
		}
		_, err := get(t, d, "http://api.test/")
		var refused *problem.Problem
		if !errors.As(err, &refused) || refused.Reason != problem.TooLong.Reason {
			t.Errorf("%v", err)
		}
	})
}

// What is planned is what happens: the same crawl in virtual time and by Do.
func TestStartTakesTheStepsOfDo(t *testing.T) {
	const clients, requests = 5, 300
	for name, c := range map[string]struct {
		yaml string
		site windows
	}{
		"a written limit":       {"sites:\n  - {host: api.test, limits: [{requests: 10, per: 1s, as: paced}]}\n", windows{limit: 1 << 30, window: time.Hour}},
		"announced, two tokens": {"queue: {wait: 24h}\npools:\n  api: {tokens: [{label: a, secret: aaaa}, {label: b, secret: bbbb}]}\nsites:\n  - {host: api.test, pool: api}\n", windows{limit: 40, window: time.Minute, announces: true}},
		"refused":               {"queue: {wait: 24h}\n", windows{limit: 20, window: 10 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // when a bubble begins
			v := clock.NewVirtual(start)
			planned := c.site
			planned.latency = 200 * time.Millisecond
			crawl(t, v, virtual(t, v, c.yaml), planned.in(v), clients, requests)
			took := v.Now().Sub(start)

			actual := c.site
			actual.latency = planned.latency
			var mu sync.Mutex
			to := site(func(r *http.Request) *http.Response {
				mu.Lock()
				resp := actual.decide(time.Now(), r)
				takes := actual.takes()
				mu.Unlock()
				time.Sleep(takes)
				return resp
			})
			dispatching(t, c.yaml, to, func(d *Dispatcher) {
				began := time.Now()
				var running sync.WaitGroup
				for range clients {
					running.Go(func() {
						for range requests / clients {
							if resp, err := get(t, d, "https://api.test/items"); err != nil || resp.StatusCode != http.StatusOK {
								t.Errorf("%v %v", resp, err)
							}
						}
					})
				}
				running.Wait()
				if got := time.Since(began); (got - took).Abs() > got/50 {
					t.Errorf("it took %v, and %v was planned", got, took)
				}
			})
			t.Logf("asked %d, planned %d; refused %d, planned %d; %v", actual.asked, planned.asked, actual.refused, planned.refused, took)
			if d := actual.asked - planned.asked; d < -5 || d > 5 {
				t.Errorf("the site was asked %d times, and %d were planned", actual.asked, planned.asked)
			}
		})
	}
}
