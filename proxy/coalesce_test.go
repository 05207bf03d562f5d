package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const coalesced = "sites:\n  - {host: site.test, coalesce: on}\n"

// answerAfterSecond answers after a second.
func answerAfterSecond(rw http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Second)
	echoing(rw, r)
}

// requestTogether sends n requests at once and returns all results.
func (w *bubbleProxy) requestTogether(n int, get func(i int, c *http.Client) clientResult) []clientResult {
	all := make([]clientResult, n)
	var running sync.WaitGroup
	for i := range n {
		c := w.client()
		running.Go(func() { all[i] = get(i, c) })
	}
	running.Wait()
	return all
}

func TestCoalesceIdenticalRequestsAreOneUpstream(t *testing.T) {
	bubble(t, answerAfterSecond, coalesced, func(w *bubbleProxy) {
		for i, a := range w.requestTogether(100, func(_ int, c *http.Client) clientResult { return w.get(c, "http://site.test/a?b=c", "Cookie", "me=1") }) {
			if a.status != 200 || a.body != "GET /a " || a.at != time.Second {
				t.Errorf("%d: %d %q after %v", i, a.status, a.body, a.at)
			}
			if a.header.Get("Abide-Attempts") != "1" || a.header.Get("Abide-Site") != "site.test" || a.header.Get("Abide-Wait") != "0" {
				t.Errorf("%v", a.header)
			}
		}
		if n := w.asked.Load(); n != 1 {
			t.Errorf("the site was asked %d times", n)
		}
		synctest.Wait()
		for _, c := range w.server.metrics.Sites() {
			if c.Name == "site.test" && c.Requests != 100 {
				t.Errorf("%d requests were counted", c.Requests)
			}
		}
		// Nothing is kept afterwards.
		w.get(w.client(), "http://site.test/a?b=c", "Cookie", "me=1")
		if n := w.asked.Load(); n != 2 {
			t.Errorf("the site was asked %d times, with one more after all had their answer", n)
		}
	})
}

func TestCoalesceNothingThatDiffersIsShared(t *testing.T) {
	requests := [][]string{
		{"GET", "/"},
		{"GET", "/other"},
		{"GET", "/?"},
		{"GET", "/?a"},
		{"HEAD", "/"},
		{"GET", "/", "Cookie", "a=1"},
		{"GET", "/", "Cookie", "a=2"},
		{"GET", "/", "Authorization", "Basic a"},
		{"GET", "/", "Authorization", "Basic b"},
		{"GET", "/", "Accept-Language", "de"},
		{"GET", "/", "If-None-Match", "x"},
		{"GET", "/", "Abide-Retry", "none"},
	}
	bubble(t, answerAfterSecond, coalesced, func(w *bubbleProxy) {
		w.requestTogether(2*len(requests), func(i int, c *http.Client) clientResult {
			r := requests[i/2]
			return w.do(w.t.Context(), c, r[0], "http://site.test"+r[1], nil, r[2:]...)
		})
		if n := w.asked.Load(); n != int64(len(requests)) {
			t.Errorf("%d different requests, each twice, were %d", len(requests), n)
		}
	})
}

func TestCoalesceLeavesEverythingElseAlone(t *testing.T) {
	requests := [][]string{
		{"POST", "/"},
		{"OPTIONS", "/"},
		{"DELETE", "/"},
		{"GET", "/", "Range", "bytes=0-1"},
		{"GET", "/", "If-Range", "x"},
	}
	bubble(t, answerAfterSecond, coalesced+"  - {host: plain.test, limits: [{requests: 1000, per: 1s}]}\n", func(w *bubbleProxy) {
		w.requestTogether(2*len(requests), func(i int, c *http.Client) clientResult {
			r := requests[i/2]
			return w.do(w.t.Context(), c, r[0], "http://site.test"+r[1], nil, r[2:]...)
		})
		w.requestTogether(2, func(_ int, c *http.Client) clientResult {
			return w.do(w.t.Context(), c, "GET", "http://site.test/", strings.NewReader("body"))
		})
		w.requestTogether(2, func(_ int, c *http.Client) clientResult { return w.get(c, "http://plain.test/") })
		if n, want := w.asked.Load(), int64(2*len(requests)+4); n != want {
			t.Errorf("%d requests of %d", n, want)
		}
	})
	bubble(t, answerAfterSecond, "mode: observe\n"+coalesced, func(w *bubbleProxy) {
		w.requestTogether(2, func(_ int, c *http.Client) clientResult { return w.get(c, "http://site.test/") })
		if n := w.asked.Load(); n != 2 {
			t.Errorf("%d requests were sent of 2 that are observed", n)
		}
	})
}

