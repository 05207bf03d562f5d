package dispatch

import (
	"context"
	"io"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

// virtual is a dispatcher in virtual time.
func virtual(t testing.TB, v *clock.Virtual, yaml string) *Dispatcher {
	t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n" + yaml), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := New(Options{Policy: p, Metrics: metrics.New(100), Log: log, Clock: v})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// windows is a site where each token may send so many requests in each window. It refuses
// more, and may announce the limit.
type windows struct {
	limit     int
	window    time.Duration
	latency   time.Duration
	announces bool
	fromFirst bool // a window begins with its first request

	used           map[string]int // :: Authorization → requests of the present window
	ends           time.Time
	asked, refused int
}

// takes is how long the answer to the last request takes: longer or shorter than that to
// the one before, so that no two come at the same time.
func (w *windows) takes() time.Duration {
	return w.latency + time.Duration(w.asked*7919%101)*w.latency/1000
}

// decide is the answer to a request that comes now.
func (w *windows) decide(now time.Time, r *http.Request) *http.Response {
	if !now.Before(w.ends) {
		w.ends = now.Truncate(w.window).Add(w.window)
		if w.fromFirst {
			w.ends = now.Add(w.window)
		}
		w.used = map[string]int{}
	}
	w.asked++
	token, head, status := r.Header.Get("Authorization"), http.Header{}, http.StatusOK
	if w.used[token] >= w.limit {
		status = http.StatusTooManyRequests
		w.refused++
		head.Set("Retry-After", strconv.Itoa(int(math.Ceil(w.ends.Sub(now).Seconds()))))
	} else {
		w.used[token]++
	}
	if w.announces {
		head.Set("X-Ratelimit-Limit", strconv.Itoa(w.limit))
		head.Set("X-Ratelimit-Remaining", strconv.Itoa(w.limit-w.used[token]))
		head.Set("X-Ratelimit-Reset", strconv.Itoa(int(math.Ceil(w.ends.Sub(now).Seconds()))))
	}
	return &http.Response{StatusCode: status, Header: head, Body: http.NoBody, Request: r}
}

// in answers in virtual time.
func (w *windows) in(v *clock.Virtual) Answering {
	return func(r *http.Request, answer func(*http.Response, error)) {
		resp := w.decide(v.Now(), r)
		v.AfterFunc(w.takes(), func() { answer(resp, nil) })
	}
}

// crawl has clients send requests one after the other, and returns when all were answered.
func crawl(t testing.TB, v *clock.Virtual, d *Dispatcher, site Answering, clients, requests int) (answered int) {
	t.Helper()
	left := requests
	var next func(client string)
	next = func(client string) {
		if left == 0 {
			return
		}
		left--
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://api.test/items?page="+strconv.Itoa(left), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.NewRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		x.Address = client
		d.Start(context.Background(), x, site, func(resp *http.Response, err error) {
			d.End(x, 0)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", resp, err)
			}
			answered++
			next(client)
		})
	}
	for i := range clients {
		next("192.0.2." + strconv.Itoa(i))
	}
	for v.Step() {
	}
	return answered
}

const fourTokens = `
queue: {wait: 24h}
pools:
  api: {tokens: [{label: a, secret: aaaa}, {label: b, secret: bbbb}, {label: c, secret: cccc}, {label: d, secret: dddd}]}
sites:
  - {host: api.test, pool: api}
`

func TestAMillionRequestsTakeNoGoroutineAndVirtualTimeOnly(t *testing.T) {
	requests := 1_000_000
	if Raced {
		requests = 30_000
	}
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	v := clock.NewVirtual(start)
	d := virtual(t, v, fourTokens)
	site := &windows{limit: 900, window: 15 * time.Minute, latency: 300 * time.Millisecond, announces: true}
	before, began := runtime.NumGoroutine(), time.Now()
	most := 0
	answering := site.in(v)
	watching := func(r *http.Request, answer func(*http.Response, error)) {
		most = max(most, runtime.NumGoroutine())
		answering(r, answer)
	}
	answered := crawl(t, v, d, watching, 20, requests)
	t.Logf("%d requests in %v, which are %v of virtual time; refused: %d", answered, time.Since(began), v.Now().Sub(start), site.refused)
	if answered != requests {
		t.Errorf("answered: %d of %d", answered, requests)
	}
	if most > before {
		t.Errorf("goroutines: %d, and %d before", most, before)
	}
	perWindow := 4 * site.limit
	ideal := time.Duration(requests/perWindow) * site.window
	if took := v.Now().Sub(start); took < ideal || took > ideal+ideal/50+site.window {
		t.Errorf("it took %v of virtual time, where %v is ideal", took, ideal)
	}
	if site.refused > requests/1000 {
		t.Errorf("refused: %d", site.refused)
	}
}
