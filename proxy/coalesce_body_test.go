package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ready is a body in which every byte has its place.
func ready(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	return b
}

func TestCoalesceALargeBodyReachesAll(t *testing.T) {
	whole := ready(16 << 20)
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		rw.Write(whole)
	}
	bubble(t, sites, coalesced, func(w *world) {
		for _, a := range w.together(8, func(_ int, c *http.Client) got { return w.get(c, "http://site.test/") }) {
			if a.body != string(whole) {
				t.Errorf("%d bytes", len(a.body))
			}
		}
		if n := w.asked.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// start asks and returns with the head.
func (w *world) start(ctx context.Context, c *http.Client, u string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	must(w.t, err)
	resp, err := c.Do(r)
	must(w.t, err)
	return resp
}

func TestCoalesceASlowReaderHoldsOthersUpAndIsCutWhenItStandsStill(t *testing.T) {
	whole := ready(4 << 20)
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
	bubble(t, sites, coalesced, func(w *world) {
		slow := make(chan *http.Response, 1)
		c := w.client()
		go func() { slow <- w.start(w.t.Context(), c, "http://site.test/") }()
		quick := make(chan got, 1)
		other := w.client()
		go func() { quick <- w.get(other, "http://site.test/") }()
		resp := <-slow
		synctest.Wait()
		if n := sent.Load(); n > 3<<19 {
			t.Errorf("%d bytes were taken from the site for one who reads nothing", n)
		}
		select {
		case a := <-quick:
			t.Errorf("the other had all of %d bytes meanwhile", len(a.body))
		default:
		}
		a := <-quick
		if stall := w.server.policy().Timeouts.Stall; a.body != string(whole) || a.at < stall || a.at > stall+2*time.Second {
			t.Errorf("%d bytes after %v, with a stall of %v", len(a.body), a.at, stall)
		}
		if got, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the slow one has %d bytes and no error", len(got))
		}
		resp.Body.Close()
	})
}

func TestCoalesceASlowReaderThatMovesIsWaitedFor(t *testing.T) {
	whole := ready(3 << 20)
	bubble(t, func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		rw.Write(whole)
	}, coalesced, func(w *world) {
		slow := make(chan *http.Response, 1)
		c := w.client()
		go func() { slow <- w.start(w.t.Context(), c, "http://site.test/") }()
		quick := make(chan got, 1)
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
		{freshFor + time.Second, 1000, 2}, // too old
		{time.Second, 2 << 20, 2},         // its beginning is gone
	} {
		whole := ready(one.begun + 1000)
		bubble(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Write(whole[:one.begun])
			rw.(http.Flusher).Flush()
			time.Sleep(10 * time.Second)
			rw.Write(whole[one.begun:])
		}, coalesced, func(w *world) {
			var first got
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
		}, coalesced, func(w *world) {
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
	}, coalesced, func(w *world) {
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
	bubble(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w *world) {
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
	}, coalesced, func(w *world) {
		resp := w.start(w.t.Context(), w.client(), "http://site.test/")
		defer resp.Body.Close()
		w.stop()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a body that was cut looks whole")
		}
	})
}

func TestCoalesceAReloadBeginsNewFlights(t *testing.T) {
	const plain = coalesced + "defaults: {learn: false}\n" // the second of a route need not wait for the first
	bubble(t, slowly, plain, func(w *world) {
		answers := make(chan got, 3)
		get := func(c *http.Client) { answers <- w.get(c, "http://site.test/") }
		go get(w.client())
		synctest.Wait()
		must(t, w.server.Reload(w.policy(plain+"log: {level: debug}\n")))
		go get(w.client())
		synctest.Wait()
		must(t, w.server.Reload(w.policy(plain)))
		w.server.state.Load().upstream.Dial = func(context.Context, string, uint16) (net.Conn, error) { return nil, net.ErrClosed }
		for range 2 {
			if a := <-answers; a.status != 200 || a.at != time.Second {
				t.Errorf("%d after %v", a.status, a.at)
			}
		}
		if n := w.asked.Load(); n != 2 {
			t.Errorf("%d requests, one by each configuration", n)
		}
	})
}

func TestCoalesceAnotherClientDoesNotWaitForWhatOneHasUsedUp(t *testing.T) {
	bubble(t, slowly, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m, by: client}]}\n", func(w *world) {
		w.get(w.client(), "http://site.test/first", "Abide-Client", "greedy")
		held := make(chan got, 1)
		c := w.client()
		go func() { held <- w.get(c, "http://site.test/held", "Abide-Client", "greedy") }()
		synctest.Wait()
		answers := w.together(3, func(_ int, c *http.Client) got {
			return w.get(c, "http://site.test/held", "Abide-Client", "other")
		})
		for _, a := range answers {
			if a.status != 200 || a.at != 2*time.Second {
				t.Errorf("%d after %v", a.status, a.at)
			}
		}
		if a := <-held; a.status != 200 || w.asked.Load() != 3 {
			t.Errorf("%d, %d requests", a.status, w.asked.Load())
		}
	})
}

