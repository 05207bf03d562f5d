package proxy

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/admin/plan"
	"github.com/abide-proxy/abide/policy"
)

// plannedCrawl is a crawl that is planned, and then done.
type plannedCrawl struct {
	yaml               string
	requests, clients  int
	latency            time.Duration
	body               int    // bytes of an answer
	siteLimit          string // "": none
	silent             bool
	ends               time.Duration // at least; a plan that says so is about limits
	priorities         bool          // the clients have priorities of all kinds
	tokens             int           // in the pool x
	abideRefusesAtLeas int           // refusals of abide
}

// plannedHead is about how many bytes a request and its answer have, but for the body.
const plannedHead = 300

// patientBodies are timeouts for connections without those of a Dialer.
const patientBodies = "timeouts: {idle: 5m, answer: 1h, drain: 30s, stall: 1h}\n"

var plannedCrawls = map[string]plannedCrawl{
	"a window for each of three tokens": {
		yaml:     "sites: [{host: api.test, pool: x, insecure: true, limits: [{requests: 60, per: 1m, by: token}]}]\n",
		requests: 2000, clients: 7, latency: 200 * time.Millisecond, tokens: 3, ends: 10 * time.Minute,
	},
	"paced": {
		yaml:     "sites: [{host: api.test, limits: [{requests: 5, per: 1s, as: paced}]}]\n",
		requests: 1000, clients: 3, latency: 300 * time.Millisecond, ends: 199 * time.Second,
	},
	"a bucket": {
		yaml:     "sites: [{host: api.test, limits: [{requests: 2, per: 1s, as: bucket, burst: 100}]}]\n",
		requests: 1000, clients: 10, latency: 100 * time.Millisecond, ends: 440 * time.Second,
	},
	"few at once": {
		yaml:     "sites: [{host: api.test, limits: [{concurrency: 4}]}]\n",
		requests: 1000, clients: 10, latency: 500 * time.Millisecond, ends: 120 * time.Second,
	},
	"the clients alone": {
		yaml:     "sites: [{host: api.test, limits: []}]\n",
		requests: 1000, clients: 5, latency: 250 * time.Millisecond, ends: 49 * time.Second,
	},
	"bytes of a window": {
		yaml:     patientBodies + "sites: [{host: api.test, limits: [{bytes: 1MB, per: 1m}]}]\n",
		requests: 500, clients: 8, latency: 200 * time.Millisecond, body: 50_000, ends: 24 * time.Minute,
	},
	"bytes of a bucket": {
		yaml:     patientBodies + "sites: [{host: api.test, limits: [{bytes: 100kB, per: 1s, as: bucket, burst: 64KiB}]}]\n",
		requests: 500, clients: 8, latency: 200 * time.Millisecond, body: 50_000, ends: 240 * time.Second,
	},
	"two limits, and a quota": {
		yaml:     "queue: {wait: 48h}\nsites: [{host: api.test, limits: [{requests: 50, per: 1m}, {requests: 10, per: 5s}, {requests: 1500, per: day}]}]\n",
		requests: 2000, clients: 6, latency: 150 * time.Millisecond, ends: 2 * time.Hour,
	},
	"clients of several priorities": {
		yaml:     "sites: [{host: api.test, limits: [{requests: 100, per: 1m, as: fixed}, {requests: 20, per: 1m, by: client}]}]\n",
		requests: 1500, clients: 9, latency: 150 * time.Millisecond, ends: 14 * time.Minute, priorities: true,
	},
	"waits that are too long": {
		yaml:     "queue: {wait: 20s}\nsites: [{host: api.test, limits: [{requests: 30, per: 1m}]}]\n",
		requests: 600, clients: 5, latency: 150 * time.Millisecond, ends: 18 * time.Minute, abideRefusesAtLeas: 50,
	},
	"a limit that two tokens learn": {
		yaml:     "sites: [{host: api.test, pool: x, insecure: true}]\n",
		requests: 2000, clients: 7, latency: 200 * time.Millisecond, tokens: 2, siteLimit: "100 per 1m by token", ends: 9 * time.Minute,
	},
	"a limit that is looser in the configuration": {
		yaml:     "sites: [{host: api.test, limits: [{requests: 100, per: 1m}]}]\n",
		requests: 1500, clients: 5, latency: 200 * time.Millisecond, siteLimit: "50 per 1m", ends: 28 * time.Minute,
	},
}

