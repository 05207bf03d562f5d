package proxy

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// simAnswer is a response without a connection.
type simAnswer struct {
	header http.Header
	status int
	body   []byte
}

func (a *simAnswer) Header() http.Header    { return a.header }
func (a *simAnswer) WriteHeader(status int) { a.status = status }

func (a *simAnswer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// simAsk sends a request to a site without abide.
func simAsk(o *simOrigin, secret, path string) (int, http.Header, string) {
	a := &simAnswer{header: http.Header{}}
	o.serve(a, &http.Request{Method: "GET", URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {"Bearer " + secret}}})
	return a.status, a.header, string(a.body)
}

// TestASimulatedOriginEnforcesWhatItAnnounces reads every answer as abide does, and
// compares it with what the origin counts.
func TestASimulatedOriginEnforcesWhatItAnnounces(t *testing.T) {
	for _, s := range simServices() {
		for _, skew := range []time.Duration{-30 * time.Second, 30 * time.Second} {
			t.Run(s.name+" "+skew.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newSimOrigin(s, 1, 50*time.Millisecond, skew)
					o.begin()
					for i := range s.paths {
						refused := false
						for n := 0; !refused && n < 2000; n++ {
							if refused = simCheck(t, o, o.page(i, n)); t.Failed() {
								return
							}
						}
						if !refused {
							t.Fatalf("%s is never refused", s.paths[i])
						}
						for _, m := range o.of(s.bucket(s.paths[i]), o.secrets[0]) {
							time.Sleep(m.refill(time.Now().Add(o.skew)).Sub(time.Now().Add(o.skew)))
						}
						if simCheck(t, o, o.page(i, 0)) {
							t.Fatal("refused when it said that it is whole")
						}
					}
				})
			})
		}
	}
}

// simCheck sends one request, and tells whether it was refused.
func simCheck(t *testing.T, o *simOrigin, path string) bool {
	t.Helper()
	meters := o.of(o.bucket(path), o.secrets[0])
	before := simSums(meters)
	status, headers, body := simAsk(o, o.secrets[0], path)
	now := time.Now()
	served := simSums(meters) > before
	if served != (status == 200) {
		t.Fatalf("%s: %d, served: %v", path, status, served)
	}
	l := learn.Read(status, headers, []byte(body), learn.Request{Method: "GET", Host: o.host, Path: path}, now)
	if l.Throttled == served {
		t.Fatalf("%s: %d %v: %+v", path, status, headers, l)
	}
	if len(l.Limits) != len(meters) {
		t.Fatalf("%s: %v: %+v", path, headers, l.Limits)
	}
	found := 0
	for i, m := range meters {
		limit, ok := 0.0, false
		switch m := m.(type) {
		case *simWindow:
			limit = m.limit
		case *simBucket:
			limit = m.size
		}
		for _, said := range l.Limits {
			if said.Limit.Known && said.Limit.N != limit {
				continue
			}
			ok = said.Remaining.Known && said.Remaining.N == math.Floor(o.left[i]+roundingError)
			if ok && !said.Reset.IsZero() {
				// A truncated time is as much early as its resolution; the clocks are
				// compared through a Date in whole seconds, and answers need time.
				early, late := said.Resolution+time.Second, 2*time.Second
				if d := said.Reset.Sub(o.whole[i]); d < -early || d > late {
					t.Fatalf("%s: %v: reset %v, is %v", path, headers, said.Reset, o.whole[i])
				}
			}
			if ok {
				found++
				break
			}
		}
		if !ok {
			t.Fatalf("%s: %v: %v left of %v: %+v", path, headers, o.left[i], limit, l.Limits)
		}
	}
	return !served
}

func simSums(all []simMeter) (n float64) {
	for _, m := range all {
		n += m.sum()
	}
	return n
}

func TestASimulatedOriginKnowsItsOwnCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSimOrigin(simX(), 2, 50*time.Millisecond, 0)
		for secret, want := range map[string]int{"": 401, "other": 401, o.secrets[0]: 200, o.secrets[1]: 200} {
			if status, _, _ := simAsk(o, secret, "/2/tweets/1/retweeted_by"); status != want {
				t.Errorf("%q: %d", secret, status)
			}
		}
		if o.count != (simCount{served: 2, rejected: 2}) {
			t.Errorf("%+v", o.count)
		}
	})
}

func TestASimulatedGitHubMindsHowManyAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSimOrigin(simGitHub(300, 10), 1, time.Second, 0)
		var refused string
		done := make(chan string)
		for range 101 {
			go func() {
				status, h, body := simAsk(o, o.secrets[0], "/users/gopher/repos")
				if status == 403 && h.Get("Retry-After") == "60" {
					done <- body
					return
				}
				done <- ""
			}()
		}
		n := 0
		for range 101 {
			if body := <-done; body != "" {
				refused, n = body, n+1
			}
		}
		if n != 1 || !strings.Contains(refused, "secondary rate limit") {
			t.Errorf("%d %s", n, refused)
		}
	})
}