func TestCoalesceAnyClientJoinsWhatIsOnItsWay(t *testing.T) {
	bubble(t, slowly, coalesced, func(w *world) {
		first := make(chan got, 1)
		c := w.client()
		go func() { first <- w.get(c, "http://site.test/", "Abide-Client", "one") }()
		synctest.Wait()
		a, b := w.get(w.client(), "http://site.test/", "Abide-Client", "two"), <-first
		if a.status != 200 || b.status != 200 || w.asked.Load() != 1 {
			t.Errorf("%d, %d, %d requests", a.status, b.status, w.asked.Load())
		}
	})
}

func TestCoalesceBytesOfTheSiteAreCountedOnce(t *testing.T) {
	const n = 20
	b := newBed(t, "sites: [{host: "+host+", coalesce: on}]")
	release := make(chan struct{})
	b.handle(func(rw http.ResponseWriter, _ *http.Request) {
		<-release
		rw.Write(ready(300 << 10))
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
		eventually(t, 10*time.Second, "all are together", func() bool {
			members := 0
			seen := map[*flight]bool{}
			b.server.flights.open.Range(func(_, at any) bool {
				f := at.(*flight)
				f.mu.Lock()
				defer f.mu.Unlock()
				if !seen[f] {
					seen[f], members = true, members+len(f.members)
				}
				return true
			})
			return members == n
		})
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
	b.server.flights.open.Range(func(_, _ any) bool {
		t.Error("a flight stays after its end")
		return false
	})
}

// A client's connection is cut too when it takes nothing; this is about one that
// stands still for a reason of its own.
func TestCoalesceAMemberThatNeverReadsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		whole := ready(4 << 20)
		resp := &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(whole))}
		reads, still := &member{resp: resp}, &member{resp: resp}
		f := &flight{Context: ctx, cancel: cancel, open: &sync.Map{}, stall: time.Minute, freed: make(chan struct{}, 1)}
		if !f.join(reads) || !f.join(still) {
			t.Fatal("nobody can join")
		}
		began := time.Now()
		var running sync.WaitGroup
		running.Go(func() {
			f.land(resp, &exchange{answered: time.Now()})
			f.pump(resp)
		})
		got, err := io.ReadAll(reads)
		if took := time.Since(began); err != nil || !bytes.Equal(got, whole) || took != time.Minute {
			t.Errorf("%d bytes after %v, %v", len(got), took, err)
		}
		if n, err := still.Read(make([]byte, 1)); n != 0 || err != errBehind {
			t.Errorf("%d, %v", n, err)
		}
		if kept := len(f.body.list); kept > mostPieces {
			t.Errorf("%d pieces were kept", kept)
		}
		running.Wait()
	})
}
