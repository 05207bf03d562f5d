package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const coalesced = "sites:\n  - {host: site.test, coalesce: on}\n"

// getTogether sends n requests at once and returns all results.
func (w *bubbleProxy) getTogether(n int) []clientResult {
	all := make([]clientResult, n)
	var running sync.WaitGroup
	for i := range n {
		c := w.client()
		running.Go(func() { all[i] = w.get(c, "http://site.test/") })
	}
	running.Wait()
	return all
}

// patternBody is a body in which no two regions are equal.
func patternBody(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	return b
}

func TestCoalesceALargeBodyReachesEachByARequestOfItsOwn(t *testing.T) {
	for _, announced := range []bool{true, false} {
		for size, asked := range map[int]int64{1 << 20: 1, 1<<20 + 1: 8, 4 << 20: 8} {
			whole := patternBody(size)
			sites := func(rw http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second)
				if announced {
					rw.Header().Set("Content-Length", strconv.Itoa(size))
				}
				rw.Write(whole)
			}
			bubble(t, sites, coalesced, func(w *bubbleProxy) {
				for _, a := range w.getTogether(8) {
					if a.body != string(whole) || a.at > 5*time.Second {
						t.Errorf("announced %v: %d bytes of %d after %v", announced, len(a.body), size, a.at)
					}
				}
				if n := w.asked.Load(); n != asked {
					t.Errorf("announced %v: %d requests for %d bytes", announced, n, size)
				}
			})
		}
	}
}

// start sends a request and returns when the head of the response has come.
func (w *bubbleProxy) start(ctx context.Context, c *http.Client, u string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	must(w.t, err)
	resp, err := c.Do(r)
	must(w.t, err)
	return resp
}

func TestCoalesceASlowReaderHoldsNobodyUp(t *testing.T) {
	whole := patternBody(8 << 20)
	var sent atomic.Int64
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		for part := whole; len(part) > 0; part = part[64<<10:] {
			if _, err := rw.Write(part[:64<<10]); err != nil {
				return
			}
			sent.Add(64 << 10)
		}
	}
	bubble(t, sites, coalesced, func(w *bubbleProxy) {
		resp := w.start(w.t.Context(), w.client(), "http://site.test/")
		synctest.Wait()
		if n := sent.Load(); n > 3<<20 {
			t.Errorf("%d bytes were taken from the site for one who reads nothing", n)
		}
		if a := w.get(w.client(), "http://site.test/"); a.body != string(whole) || a.at > 3*time.Second {
			t.Errorf("the other had %d bytes after %v", len(a.body), a.at)
		}
		resp.Body.Close()
	})
}

func TestCoalesceASlowReaderThatMovesIsWaitedFor(t *testing.T) {
	whole := patternBody(3 << 20)
	bubble(t, func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		rw.Write(whole)
	}, coalesced, func(w *bubbleProxy) {
		slow := make(chan *http.Response, 1)
		c := w.client()
		go func() { slow <- w.start(w.t.Context(), c, "http://site.test/") }()
		quick := make(chan clientResult, 1)
		other := w.client()
		go func() { quick <- w.get(other, "http://site.test/") }()
		resp := <-slow
		defer resp.Body.Close()
		var all bytes.Buffer
		for {
			time.Sleep(10 * time.Second)
			if _, err := io.CopyN(&all, resp.Body, 128<<10); err != nil {
				break
			}
		}
		if !bytes.Equal(all.Bytes(), whole) {
			t.Errorf("%d bytes", all.Len())
		}
		if a := <-quick; a.body != string(whole) {
			t.Errorf("%d bytes", len(a.body))
		}
	})
}

func TestCoalesceWhoComesLaterHasTheBeginningOrARequestOfItsOwn(t *testing.T) {
	for _, one := range []struct {
		after time.Duration
		begun int // bytes that come first
		asked int64
	}{
		{time.Second, 1000, 1},
		{6 * time.Second, 1000, 2}, // too old
		{time.Second, 2 << 20, 2},  // its begin is no longer kept
	} {
		whole := patternBody(one.begun + 1000)
		bubble(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Write(whole[:one.begun])
			rw.(http.Flusher).Flush()
			time.Sleep(10 * time.Second)
			rw.Write(whole[one.begun:])
		}, coalesced, func(w *bubbleProxy) {
			var first clientResult
			var all sync.WaitGroup
			c := w.client()
			all.Go(func() { first = w.get(c, "http://site.test/") })
			time.Sleep(one.after)
			later := w.get(w.client(), "http://site.test/")
			all.Wait()
			if first.body != string(whole) || later.body != string(whole) || w.asked.Load() != one.asked {
				t.Errorf("%+v: %d and %d bytes, %d requests", one, len(first.body), len(later.body), w.asked.Load())
			}
		})
	}
}

