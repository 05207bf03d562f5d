package dispatch_test

import (
	"context"
	"fmt"
	"net"
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

func TestCoalesceIdenticalRequestsAreOneUpstream(t *testing.T) {
	run(t, answerAfterSecond, coalesced, func(w rig) {
		for i, a := range w.requestTogether(100, func(int) result { return w.Get("http://site.test/a?b=c", "Cookie", "me=1") }) {
			if a.Status != 200 || a.Body != "GET /a " || a.At != time.Second {
				t.Errorf("%d: %d %q after %v", i, a.Status, a.Body, a.At)
			}
			if a.Attempts != 1 || a.Site != "site.test" || a.Waited != 0 {
				t.Errorf("%v", a.Header)
			}
		}
		if n := w.Asked.Load(); n != 1 {
			t.Errorf("the site was asked %d times", n)
		}
		synctest.Wait()
		if n := w.Ended.Load(); n != 100 {
			t.Errorf("%d requests were counted", n)
		}
		// Nothing is stored afterwards.
		w.Get("http://site.test/a?b=c", "Cookie", "me=1")
		if n := w.Asked.Load(); n != 2 {
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
	run(t, answerAfterSecond, coalesced, func(w rig) {
		w.requestTogether(2*len(requests), func(i int) result {
			r := requests[i/2]
			return w.Do(w.T.Context(), r[0], "http://site.test"+r[1], "", r[2:]...)
		})
		if n := w.Asked.Load(); n != int64(len(requests)) {
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
	run(t, answerAfterSecond, coalesced+"  - {host: plain.test, limits: [{requests: 1000, per: 1s}]}\n", func(w rig) {
		w.requestTogether(2*len(requests), func(i int) result {
			r := requests[i/2]
			return w.Do(w.T.Context(), r[0], "http://site.test"+r[1], "", r[2:]...)
		})
		w.requestTogether(2, func(int) result {
			return w.Do(w.T.Context(), "GET", "http://site.test/", "body")
		})
		w.requestTogether(2, func(int) result { return w.Get("http://plain.test/") })
		if n, want := w.Asked.Load(), int64(2*len(requests)+4); n != want {
			t.Errorf("%d requests of %d", n, want)
		}
	})
	run(t, answerAfterSecond, "mode: observe\n"+coalesced, func(w rig) {
		w.requestTogether(2, func(int) result { return w.Get("http://site.test/") })
		if n := w.Asked.Load(); n != 2 {
			t.Errorf("%d requests were sent of 2 that are observed", n)
		}
	})
}

func TestCoalesceWithoutAnybodyLeftNothingIsSent(t *testing.T) {
	run(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w rig) {
		w.Get("http://site.test/first")
		ctx, leave := context.WithCancel(w.T.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { w.Do(ctx, "GET", "http://site.test/held", "") })
		}
		synctest.Wait()
		if n := len(w.Holds("site.test", 1000)); n != 1 {
			t.Fatalf("%d holds for ten identical requests", n)
		}
		leave()
		all.Wait()
		time.Sleep(time.Second) // the proxy grants a half-closed connection that long
		synctest.Wait()
		if n := len(w.Holds("site.test", 1000)); n != 0 {
			t.Errorf("%d holds after all have left", n)
		}
		a := w.Get("http://site.test/second")
		if a.Status != 200 || a.At > 10*time.Minute+time.Second || w.Asked.Load() != 2 {
			t.Errorf("%d after %v and %d requests", a.Status, a.At, w.Asked.Load())
		}
	})
}

func TestCoalesceAnAnswerWithACookieIsForTheFirstAlone(t *testing.T) {
	for _, header := range [][2]string{{"Set-Cookie", "session=%d"}, {"Vary", "%d, *"}} {
		var n atomic.Int64
		sites := func(rw http.ResponseWriter, _ *http.Request) {
			got := n.Add(1)
			time.Sleep(time.Second)
			rw.Header().Set(header[0], fmt.Sprintf(header[1], got))
			fmt.Fprint(rw, got)
		}
		run(t, sites, coalesced, func(w rig) {
			seen := map[string]bool{}
			for _, a := range w.requestTogether(10, func(int) result { return w.Get("http://site.test/") }) {
				if a.Status != 200 || seen[a.Body] || a.At > 5*time.Second || a.Header.Get(header[0]) != fmt.Sprintf(header[1], int(a.Body[0]-'0')) && a.Body != "10" {
					t.Errorf("%d %q after %v, %q", a.Status, a.Body, a.At, a.Header.Get(header[0]))
				}
				seen[a.Body] = true
			}
			if n := w.Asked.Load(); n != 10 {
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
	run(t, sites, coalesced, func(w rig) {
		late := make(chan result, 1)
		go func() {
			time.Sleep(20 * time.Second)
			late <- w.Get("http://site.test/")
		}()
		for _, a := range w.requestTogether(20, func(int) result { return w.Get("http://site.test/") }) {
			if a.Status != 200 || a.Attempts != 2 || a.Waited != 60*time.Second {
				t.Errorf("%d, %v", a.Status, a.Header)
			}
		}
		if a := <-late; a.Status != 200 || a.Waited != 40*time.Second {
			t.Errorf("one that came later: %d, %v", a.Status, a.Header)
		}
		if n := w.Asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceEachHasItsOwnPatience(t *testing.T) {
	run(t, echoing, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m}]}\n", func(w rig) {
		w.Get("http://site.test/first")
		patient := make(chan result, 1)
		go func() { patient <- w.Get("http://site.test/held") }()
		synctest.Wait()
		a := w.Get("http://site.test/held", "Abide-Max-Wait", "90s")
		if a.Status != 429 || a.At > 90*time.Second+time.Millisecond || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, "urn:abide:wait") || !strings.Contains(a.Body, "1 request") {
			t.Errorf("%d after %v: %s %v", a.Status, a.At, a.Body, a.Header)
		}
		if a := <-patient; a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if n := w.Asked.Load(); n != 2 {
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
	run(t, sites, "sites:\n  - {host: site.test, coalesce: on, limits: [{concurrency: 1}]}\n", func(w rig) {
		block = make(chan struct{})
		answers := make(chan result, 2)
		go w.Get("http://site.test/first")
		synctest.Wait()
		go func() { answers <- w.Get("http://site.test/held", "Abide-Max-Wait", "5s") }()
		synctest.Wait()
		go func() { answers <- w.Get("http://site.test/held") }()
		if a := <-answers; a.Status != 429 || a.At != 5*time.Second {
			t.Errorf("%d after %v", a.Status, a.At)
		}
		time.Sleep(time.Minute)
		close(block)
		if a := <-answers; a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if n := w.Asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCoalesceAReloadBeginsNewFlights(t *testing.T) {
	const plain = coalesced + "defaults: {learn: false}\n" // the second of a route need not wait for the first
	run(t, answerAfterSecond, plain, func(w rig) {
		answers := make(chan result, 3)
		get := func() { answers <- w.Get("http://site.test/") }
		go get()
		synctest.Wait()
		w.Reload(plain + "log: {level: debug}\n")
		go get()
		synctest.Wait()
		w.Reload(plain)
		w.Send = func(*http.Request) (*http.Response, error) { return nil, net.ErrClosed }
		for range 2 {
			if a := <-answers; a.Status != 200 || a.At != time.Second {
				t.Errorf("%d after %v", a.Status, a.At)
			}
		}
		if n := w.Asked.Load(); n != 2 {
			t.Errorf("%d requests, one by each configuration", n)
		}
	})
}

func TestCoalesceAnotherClientDoesNotWaitForWhatOneHasUsedUp(t *testing.T) {
	run(t, answerAfterSecond, "sites:\n  - {host: site.test, coalesce: on, limits: [{requests: 1, per: 10m, by: client}]}\n", func(w rig) {
		w.Get("http://site.test/first", "Abide-Client", "greedy")
		held := make(chan result, 1)
		go func() { held <- w.Get("http://site.test/held", "Abide-Client", "greedy") }()
		synctest.Wait()
		answers := w.requestTogether(3, func(int) result {
			return w.Get("http://site.test/held", "Abide-Client", "other")
		})
		for _, a := range answers {
			if a.Status != 200 || a.At != 2*time.Second {
				t.Errorf("%d after %v", a.Status, a.At)
			}
		}
		if a := <-held; a.Status != 200 || w.Asked.Load() != 3 {
			t.Errorf("%d, %d requests", a.Status, w.Asked.Load())
		}
	})
}

func TestCoalesceAnyClientJoinsWhatIsOnItsWay(t *testing.T) {
	run(t, answerAfterSecond, coalesced, func(w rig) {
		first := make(chan result, 1)
		go func() { first <- w.Get("http://site.test/", "Abide-Client", "one") }()
		synctest.Wait()
		a, b := w.Get("http://site.test/", "Abide-Client", "two"), <-first
		if a.Status != 200 || b.Status != 200 || w.Asked.Load() != 1 {
			t.Errorf("%d, %d, %d requests", a.Status, b.Status, w.Asked.Load())
		}
	})
}
