package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

// leave is left for a test that asks for the time alone.
func (s *breakers) leave(who party, rule policy.Breaker, done func(error), how health, now time.Time) time.Time {
	until, _ := s.left(who, rule, done, how, "", now)
	return until
}

func TestABreakerSaysOnceThatItOpensAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule, who := policy.Breaker{Failures: 2, Pause: time.Second}, party{site: "a"}
		var s breakers
		opened := func(cause string) bool {
			done, _ := s.enter(who, rule, time.Now())
			_, now := s.left(who, rule, done, ill, cause, time.Now())
			return now
		}
		if opened("one") || !opened("two") {
			t.Fatal("it opens with the second failure")
		}
		if opened("late") {
			t.Error("it opens once")
		}
		time.Sleep(2 * time.Second)
		if opened("three") {
			t.Error("a probe that fails opens nothing that worked")
		}
		if why := s.find(who, rule).why(); why != "three" {
			t.Errorf("it failed last because %q", why)
		}
	})
}

func TestABreakerOpensAndLetsSingleProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := policy.Breaker{Failures: 3, Pause: 30 * time.Second}
		var s breakers
		who := party{site: "a"}
		fail := func() time.Time {
			done, until := s.enter(who, rule, time.Now())
			if !until.IsZero() {
				t.Fatalf("not let in until %v", until)
			}
			return s.leave(who, rule, done, ill, time.Now())
		}
		for range 2 {
			if !fail().IsZero() {
				t.Fatal("open too early")
			}
		}
		// A success between them begins anew, and leaves nothing behind.
		s.leave(who, rule, nil, well, time.Now())
		if s.n.Load() != 0 {
			t.Fatal("a breaker that is closed is remembered")
		}
		fail()
		s.leave(who, rule, nil, unknown, time.Now())
		fail()
		until := fail()
		if got := time.Until(until); got < rule.Pause || got > rule.Pause+time.Second {
			t.Fatalf("open for %v", got)
		}
		if _, again := s.enter(who, rule, time.Now()); again.IsZero() {
			t.Fatal("let in while it is open")
		}
		if !s.broken(party{site: "b"}, rule, time.Now()).IsZero() || s.broken(who, rule, time.Now()).IsZero() {
			t.Fatal("the wrong one is open")
		}
		time.Sleep(time.Until(until))
		done, again := s.enter(who, rule, time.Now())
		if !again.IsZero() || !s.broken(who, rule, time.Now()).IsZero() {
			t.Fatal("no probe is let in")
		}
		if _, again = s.enter(who, rule, time.Now()); again.IsZero() {
			t.Fatal("a second probe is let in")
		}
		// A probe that says nothing makes room for another.
		s.leave(who, rule, done, unknown, time.Now())
		done, again = s.enter(who, rule, time.Now())
		if !again.IsZero() {
			t.Fatal("no second probe")
		}
		if until = s.leave(who, rule, done, ill, time.Now()); until.IsZero() {
			t.Fatal("a probe that fails does not open it again")
		}
		time.Sleep(time.Until(until))
		done, _ = s.enter(who, rule, time.Now())
		s.leave(who, rule, done, well, time.Now())
		if s.n.Load() != 0 {
			t.Fatal("it did not close")
		}
		// Another rule after a reload begins anew; none is none.
		fail()
		if s.find(who, policy.Breaker{Failures: 9, Pause: time.Second}) != nil || s.n.Load() != 0 {
			t.Fatal("the old rule holds")
		}
		if !s.leave(who, policy.Breaker{}, nil, ill, time.Now()).IsZero() || s.n.Load() != 0 {
			t.Fatal("a breaker that is off counts")
		}
	})
}

func TestBreakersOfDeadHostsAreBounded(t *testing.T) {
	rule := policy.Breaker{Failures: 10, Pause: time.Minute}
	var s breakers
	for i := range mostBreakers + 10 {
		s.leave(party{site: fmt.Sprint(i)}, rule, nil, ill, time.Now())
	}
	if n := s.n.Load(); n > 10 {
		t.Errorf("%d are remembered", n)
	}
}

func TestWhatCountsAsAFailureOfTheSite(t *testing.T) {
	lost := func(kind upstream.Kind) error { return &upstream.Error{Kind: kind, Sent: true} }
	for _, c := range []struct {
		status int
		err    error
		v      verdict
		want   health
	}{
		{status: 200, want: well},
		{status: 404, want: well},
		{status: 500, want: well},
		{status: 502, want: ill},
		{status: 503, want: ill},
		{status: 503, v: verdict{refused: true}, want: well},
		{status: 504, want: ill},
		{status: 429, v: verdict{refused: true}, want: well},
		{err: lost(upstream.Refused), want: ill},
		{err: lost(upstream.TLS), want: ill},
		{err: lost(upstream.Canceled), want: unknown},
		{err: lost(upstream.Upload), want: unknown},
		{err: lost(upstream.Files), want: unknown},
		{err: lost(upstream.Hop), want: unknown},
		{err: lost(upstream.Forbidden), want: unknown},
		{err: &upstream.Error{Kind: upstream.Closed, Sent: true, Stale: true}, want: unknown},
		{err: errors.New("what"), want: unknown},
	} {
		if got := healthOf(c.status, c.err, c.v); got != c.want {
			t.Errorf("%d %v: %v, not %v", c.status, c.err, got, c.want)
		}
	}
}

func TestAnOutageAndTheRecoveryFromIt(t *testing.T) {
	down := atomic.Bool{}
	var probes, most, flying atomic.Int64
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		n := flying.Add(1)
		defer flying.Add(-1)
		time.Sleep(100 * time.Millisecond)
		if down.Load() {
			rw.WriteHeader(503)
			return
		}
		if probes.Add(1) == 1 {
			most.Store(n)
		}
	}
	bubble(t, sites, "breaker: {failures: 10, pause: 30s}\nretry: {attempts: 4, base: 500ms}\n", func(w *world) {
		down.Store(true)
		var all sync.WaitGroup
		codes := make(chan int, 100)
		for range 20 {
			c := w.client()
			all.Go(func() { codes <- w.get(c, "http://site.test/").status })
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		asked := w.asked.Load()
		if asked > 40 {
			t.Errorf("%d requests to a site that is down", asked)
		}
		began := time.Now()
		a := w.get(w.client(), "http://site.test/new")
		if a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(began) > time.Second || w.asked.Load() != asked {
			t.Errorf("a new request: %d after %v: %v %s", a.status, time.Since(began), a.header, a.body)
		}
		if b := w.server.Breakers(); len(b) != 1 || b[0].Site != "site.test" || b[0].State != "open" {
			t.Errorf("%+v", b)
		}
		if a := w.get(w.client(), "http://other.test/"); a.status != 503 || a.header.Get("Abide-Attempts") != "5" {
			t.Errorf("another site: %d %v", a.status, a.header) // which is down as well, but has its own breaker
		}
		down.Store(false)
		all.Wait()
		close(codes)
		good := 0
		for code := range codes {
			if code == 200 {
				good++
			}
		}
		if good < 18 {
			t.Errorf("%d of 20 got through the outage", good)
		}
		if most.Load() != 1 {
			t.Errorf("%d at once when it came back", most.Load())
		}
		if time.Since(w.began) > 65*time.Second {
			t.Errorf("after %v", time.Since(w.began))
		}
		if len(w.server.Breakers()) > 1 {
			t.Errorf("%+v", w.server.Breakers())
		}
	})
}