func TestCoalesceABrokenBodyIsBrokenForAll(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		bubble(t, func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			if !chunked {
				rw.Header().Set("Content-Length", "1000")
			}
			io.WriteString(rw, "part")
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
			panic(http.ErrAbortHandler)
		}, coalesced, func(w *bubbleProxy) {
			var all sync.WaitGroup
			for range 5 {
				c := w.client()
				all.Go(func() {
					resp := w.start(w.t.Context(), c, "http://site.test/")
					defer resp.Body.Close()
					if text, err := io.ReadAll(resp.Body); err == nil || string(text) != "part" {
						t.Errorf("%q, %v", text, err)
					}
				})
			}
			all.Wait()
			if n := w.asked.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestCoalesceHeadsTrailersAndEmptyAnswers(t *testing.T) {
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(103)
		time.Sleep(time.Second)
		switch r.URL.Path {
		case "/empty":
			rw.WriteHeader(204)
		case "/trailer":
			rw.Header().Set("Trailer", "Known")
			io.WriteString(rw, "text")
			rw.Header().Set("Known", "1")
			rw.Header().Set(http.TrailerPrefix+"Unknown", "2")
		default:
			rw.Header().Set("Content-Length", "12345")
		}
	}, coalesced, func(w *bubbleProxy) {
		var all sync.WaitGroup
		for range 3 {
			c := w.client()
			all.Go(func() {
				resp, err := c.Head("http://site.test/")
				if err != nil || resp.ContentLength != 12345 || resp.Header.Get("Abide-Attempts") != "1" {
					t.Errorf("%v, %v", resp, err)
				}
				resp, err = c.Get("http://site.test/empty")
				if err != nil || resp.StatusCode != 204 {
					t.Errorf("%v, %v", resp, err)
				}
				resp, err = c.Get("http://site.test/trailer")
				must(t, err)
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "text" || resp.Trailer.Get("Known") != "1" || resp.Trailer.Get("Unknown") != "2" {
					t.Errorf("%q, %v, %v", text, resp.Trailer, err)
				}
				resp.Body.Close()
			})
		}
		all.Wait()
		if n := w.asked.Load(); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceAStopAnswersAllThatIsHeld(t *testing.T) {
	bubble(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		var all sync.WaitGroup
		for range 5 {
			c := w.client()
			all.Go(func() {
				if a := w.get(c, "http://site.test/held"); a.status != 503 {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
		synctest.Wait()
		w.stop()
		all.Wait()
		if n := w.asked.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceAStopCutsWhatDoesNotEnd(t *testing.T) {
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, "part")
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}, coalesced, func(w *bubbleProxy) {
		resp := w.start(w.t.Context(), w.client(), "http://site.test/")
		defer resp.Body.Close()
		w.stop()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a body that was cut looks whole")
		}
	})
}

func TestCoalesceBytesOfTheSiteAreCountedOnce(t *testing.T) {
	const n = 20
	b := newTestProxy(t, "sites: [{host: "+host+", coalesce: on}]")
	release := make(chan struct{})
	b.handle(func(rw http.ResponseWriter, _ *http.Request) {
		<-release
		rw.Write(patternBody(300 << 10))
	})
	for _, h2 := range []bool{false, true} {
		served := b.served.Load()
		var all sync.WaitGroup
		for range n {
			c := b.client(h2)
			all.Go(func() {
				resp, err := c.Get("https://" + host + "/")
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) != 300<<10 {
					t.Errorf("%d bytes, %v", len(text), err)
				}
			})
		}
		eventually(t, 10*time.Second, "all are together", func() bool { return b.server.Sizes()["shared requests"] == n })
		release <- struct{}{}
		all.Wait()
		if got := b.served.Load() - served; got != 1 {
			t.Errorf("%d requests", got)
		}
	}
	for _, c := range b.metrics.Sites() {
		if c.Name == host && (c.In < 600<<10 || c.In > 700<<10) {
			t.Errorf("%d bytes were counted", c.In)
		}
	}
	if n := b.server.Sizes()["shared requests"]; n != 0 {
		t.Errorf("%d members stay after the end", n)
	}
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
			for _, a := range w.getTogether(3) {
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
