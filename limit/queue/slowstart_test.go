package queue

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// rampAudit keeps its own books of what goes after a cooldown. The zero value is
// that of a resource that never had one.
type rampAudit struct {
	room   int
	flying map[*hold]bool
	went   time.Time
	still  time.Time
}

func newRampAudit(until time.Time) rampAudit {
	return rampAudit{1, map[*hold]bool{}, until, until.Add(time.Minute)}
}

func (a *rampAudit) full(now time.Time) bool {
	return a.room > 0 && len(a.flying) >= a.room && now.Sub(a.went) < 15*time.Second
}

func (a *rampAudit) granted(t *rapid.T, now time.Time, h *hold) {
	switch {
	case a.room == 0:
		return
	case len(a.flying) == 0 && !now.Before(a.still):
		a.room = 0
		return
	case a.full(now):
		t.Fatalf("%d are in flight after a cooldown, there is room for %d", len(a.flying)+1, a.room)
	}
	a.flying[h] = true
	a.went, a.still = now, now.Add(time.Minute)
}

func (a *rampAudit) answered(now time.Time, h *hold, success bool) {
	if !a.flying[h] {
		return
	}
	delete(a.flying, h)
	a.still = now.Add(time.Minute)
	if success {
		if a.room++; a.room > 1024 {
			a.room = 0
		}
	}
}

// herd is a site where many wait for the end of a cooldown.
type herd struct {
	g    *Gate
	all  sync.WaitGroup
	mu   sync.Mutex
	sent map[int]int // :: second → requests sent in it
}

// start lets n clients send to a site that answers after a second, and refuses
// for another ten seconds what comes before good.
func start(t *testing.T, n int, at Scope, good time.Duration) *herd {
	h := &herd{g: NewGate(Bounds{}, nil), sent: map[int]int{}}
	began := time.Now()
	r := asks("example.com", "x", &limit.Spec{As: limit.Concurrency, Amount: 10_000})
	p := allow(t, h.g, r)
	p.Cool(at, began.Add(10*time.Second), "Retry-After")
	p.Finish(Result{Outcome: limit.Refused})
	for range n {
		h.all.Go(func() {
			p := allow(t, h.g, r)
			for {
				sent := time.Since(began)
				h.mu.Lock()
				h.sent[int(sent/time.Second)]++
				h.mu.Unlock()
				time.Sleep(time.Second)
				if sent >= good {
					p.Finish(Result{Outcome: limit.Success})
					return
				}
				if err := p.Again(t.Context(), Retry{
					Result: Result{Outcome: limit.Refused}, Cool: at, Until: time.Now().Add(10 * time.Second),
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return h
}

func TestASiteThatStillRefusesGetsOneRequestAndNotAll(t *testing.T) {
	for name, at := range map[string]Scope{"site": {}, "limit": {Limit: "limit"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, 100, at, 30*time.Second)
				h.all.Wait()
				// Asked at 10 and 21 it refuses; from 32 on it serves.
				want := map[int]int{10: 1, 21: 1, 32: 1, 33: 2, 34: 4, 35: 8, 36: 16, 37: 32, 38: 37}
				if fmt.Sprint(h.sent) != fmt.Sprint(want) {
					t.Errorf("sent by second:\n%v, want\n%v", h.sent, want)
				}
				nobodyWaits(t, h.g)
			})
		})
	}
}

func TestWhoComesAfterACooldownWaitsForTheAnswerOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: 20 * time.Second}, nil)
		r := Request{Site: "example.com"}
		p := allow(t, g, r)
		p.Cool(Scope{}, time.Now().Add(time.Second), "Retry-After")
		p.Finish(Result{Outcome: limit.Refused})
		time.Sleep(2 * time.Second)
		first := allow(t, g, r)
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { allow(t, g, r).Finish(Result{}) })
		synctest.Wait()
		held := g.HeldRequests("example.com")
		if len(held) != 1 || held[0].String() != "example.com (recovering after Retry-After)" || !held[0].Until.IsZero() || !held[0].ETA.IsZero() {
			t.Errorf("it shows %+v", held)
		}
		time.Sleep(3 * time.Second)
		first.Finish(Result{Outcome: limit.Failed, Unsent: true})
		all.Wait()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the second went after %v", took)
		}
	})
}

// The body of an answer may take long, and so may an answer that never comes.
func TestOthersDoNotWaitForTheBodyOfAnAnswerNorForOneThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		r := Request{Site: "example.com"}
		p := allow(t, g, r)
		p.Cool(Scope{}, time.Now().Add(time.Second), "Retry-After")
		p.Finish(Result{Outcome: limit.Refused})
		time.Sleep(time.Second)
		asked := allow(t, g, r)
		asked.Answered(limit.Refused) // tells nothing: the cooldown is still to come
		start := time.Now()
		next := allow(t, g, r)
		if took := time.Since(start); took != probeWait {
			t.Errorf("it went after %v", took)
		}
		next.Answered(limit.Success)
		next.Answered(limit.Success) // once is enough
		if p := allow(t, g, r); p.Waited() != 0 {
			t.Errorf("after an answer it waited %v", p.Waited())
		}
		if p := allow(t, g, r); p.Waited() != probeWait {
			t.Errorf("two are unanswered, and the third waited %v", p.Waited())
		}
	})
}

func TestARampIsOverWhenNothingHappens(t *testing.T) {
	w := newWorld(t, 0)
	site := w.s.newResource("site", nil, nil)
	site.beginCooldown(noon.Add(time.Second), "", 0)
	try := func() bool { return w.s.tryAtOnce(w.now, &hold{needs: units(site, 0)}) }
	w.now = noon.Add(time.Minute)
	if w.s.restsAnd((*resource).forgettable, w.now) || !try() || try() {
		t.Error("it is forgotten too early")
	}
	w = newWorld(t, 0)
	site = w.s.newResource("site", nil, nil)
	site.beginCooldown(noon.Add(time.Second), "", 0)
	w.now = noon.Add(time.Minute + time.Second)
	if !w.s.restsAnd((*resource).forgettable, w.now) || !try() || !try() {
		t.Error("it is not over")
	}
}

// Answers to what was sent before the cooldown say nothing about the site now.
func TestOldAnswersDoNotOpenARamp(t *testing.T) {
	w := newWorld(t, 0)
	site := w.s.newResource("site", nil, nil)
	for i := range 10 {
		w.add(fmt.Sprint("old", i), hold{needs: units(site, 0)})
	}
	w.next()
	site.beginCooldown(noon.Add(time.Second), "", 0)
	for range 10 {
		w.add("new", hold{needs: units(site, 0)})
	}
	w.want("while it cools", w.next(), "")
	for _, h := range w.went {
		w.finish(h)
	}
	w.now = w.again
	w.want("then", w.next(), "new")
}