// What is planned is what happens: a crawl through the whole proxy ends when its plan says.
func TestACrawlEndsWhenItsPlanSays(t *testing.T) {
	for name, c := range plannedCrawls {
		t.Run(name, func(t *testing.T) {
			o := c.origin(t)
			bubble(t, o.serve, c.config(), func(w *bubbleProxy) {
				w.limited = true
				elapse(time.Until(time.Date(2001, time.March, 1, 12, 7, 0, 0, time.UTC)))
				planned := c.plan(t, w.policy(c.config()))
				took, refused := c.crawl(w)
				off := took.Seconds()/planned.Seconds - 1
				t.Logf("planned %.1f s, took %.1f s: %+.2f %%; the site refused %d, planned %d; abide refused %d, planned %d",
					planned.Seconds, took.Seconds(), 100*off, o.refused, planned.Refusals.Site, refused, planned.Refusals.Abide)
				if math.Abs(off) > .02 || took < c.ends {
					t.Errorf("planned %.1f s, took %.1f s", planned.Seconds, took.Seconds())
				}
				if n := o.refused - planned.Refusals.Site; max(n, -n) > c.requests/50 {
					t.Errorf("the site refused %d, planned are %d", o.refused, planned.Refusals.Site)
				}
				if refused < c.abideRefusesAtLeas || planned.Refusals.Abide < c.abideRefusesAtLeas {
					t.Errorf("abide refused %d, planned are %d", refused, planned.Refusals.Abide)
				}
			})
		})
	}
}

// config is the configuration, with the pool x.
func (c *plannedCrawl) config() string {
	if c.tokens == 0 {
		return c.yaml
	}
	pool := "pools:\n  x:\n    tokens:\n"
	for i := range c.tokens {
		pool += fmt.Sprintf("      - {label: t%d, secret: secret-%02d}\n", i, i)
	}
	return pool + c.yaml
}

// plan is the plan for the crawl, which begins now.
func (c *plannedCrawl) plan(t *testing.T, p *policy.Policy) *plan.Result {
	t.Helper()
	s := plan.Scenario{
		Start: time.Now(), Silent: c.silent, Tokens: map[string][]policy.Token{"x": make([]policy.Token, max(c.tokens, 1))},
		Crawl: plan.Crawl{
			Target: policy.Target{Scheme: "http", Host: "api.test", Port: 80}, Path: "/items", Method: "GET", Priority: -1,
			Requests: c.requests, Clients: c.clients, Latency: c.latency, Bytes: int64(c.body + plannedHead),
		},
	}
	if c.siteLimit != "" {
		var err error
		s.SiteLimit, err = plan.ParseSiteLimit(c.siteLimit)
		must(t, err)
	}
	r, err := plan.Run(t.Context(), p, s)
	must(t, err)
	return r
}

// crawl sends all requests. It returns how long that took, and how many of them abide refused
// for now.
func (c *plannedCrawl) crawl(w *bubbleProxy) (took time.Duration, refused int) {
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	left := c.requests
	take := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		left -= n
		return left >= 0
	}
	for i := range c.clients {
		client := w.client()
		headers := []string{"Abide-Client", fmt.Sprint("client ", i)}
		if c.priorities {
			headers = append(headers, "Abide-Priority", strconv.Itoa(i%8))
		}
		all.Go(func() {
			for take(1) {
				for {
					a := w.get(client, "http://api.test/items", headers...)
					if a.status == http.StatusOK {
						break
					}
					seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
					if a.status != http.StatusTooManyRequests || err != nil {
						w.t.Errorf("%d %s", a.status, a.body)
						return
					}
					mu.Lock()
					refused++
					mu.Unlock()
					elapse(time.Duration(seconds) * time.Second)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began), refused
}

// plannedOrigin is the service of a plannedCrawl.
type plannedOrigin struct {
	crawl *plannedCrawl
	per   time.Duration
	limit float64
	body  []byte

	mu      sync.Mutex
	windows map[string]*plannedWindow // :: token → its window
	asked   int
	refused int
}

// plannedWindow begins with its first request.
type plannedWindow struct {
	end  time.Time
	left float64
}

func (c *plannedCrawl) origin(t *testing.T) *plannedOrigin {
	o := &plannedOrigin{crawl: c, windows: map[string]*plannedWindow{}, body: bytes.Repeat([]byte("x"), c.body)}
	if c.siteLimit != "" {
		_, err := fmt.Sscanf(c.siteLimit, "%g per 1m", &o.limit)
		must(t, err)
		o.per = time.Minute
	}
	return o
}

func (o *plannedOrigin) serve(rw http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked++
	latency := o.crawl.latency * time.Duration(95+o.asked*31%11) / 100
	o.mu.Unlock()
	elapse(latency / 2)
	status := o.answer(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), rw.Header())
	elapse(latency - latency/2)
	rw.WriteHeader(status)
	if status == http.StatusOK {
		rw.Write(o.body)
	}
}

// answer decides on a request when it arrives.
func (o *plannedOrigin) answer(token string, h http.Header) int {
	if o.limit == 0 {
		return http.StatusOK
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	w := o.windows[token]
	if w == nil || !now.Before(w.end) {
		w = &plannedWindow{end: now.Add(o.per), left: o.limit}
		o.windows[token] = w
	}
	served := w.left >= 1
	if served {
		w.left--
	}
	reset := strconv.Itoa(int(math.Ceil(w.end.Sub(now).Seconds())))
	h.Set("X-Ratelimit-Limit", fmt.Sprint(o.limit))
	h.Set("X-Ratelimit-Remaining", fmt.Sprint(w.left))
	h.Set("X-Ratelimit-Reset", reset)
	if served {
		return http.StatusOK
	}
	o.refused++
	h.Set("Retry-After", reset)
	return http.StatusTooManyRequests
}