func TestCoalesceTheFirstLeavesAndOthersHaveItAll(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		io.WriteString(rw, "half ")
		rw.(http.Flusher).Flush()
		time.Sleep(time.Second)
		io.WriteString(rw, "whole")
	}
	for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		bubble(t, sites, coalesced, func(w *bubbleProxy) {
			ctx, leave := context.WithTimeout(w.t.Context(), after)
			defer leave()
			var all sync.WaitGroup
			first := w.client()
			all.Go(func() {
				r, _ := http.NewRequestWithContext(ctx, "GET", "http://site.test/", nil)
				if resp, err := first.Do(r); err == nil {
					io.ReadAll(resp.Body)
					resp.Body.Close()
				}
			})
			synctest.Wait()
			for _, a := range w.requestTogether(3, func(_ int, c *http.Client) clientResult { return w.get(c, "http://site.test/") }) {
				if a.body != "half whole" || a.at != 2*time.Second {
					t.Errorf("%q after %v", a.body, a.at)
				}
			}
			all.Wait()
			if n := w.asked.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestCoalesceWithoutAnybodyLeftNothingIsSent(t *testing.T) {
	bubble(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		ctx, leave := context.WithCancel(w.t.Context())
		var all sync.WaitGroup
		for range 10 {
			c := w.client()
			all.Go(func() { w.do(ctx, c, "GET", "http://site.test/held", nil) })
		}
		synctest.Wait()
		if n := len(w.server.Holds("site.test", 1000)); n != 1 {
			t.Fatalf("%d holds for ten identical requests", n)
		}
		leave()
		all.Wait()
		time.Sleep(time.Second) // the proxy grants a half-closed connection that long
		synctest.Wait()
		if n := len(w.server.Holds("site.test", 1000)); n != 0 {
			t.Errorf("%d holds after all have left", n)
		}
		a := w.get(w.client(), "http://site.test/second")
		if a.status != 200 || a.at > 10*time.Minute+time.Second || w.asked.Load() != 2 {
			t.Errorf("%d after %v and %d requests", a.status, a.at, w.asked.Load())
		}
	})
}

func TestCoalesceAnAnswerWithACookieIsForTheFirstAlone(t *testing.T) {
	for _, header := range [][2]string{{"Set-Cookie", "session=%d"}, {"Vary", "%d, *"}} {
		var n atomic.Int64
		sites := func(rw http.ResponseWriter, _ *http.Request) {
			is := n.Add(1)
			time.Sleep(time.Second)
			rw.Header().Set(header[0], fmt.Sprintf(header[1], is))
			fmt.Fprint(rw, is)
		}
		bubble(t, sites, coalesced, func(w *bubbleProxy) {
			seen := map[string]bool{}
			for _, a := range w.requestTogether(10, func(_ int, c *http.Client) clientResult { return w.get(c, "http://site.test/") }) {
				if a.status != 200 || seen[a.body] || a.at > 5*time.Second || a.header.Get(header[0]) != fmt.Sprintf(header[1], int(a.body[0]-'0')) && a.body != "10" {
					t.Errorf("%d %q after %v, %q", a.status, a.body, a.at, a.header.Get(header[0]))
				}
				seen[a.body] = true
			}
			if n := w.asked.Load(); n != 10 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestCoalesceARefusalIsRepeatedForAll(t *testing.T) {
	var n atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			rw.Header().Set("Retry-After", "60")
			rw.WriteHeader(429)
			return
		}
		echoing(rw, r)
	}
	bubble(t, sites, coalesced, func(w *bubbleProxy) {
		late := make(chan clientResult, 1)
		c := w.client()
		go func() {
			time.Sleep(20 * time.Second)
			late <- w.get(c, "http://site.test/")
		}()
		for _, a := range w.requestTogether(20, func(_ int, c *http.Client) clientResult { return w.get(c, "http://site.test/") }) {
			if a.status != 200 || a.header.Get("Abide-Attempts") != "2" || a.header.Get("Abide-Wait") != "60.000" {
				t.Errorf("%d, %v", a.status, a.header)
			}
		}
		if a := <-late; a.status != 200 || a.header.Get("Abide-Wait") != "40.000" {
			t.Errorf("one that came later: %d, %v", a.status, a.header)
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceEachHasItsOwnPatience(t *testing.T) {
	bubble(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		patient := make(chan clientResult, 1)
		c := w.client()
		go func() { patient <- w.get(c, "http://site.test/held") }()
		synctest.Wait()
		a := w.get(w.client(), "http://site.test/held", "Abide-Max-Wait", "90s")
		if a.status != 429 || a.at > 90*time.Second+time.Millisecond || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "urn:abide:wait") || !strings.Contains(a.body, "1 request") {
			t.Errorf("%d after %v: %s %v", a.status, a.at, a.body, a.header)
		}
		if a := <-patient; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceARefusalOfTheImpatientIsNotThatOfThePatient(t *testing.T) {
	var block chan struct{}
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			<-block
		}
		echoing(rw, r)
	}
	bubble(t, sites, "sites:\n  - {host: site.test, coalesce: on, limits: [{concurrency: 1}]}\n", func(w *bubbleProxy) {
		block = make(chan struct{})
		answers := make(chan clientResult, 2)
		first, impatient := w.client(), w.client()
		go w.get(first, "http://site.test/first")
		synctest.Wait()
		go func() { answers <- w.get(impatient, "http://site.test/held", "Abide-Max-Wait", "5s") }()
		synctest.Wait()
		patient := w.client()
		go func() { answers <- w.get(patient, "http://site.test/held") }()
		if a := <-answers; a.status != 429 || a.at != 5*time.Second {
			t.Errorf("%d after %v", a.status, a.at)
		}
		time.Sleep(time.Minute)
		close(block)
		if a := <-answers; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}
