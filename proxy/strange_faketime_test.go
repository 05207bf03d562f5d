package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// refuser is a site that refuses everything for 30 seconds from its first request on.
type refuser struct {
	mu   sync.Mutex
	from time.Time
	come []time.Duration // requests, after the first one
}

func (r *refuser) serve(rw http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.from.IsZero() {
		r.from = now
	}
	since := now.Sub(r.from)
	r.come = append(r.come, since)
	if since < 30*time.Second {
		rw.Header().Set("Retry-After", "30")
		rw.WriteHeader(429)
	}
}

// silent is a store whose news nobody hears.
type silent struct{ store.Store }

// When a site refuses an instance, those stand still as well that have never met the site:
// with a rule and without one, and whether or not the news reach them.
func TestACooldownReachesWhoHasNotMetTheSite(t *testing.T) {
	for name, yaml := range map[string]string{
		"without a rule":         "",
		"a limit that is shared": "sites:\n  - {host: site.test, limits: [{requests: 100, per: 1m}]}\n",
		"a limit that is not":    "sites:\n  - {host: site.test, limits: [{concurrency: 5}]}\n",
	} {
		for _, heard := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", heard: ", heard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var shared store.Store = store.NewMemory(nil)
					if !heard {
						shared = silent{shared}
					}
					r := &refuser{}
					crew(t, 3, shared, r.serve, yaml, func(all []*world) {
						if heard { // so long that nothing is asked any more
							elapse(missedFor)
						}
						var clients sync.WaitGroup
						for i, w := range all {
							clients.Go(func() {
								elapse(time.Duration(i) * 2 * time.Second)
								within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
								defer cancel()
								if got := w.do(within, w.client(), "GET", "http://site.test/x", nil); got.status != 200 {
									t.Errorf("instance %d: %+v", i, got)
								}
							})
						}
						clients.Wait()
					})
					for _, at := range r.come[1:] {
						if at < 30*time.Second {
							t.Errorf("a request comes after %v", at)
						}
					}
				})
			})
		}
	}
}

// A new site costs no question once an instance has listened for long enough, and a
// bounded number of them before.
func TestQuestionsForCooldownsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, 0)
		defer c.stop()
		elapse(store.Settling + time.Second)
		meets := func(sites int) int64 {
			before := s.asked.Load()
			for i := range sites {
				c.desk.meet(t.Context(), &queue.Request{Site: fmt.Sprintf("site%d.test", i)})
			}
			return s.asked.Load() - before
		}
		if n := meets(2 * fleetQuestions); n != fleetQuestions {
			t.Errorf("%d questions", n)
		}
		elapse(time.Minute)
		if c.desk.meet(t.Context(), &queue.Request{Site: "leased.test", Limits: [][]queue.Limit{{c.need}}}); meets(10) != 10 {
			t.Error("it does not ask any more")
		}
		now := time.Now()
		c.desk.strange.listens.Store(&now)
		elapse(missedFor)
		if n := meets(100); n != 0 {
			t.Errorf("%d questions although nothing can have been missed", n)
		}
		c.desk.strange.listens.Store(nil)
		elapse(time.Minute)
		s.stuck.Store(true)
		began := time.Now()
		if meets(1); time.Since(began) > patienceOfQuestion {
			t.Errorf("a request waits for %v", time.Since(began))
		}
		s.stuck.Store(false)
	})
}

// What is remembered of sites that nobody here asks for is bounded, and what ends soon
// goes first.
func TestStrangeSitesAreBounded(t *testing.T) {
	s, now := newStrangeSites(), time.Now()
	note := func(limit string, until time.Duration) store.Note {
		return store.Note{Key: noteOfCooldown + between + limit + between, Until: now.Add(until)}
	}
	s.remember(now, "over.test", []store.Note{note("", 0)})
	s.remember(now, "other.test", []store.Note{{Key: noteOfTale + between, Until: now.Add(time.Hour)}})
	if len(s.told) != 0 {
		t.Errorf("%v are remembered", s.told)
	}
	for i := range 100 {
		s.remember(now, "site.test", []store.Note{note(fmt.Sprint(i), time.Minute)})
	}
	if n := len(s.of("site.test")); n != strangeNotes {
		t.Errorf("%d notes of a site", n)
	}
	for i := range 3 * mostStrange {
		s.remember(now, fmt.Sprint(i), []store.Note{note("", time.Duration(1+i%1000)*time.Second)})
	}
	if n := len(s.told); n != mostStrange || s.count.Load() != mostStrange {
		t.Errorf("%d sites", n)
	}
	s.remember(now, "last", []store.Note{note("", time.Hour)})
	s.remember(now, "last", []store.Note{note("", time.Minute)})
	if n := s.of("last"); len(n) != 1 || !n[0].Until.Equal(now.Add(time.Hour)) {
		t.Errorf("got %v", n)
	}
	s.forget("last")
	if n := s.of("last"); len(n) != 0 {
		t.Errorf("got %v", n)
	}
}

// A cooldown in the answer that brings a lease holds for what waits for the lease.
func TestACooldownIsHeardBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		c := newCounter(t, silent{memory}, true, "one", perMinute, 0)
		defer c.stop()
		c.desk.heard = func(site string, news []store.Note) {
			for _, n := range news {
				c.gate.Cool(site, queue.Scope{}, n.Until, n.Text)
			}
		}
		elapse(store.Settling + time.Second)
		_, err := memory.Exchange(t.Context(), []store.Batch{{Site: "site.test", Instance: "two", Notes: []store.Note{
			{Key: noteOfCooldown + between + between, Until: time.Now().Add(30 * time.Second), Text: "429"},
		}}})
		must(t, err)
		began := time.Now()
		p, err := c.gate.Wait(t.Context(), queue.Request{Site: "site.test", Limits: [][]queue.Limit{{c.need}}})
		must(t, err)
		p.Sent()
		p.Finish(queue.Result{Outcome: limit.Success})
		if waited := time.Since(began); waited < 30*time.Second {
			t.Errorf("it goes after %v", waited)
		}
	})
}

// News bring what there is to know, so they cost the store nothing, however many hear them.
func TestNewsCostNoExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		var asked []*tallied
		for i := range 4 {
			s := &tallied{Memory: memory}
			c := newCounter(t, s, true, fmt.Sprint(i), perMinute, 0)
			defer c.stop()
			c.desk.heard = func(site string, news []store.Note) { s.heard.Add(int64(len(news))) }
			elapse(store.Settling + time.Second)
			c.take("site.test", time.Second)
			asked = append(asked, s)
		}
		elapse(30 * time.Second)
		for _, s := range asked {
			s.exchanges.Store(0)
		}
		_, err := memory.Exchange(t.Context(), []store.Batch{{Site: "site.test", Instance: "other", Notes: []store.Note{
			{Key: noteOfCooldown + between + between, Until: time.Now().Add(30 * time.Second), Text: "429"},
		}}})
		must(t, err)
		elapse(time.Second)
		for i, s := range asked {
			if asks, heard := s.exchanges.Load(), s.heard.Load(); asks != 0 || heard != 1 {
				t.Errorf("%d hears %d notes, and asks %d times", i, heard, asks)
			}
		}
	})
}

// tallied is a store that counts what it is asked.
type tallied struct {
	*store.Memory
	exchanges, heard atomic.Int64
}

func (s *tallied) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	s.exchanges.Add(1)
	return s.Memory.Exchange(ctx, batches)
}
