package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReloadsUnderLoadLeaveNothingBehind(t *testing.T) {
	var n atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		discard(r.Body)
		time.Sleep(time.Duration(n.Load()%50) * 10 * time.Millisecond)
		switch n.Add(1) % 6 {
		case 0:
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(429)
		case 1:
			rw.WriteHeader(503)
		case 2:
			panic(http.ErrAbortHandler)
		}
	}
	yamls := []string{
		"sites:\n  - {host: site.test, backends: [http://a.test, http://b.test], limits: [{concurrency: 3}, {requests: 20, per: 5s}]}\n",
		"sites:\n  - {host: site.test, backends: [http://c.test], balance: least-loaded, limits: [{concurrency: 3, by: client}, {path: /1, requests: 20, per: 5s}]}\n",
		"sites:\n  - {host: site.test, limits: [{requests: 20, per: 3s, as: bucket, burst: 3}]}\n",
		"sites: []\n",
		"sites:\n  - {host: site.test, backends: [http://a.test, http://b.test, http://c.test], balance: round-robin, limits: [{cost: 30, per: 3s}]}\n",
	}
	bubble(t, sites, yamls[0], func(w *bubbleProxy) {
		var running, good atomic.Int64
		const crowd = 100
		for i := range crowd {
			running.Add(1)
			go func() {
				defer running.Add(-1)
				time.Sleep(time.Duration(i) * 141 * time.Millisecond)
				if w.requestNumbered(i, fmt.Sprintf("http://site.test/%d", i%4), time.Duration(1+i%4)*20*time.Second) == 200 {
					good.Add(1)
				}
			}()
		}
		for i := range 30 {
			time.Sleep(time.Second / 2)
			w.reload(yamls[i%len(yamls)])
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if running.Load() != 0 || good.Load() < crowd/4 {
			t.Errorf("%d still wait, %d were answered", running.Load(), good.Load())
		}
		w.idle("site.test")
	})
}

func discard(r io.Reader) { io.Copy(io.Discard, r) }

// requestNumbered sends a request whose body depends on its number. The client leaves after
// patience. It returns the status, 0 without a response.
func (w *bubbleProxy) requestNumbered(i int, url string, patience time.Duration) int {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var body io.Reader
	if size := []int{0, 10, 40 << 10, 64 << 10, 64<<10 + 1, 300 << 10}[i%6]; size > 0 {
		body = strings.NewReader(strings.Repeat("x", size))
		if i%4 < 2 {
			body = unsized{body}
		}
	}
	r, err := http.NewRequestWithContext(ctx, []string{"PUT", "POST"}[i%2], url, body)
	must(w.t, err)
	if i%3 == 0 {
		r.Header.Set("Expect", "100-continue")
	}
	resp, err := w.client().Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	discard(resp.Body)
	return resp.StatusCode
}

func TestClientsThatLeaveAtAnyTimeLeaveNothingBehind(t *testing.T) {
	var n atomic.Int64
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			io.WriteString(rw, "x")
			return
		}
		discard(r.Body)
		switch n.Add(1) % 5 {
		case 0:
			time.Sleep(3 * time.Second)
		case 1:
			rw.Header().Set("Retry-After", "2")
			rw.WriteHeader(429)
		case 2:
			rw.WriteHeader(503)
		case 3:
			panic(http.ErrAbortHandler)
		}
		io.WriteString(rw, "x")
	}
	bubble(t, sites, "retry: {body: 64KiB, memory: 1MiB, base: 100ms}\nsites:\n  - {host: site.test, backends: [http://a.test, http://b.test], limits: [{concurrency: 3}, {requests: 20, per: 5s}]}\n", func(w *bubbleProxy) {
		var running atomic.Int64
		for i := range 300 {
			running.Add(1)
			go func() {
				defer running.Add(-1)
				time.Sleep(time.Duration(i) * 14 * time.Millisecond)
				path := "/"
				if i%7 == 0 {
					path = "/early"
				}
				w.requestNumbered(i, "http://site.test"+path, time.Duration(i*i%9000)*time.Millisecond)
			}()
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if running.Load() != 0 {
			t.Errorf("%d clients still wait", running.Load())
		}
		w.idle("site.test")
	})
}

func TestWhatIsInFlightAtABackendIsCountedBackHoweverItEnds(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/slow":
			time.Sleep(time.Minute)
		case "/cut":
			rw.Header().Set("Content-Length", "100")
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/refused":
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(429)
		}
	}
	bubble(t, sites, "retry: {refusals: 3}\nsites:\n  - {host: site.test, backends: [http://a.test, http://b.test], limits: [{concurrency: 2}]}\n", func(w *bubbleProxy) {
		for _, path := range []string{"/panic", "/slow", "/refused", "/cut"} {
			for range 5 {
				go w.requestNumbered(0, "http://site.test"+path, 10*time.Second)
			}
			time.Sleep(5 * time.Minute)
			w.idle("site.test")
		}
		if a := w.get(w.client(), "http://site.test/"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestAFaultOfOursGivesEverythingBack(t *testing.T) {
	bubble(t, echoing, "breaker: {failures: 2, pause: 30s}\nsites:\n  - {host: site.test, backends: [http://a.test, http://b.test], limits: [{concurrency: 1}]}\n", func(w *bubbleProxy) {
		w.fault.Store(true)
		for range 4 {
			c, answer := w.dialAndWrite(oneChunk + "0\r\n\r\n")
			if status, body := nextResponse(t, answer); status != 500 {
				t.Errorf("%d %s", status, body)
			}
			c.Close()
			w.idle("site.test")
		}
		w.fault.Store(false)
		if a := w.get(w.client(), "http://site.test/"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestAFaultOfOursInAProbeLeavesRoomForAnother(t *testing.T) {
	down := true
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		if down {
			rw.WriteHeader(502)
		}
	}
	bubble(t, sites, "retry: {attempts: 0}\nbreaker: {failures: 1, pause: 30s}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/")
		down = false
		w.fault.Store(true)
		time.Sleep(31 * time.Second)
		if a := w.get(w.client(), "http://site.test/"); a.status != 500 {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.fault.Store(false)
		began := time.Since(w.began)
		if a := w.get(w.client(), "http://site.test/"); a.status != 200 || a.at-began > time.Second || len(w.server.Breakers()) != 0 {
			t.Errorf("%d after %v, %+v", a.status, a.at-began, w.server.Breakers())
		}
	})
}
