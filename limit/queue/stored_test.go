package queue

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// leaves has a site be forgotten if nothing is known of it.
func (s *site) leaves(now time.Time) bool {
	sh := s.gate.shardOf(s.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.forget(now, s, false, manySites)
	return s.gone
}

// whole is how many sites are not stored.
func (g *Gate) whole() (n int) {
	for i := range g.shards {
		n += len(g.shards[i].sites)
	}
	return n
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// refuse has a site refuse one request.
func refuse(t *testing.T, g *Gate, site string, until time.Time) {
	p := allow(t, g, asks(site, "x", &single))
	p.Cool(Scope{}, until, "Retry-After")
	p.Finish(Result{Outcome: limit.Refused})
}

func TestVeryManySitesThatRefuseTakeLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, until := NewGate(Bounds{}, nil), time.Now().Add(time.Hour)
		n := 0
		more := func(sites int) int64 {
			for ; sites > 0; sites-- {
				refuse(t, g, fmt.Sprintf("site-%07d.example:443", n), until)
				n++
			}
			tidyAll(g)
			return heapInUse()
		}
		before := more(2 * manySites)
		after := more(2 * manySites)
		if each := (after - before) / (2 * manySites); each > 400 {
			t.Errorf("one more site takes %d bytes", each)
		}
		if whole := g.whole(); whole > manySites+shards {
			t.Errorf("%d sites are kept as a whole", whole)
		}
		if sites, _ := g.Len(); sites != n || len(cooldowns(g)) != n {
			t.Errorf("of %d sites %d are remembered, %d cool", n, sites, len(cooldowns(g)))
		}
		for i := range 100 {
			name := fmt.Sprintf("site-%07d.example:443", i*n/100)
			if e := g.Explain(asks(name, "x", &single)); !e.Until.Equal(until) || e.Why != "Retry-After" {
				t.Fatalf("%s: %+v", name, e)
			}
			if !g.Knows(name) {
				t.Fatalf("%s is not known", name)
			}
		}
		time.Sleep(time.Hour + quiet)
		tidyAll(g)
		if sites, _ := g.Len(); sites != 0 {
			t.Errorf("%d sites are remembered in the end", sites)
		}
		for i := range g.shards {
			if sh := &g.shards[i]; sh.stored.known != nil || sh.stored.bytes != 0 {
				t.Fatalf("a part of the sites has %d bytes", sh.stored.bytes)
			}
		}
	})
}

func TestSitesThatAreKeptInShortAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		g.many = 0
		s := newSite(g, "a")
		began := time.Now()
		sh := &g.shards[0]
		for i := range mostStoredBytes / 100 {
			s.name = fmt.Sprint("site ", i)
			s.registry.whole.beginCooldown(began.Add(time.Hour+time.Duration(i)*time.Millisecond), "Retry-After", 0)
			sh.stored.add(s.store(time.Now()))
		}
		if sh.stored.bytes > mostStoredBytes {
			t.Errorf("%d bytes are kept", sh.stored.bytes)
		}
		if len(sh.stored.known) < mostStoredBytes/400 {
			t.Errorf("only %d sites are kept", len(sh.stored.known))
		}
	})
}

// learnedMeter is a limit that a site has shown: nothing goes before a time.
type learnedMeter struct {
	limit.Meter
	state string
	until time.Time
}

func (m *learnedMeter) When(now time.Time, _ int64) (time.Time, bool) {
	return later(now, m.until), true
}
func (m *learnedMeter) Take(time.Time, int64)                           {}
func (m *learnedMeter) Done(time.Time, time.Time, int64, limit.Outcome) {}
func (m *learnedMeter) Left(time.Time) int64                            { return 1 }
func (m *learnedMeter) Idle(time.Time) bool                             { return m.state == "" }
func (m *learnedMeter) Spare(now time.Time) bool                        { return !m.SpareAt(now).After(now) }
func (m *learnedMeter) Blank() bool                                     { return false }
func (m *learnedMeter) SpareAt(time.Time) time.Time                     { return m.until }
func (m *learnedMeter) State() []byte                                   { return []byte(m.state) }
func (m *learnedMeter) Restore(_ time.Time, state []byte) (err error) {
	m.state = string(state)
	m.until, err = time.Parse(time.RFC3339Nano, m.state)
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestALearnedLimitOfASiteThatIsKeptInShortHoldsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		g.many = 0
		r := asks("a", "x", nil)
		r.Limits[0] = []Limit{{Name: "learned", Key: "token", N: 1, Source: makeFunc(func() limit.Meter { return &learnedMeter{} })}}
		p := allow(t, g, r)
		until := time.Now().Add(time.Hour)
		p.Update([]Update{{Limit: r.Limits[0][0], Apply: func(_ time.Time, m limit.Meter) {
			l := m.(*learnedMeter)
			l.until, l.state = until, until.Format(time.RFC3339Nano)
		}}})
		p.Finish(Result{})
		kept := func() bool { return g.whole() == 0 && g.Knows("a") }
		tidyAll(g)
		if !kept() {
			t.Fatal("the site is not kept in short")
		}
		stored := map[Scope]string{}
		g.VisitResources(func(_ time.Time, at ResourceInfo) { stored[at.At] = string(at.State) })
		if want := map[Scope]string{{"learned", "token"}: until.Format(time.RFC3339Nano)}; !reflect.DeepEqual(stored, want) {
			t.Errorf("what is to be written down is %v", stored)
		}
		// It is looked at by who does not need the limit, and kept in short again.
		for range 3 {
			g.Cool("a", Scope{}, time.Now().Add(time.Millisecond), "a moment")
			time.Sleep(quiet + time.Second)
			if g.whole() == 0 {
				t.Fatal("the site is not there as a whole")
			}
			tidyAll(g)
			if !kept() {
				t.Fatal("the site is not kept in short again")
			}
		}
		p = allow(t, g, r)
		if now := time.Now(); !now.Equal(until) {
			t.Errorf("a request went %v too early", until.Sub(now))
		}
		p.Finish(Result{})
		time.Sleep(quiet)
		tidyAll(g)
		if sites, _ := g.Len(); sites != 0 {
			t.Error("it is never forgotten")
		}
	})
}

// Nobody can tell from outside whether a site was kept in short meanwhile.
func TestASiteThatWasKeptInShortIsTheSame(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			gates := []*Gate{NewGate(Bounds{}, nil), NewGate(Bounds{}, nil)}
			gates[1].many = 0
			scopes := []Scope{{}, {"limit", "key"}, {"token", "a"}, {"route", "/x"}}
			r := asks("a", "x", &single)
			r.Limits[0][0].Key = "key"
			r.Wait = time.Second
			stored := 0
			var permits [2]*Permit
			for step := range 60 {
				pause := time.Duration(random.Int64N(int64(20 * time.Second)))
				at, until := scopes[random.IntN(len(scopes))], time.Now().Add(time.Duration(random.Int64N(int64(40*time.Second))))
				var said [2]string
				var running sync.WaitGroup
				what := random.IntN(9)
				if what == 6 && !strings.Contains(fmt.Sprint(cooldowns(gates[0])), fmt.Sprint(at)) {
					what = 8 // one of them may not know the scope any more, as after a while without this
				}
				for i, g := range gates {
					running.Go(func() {
						p := permits[i]
						switch {
						case what < 3 && p == nil:
							got, err := g.Wait(t.Context(), r)
							if permits[i] = got; err == nil {
								said[i] = fmt.Sprint(got.Waited(), got.BlockedBy(), got.RefusalsInRow(Scope{}), got.RefusalsInRow(at))
							} else {
								said[i] = err.Error()
							}
						case p != nil && what < 5:
							p.Cool(at, until, "Retry-After")
							p.Finish(Result{Outcome: limit.Refused})
							permits[i] = nil
						case p != nil:
							p.Answered(limit.Success)
							p.Finish(Result{Outcome: limit.Success})
							permits[i] = nil
						case what == 5:
							said[i] = fmt.Sprint(g.Cool("a", at, until, "elsewhere"))
						case what == 6:
							g.CoolAll(at, until, "quarantine")
						case what == 7:
							g.EndCooldowns(at)
						default:
							time.Sleep(pause)
						}
						tidyAll(g)
					})
				}
				running.Wait()
				if gates[1].whole() == 0 && gates[1].Knows("a") {
					stored++
				}
				for i, g := range gates {
					said[i] += fmt.Sprint(sorted(cooldowns(g)))
					if permits[i] == nil && step%4 == 0 {
						said[i] += fmt.Sprintf("%+v", g.Explain(r))
					}
				}
				if said[0] != said[1] {
					t.Fatalf("seed %d, step %d: %d:\n%s\n%s", seed, step, what, said[0], said[1])
				}
			}
			if stored == 0 && seed == 0 {
				t.Error("the site was never kept in short")
			}
			for _, p := range permits {
				if p != nil {
					p.Finish(Result{})
				}
			}
		})
	}
}

func sorted(list []toldCooldown) []string {
	var text []string
	for _, one := range list {
		text = append(text, fmt.Sprint(one))
	}
	for i := range text {
		for j := range i {
			if strings.Compare(text[i], text[j]) < 0 {
				text[i], text[j] = text[j], text[i]
			}
		}
	}
	return text
}
