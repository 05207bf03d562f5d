package broadcast

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget"
	"github.com/abide-proxy/abide/store/reference"
)

// asked is a store that counts the questions, and may not answer them.
type asked struct {
	store.Store
	n     atomic.Int64
	stuck atomic.Bool
}

func (s *asked) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	s.n.Add(1)
	if s.stuck.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Exchange(ctx, batches)
}

// plain is a configuration in which keys are the same everywhere.
type plain struct{}

func (plain) Stable(_, key string) string                { return key }
func (plain) Local(_, _, name string) []string           { return []string{name} }
func (plain) Lasting(string) bool                        { return true }
func (plain) HasLimit(string, string) bool               { return true }
func (plain) Owned(string) bool                          { return false }
func (plain) OfFleet(string, string) (string, bool)      { return "", false }
func (plain) StoreOperation(string, bool, time.Duration) {}
func (plain) StoreLent(string, int64)                    {}
func (plain) StoreLost(string)                           {}
func (plain) StoreAway()                                 {}

// A new site costs no question once an instance has listened for long enough, and a
// bounded number of them before.
func TestQuestionsForCooldownsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asked{Store: reference.New(nil)}
		log := logrus.New()
		log.SetOutput(io.Discard)
		gate := queue.NewGate(queue.Bounds{}, nil)
		keeper := budget.New(budget.Options{
			Store: s, Shared: true, Self: store.Member{ID: "one"}, Gate: gate,
			Names: plain{}, Sites: plain{}, Changed: func() {}, Metrics: plain{}, Log: log,
		})
		b := New(Options{Keeper: keeper, Gate: gate, Names: plain{}, Learned: sites.New(sites.Options{})})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { keeper.Run(ctx, b) })
		defer running.Wait()
		defer cancel()
		time.Sleep(store.RecoveryTime + time.Second)
		meets := func(sites int) int64 {
			before := s.n.Load()
			for i := range sites {
				b.Meet(t.Context(), &queue.Request{Site: fmt.Sprintf("site%d.test", i)})
			}
			return s.n.Load() - before
		}
		b.Listens(nil)
		if n := meets(2 * fleetQuestions); n != fleetQuestions {
			t.Errorf("%d questions", n)
		}
		time.Sleep(time.Minute)
		leased := queue.Limit{Name: "requests", Spec: &limit.Spec{}, N: 1, Source: source{}}
		before := s.n.Load()
		b.Meet(t.Context(), &queue.Request{Site: "leased.test", Limits: [][]queue.Limit{{leased}}})
		if meets(10) != 10 || s.n.Load() != before+10 {
			t.Error("it does not ask any more, or asks although a lease does")
		}
		now := time.Now()
		b.Listens(&now)
		time.Sleep(missedFor)
		if n := meets(100); n != 0 {
			t.Errorf("%d questions although nothing can have been missed", n)
		}
		b.Listens(nil)
		time.Sleep(time.Minute)
		s.stuck.Store(true)
		began := time.Now()
		if meets(1); time.Since(began) > questionPatience {
			t.Errorf("a request waits for %v", time.Since(began))
		}
		s.stuck.Store(false)
	})
}

// What is remembered of sites that nobody here asks for is bounded, and what ends soon
// goes first.
func TestUnmetSitesAreBounded(t *testing.T) {
	s, now := newUnmetSites(), time.Now()
	note := func(limit string, until time.Duration) store.Note {
		return store.Note{Key: noteOfCooldown + store.Separator + limit + store.Separator, Until: now.Add(until)}
	}
	s.remember(now, "over.test", []store.Note{note("", 0)})
	s.remember(now, "other.test", []store.Note{{Key: noteOfWindow + store.Separator, Until: now.Add(time.Hour)}})
	if len(s.told) != 0 {
		t.Errorf("%v are remembered", s.told)
	}
	for i := range 100 {
		s.remember(now, "site.test", []store.Note{note(fmt.Sprint(i), time.Minute)})
	}
	if n := len(s.of("site.test")); n != unmetNotes {
		t.Errorf("%d notes of a site", n)
	}
	for i := range 3 * mostUnmet {
		s.remember(now, fmt.Sprint(i), []store.Note{note("", time.Duration(1+i%1000)*time.Second)})
	}
	if n := len(s.told); n != mostUnmet || s.count.Load() != mostUnmet {
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

// source provides no meters.
type source struct{}

func (source) NewMeter() limit.Meter { return nil }

func (source) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }
