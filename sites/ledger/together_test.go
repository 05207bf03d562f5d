package ledger

import (
	"container/heap"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// crawler is one of several processes that crawl one site, whose limit they find together.
type crawler struct {
	name    string
	begin   float64
	slow    *SlowStart
	hidden  *HiddenRate // nil: nothing was refused, and no other has told of a limit
	clients int
	left    int // requests
	flying  int
	served  int
	refused int
	first   float64
}

func (c *crawler) meter() limit.Meter {
	if c.hidden != nil {
		return c.hidden
	}
	return c.slow
}

// hears takes what another process tells.
func (c *crawler) hears(now float64, from string, what any) {
	f, found := what.(Finding)
	if found && c.hidden == nil {
		c.hidden = NewHiddenRate(History{})
		c.hidden.Share(c.name, true, 2)
	}
	switch {
	case found:
		c.hidden.AcceptFinding(seconds(now), f)
	case c.hidden != nil:
		c.hidden.OtherUses(seconds(now), from, what.(Use))
	}
}

// gapOrigin refuses a request that comes too soon after the one before.
type gapOrigin struct{ gap, last float64 }

func (o *gapOrigin) arrive(at float64) reply {
	r := silentReply()
	if r.refused = at-o.last < o.gap; !r.refused {
		o.last = at
	}
	return r
}

// together crawls a site with some processes, and returns how long the last took, and how many requests were refused.
func together(o origin, latency float64, seed uint64, crawlers ...*crawler) (took float64, refused int) {
	type event struct {
		c    *crawler
		kind int // 0 wakes, 1 arrives, 2 is answered, 3 tells, 4 hears
		sent float64
		r    reply
		from string
		what any
	}
	var todo agenda
	events := map[int]event{}
	n := 0
	push := func(at float64, e event) {
		n++
		events[n] = e
		heap.Push(&todo, moment{at: at, what: n})
	}
	random := dice(seed)
	half := func() float64 { return latency * (0.9 + 0.2*random.Float64()) / 2 }
	for _, c := range crawlers {
		c.slow = NewSlowStart(0)
		push(c.begin, event{c: c})
		push(c.begin+.25*random.Float64(), event{c: c, kind: 3})
	}
	busy := len(crawlers)
	for busy > 0 {
		m := heap.Pop(&todo).(moment)
		now, e := m.at, events[m.what]
		delete(events, m.what)
		c := e.c
		switch e.kind {
		case 1:
			e.r, e.kind = o.arrive(now), 2
			push(now+half(), e)
			continue
		case 2:
			c.flying--
			outcome := limit.Success
			if e.r.refused {
				outcome = limit.Refused
				c.refused++
				refused++
				if c.hidden == nil {
					c.hidden = NewHiddenRate(History{Accepted: int64(c.served), Lasted: time.Duration((now - c.first) * 1e9)})
					c.hidden.Share(c.name, false, len(crawlers))
				}
				c.hidden.Refused(seconds(now), Refusal{Sent: seconds(e.sent)})
			} else if c.served++; c.served == c.left {
				busy--
				took = now
			}
			c.slow.Done(seconds(now), seconds(e.sent), 1, outcome)
			if c.hidden != nil {
				c.hidden.Done(seconds(now), seconds(e.sent), 1, outcome)
			}
		case 3:
			if c.served < c.left {
				push(now+.25, e)
			}
			if c.hidden == nil {
				continue
			}
			var tells []any
			if f, news := c.hidden.Finding(); news {
				tells = append(tells, f)
			}
			if u, ok := c.hidden.Use(seconds(now)); ok {
				tells = append(tells, u)
			}
			for _, what := range tells {
				for _, other := range crawlers {
					if other != c && now >= other.begin && other.served < other.left {
						push(now+.1+.3*random.Float64(), event{c: other, kind: 4, from: c.name, what: what})
					}
				}
			}
			continue
		case 4:
			c.hears(now, e.from, e.what)
		}
		if c.served == 0 && c.first == 0 {
			c.first = now
		}
		for c.flying < c.clients && c.served+c.flying < c.left {
			t, ok := c.meter().When(seconds(now), 1)
			if !ok {
				panic("never")
			}
			if t.After(seconds(now)) {
				if !t.Equal(limit.Unknown) {
					push(max(t.Sub(epoch).Seconds(), now+1e-6), event{c: c})
				}
				break
			}
			c.slow.Take(seconds(now), 1)
			if c.hidden != nil {
				c.hidden.Take(seconds(now), 1)
			}
			c.flying++
			push(now+half(), event{c: c, kind: 1, sent: now})
		}
	}
	return took - crawlers[0].begin, refused
}

// TestTwoProcessesFindALimitAsOneWould: what one of them was accepted and refused and what the other was is one history of one limit.
// Each crawls 60 pages with eight clients, and the second begins later. One alone needs for 120 pages: 65, 35, 71, 22, 248 and 28 s.
func TestTwoProcessesFindALimitAsOneWould(t *testing.T) {
	t.Parallel()
	const pairs = 20
	for _, c := range []struct {
		name string
		make func() origin
		most [3]float64 // seconds on average, if the second begins 0, 0.3 and 5 s later
	}{ // at the end what it took when each had its own first rate and they did not go by turns
		{"20 in 10 s", func() origin { return &fixedOrigin{limit: 20, window: 10, aligned: true} }, [3]float64{75, 75, 85}},     // 65, 70, 93
		{"a gap of 0.2 s", func() origin { return &gapOrigin{gap: .2, last: -1} }, [3]float64{70, 60, 53}},                      // 97, 79, 55
		{"50 in 15 s from the first", func() origin { return &fixedOrigin{limit: 50, window: 15} }, [3]float64{80, 80, 80}},     // 68, 62, 140
		{"a bucket of 10, 5 a second", func() origin { return &drip{limit: 10, rate: 5} }, [3]float64{28, 28, 30}},              // 23, 30, 25
		{"30 a minute", func() origin { return &fixedOrigin{limit: 30, window: 60, aligned: true} }, [3]float64{280, 280, 280}}, // 251, 245, 258
		{"a gap of 0.1 s", func() origin { return &gapOrigin{gap: .1, last: -1} }, [3]float64{52, 40, 42}},                      // 90, 47, 46
	} {
		for i, after := range []float64{0, .3, 5} {
			mean, refusals := 0.0, 0
			for seed := range uint64(pairs) {
				begin := 3 + float64(seed)*.77
				took, refused := together(c.make(), .02, seed, &crawler{name: "a", begin: begin, clients: 8, left: 60}, &crawler{name: "b", begin: begin + after, clients: 8, left: 60})
				mean, refusals = mean+took/pairs, refusals+refused
			}
			if mean > c.most[i] || refusals > 35*pairs {
				t.Errorf("%s, the second begins %v s later: %.0f s, %d refused of each pair", c.name, after, mean, refusals/pairs)
			}
		}
	}
}

// TestInstancesGoByTurns: of requests that come too close to each other some are refused, though few come.
func TestInstancesGoByTurns(t *testing.T) {
	t.Parallel()
	now := seconds(1000)
	var all []*HiddenRate
	for _, name := range []string{"a", "b", "c"} {
		p := NewHiddenRate(History{})
		p.Share(name, true, 3)
		p.AcceptFinding(now, Finding{Rate: 10})
		for _, other := range []string{"a", "b", "c"} {
			if other != name {
				p.OtherUses(now, other, Use{Rate: 3, Busy: true})
			}
		}
		all = append(all, p)
	}
	latest := time.Time{}
	for n := range 30 {
		first, next := all[0], limit.Unknown
		for _, p := range all {
			if at, _ := p.When(now, 1); at.Before(next) {
				first, next = p, at
			}
		}
		if now = next; n > 2 && next.Sub(latest) < 99*time.Millisecond {
			t.Errorf("request %d goes %v after the one before", n, next.Sub(latest))
		}
		first.Take(now, 1)
		latest = now
	}
}

// TestALaterCrawlTriesMoreThanTwoHaveFound: two processes that crawl at once may be refused at a rate that one alone may use.
func TestALaterCrawlTriesMoreThanTwoHaveFound(t *testing.T) {
	t.Parallel()
	const pairs = 20
	for _, c := range []struct {
		name       string
		make       func() origin
		mean, most float64 // seconds that 160 requests take
		refused    int
	}{
		{"a gap of 0.25 s", func() origin { return &gapOrigin{gap: .25, last: -1} }, 50, 60, 6}, // 59 and 120 s where what two had found stayed
		{"20 in 10 s", func() origin { return &fixedOrigin{limit: 20, window: 10, aligned: true} }, 90, 110, 6},
		{"50 in 15 s from the first", func() origin { return &fixedOrigin{limit: 50, window: 15} }, 65, 75, 6},
		{"a bucket of 20, 5 a second", func() origin { return &drip{limit: 20, rate: 5} }, 35, 45, 6},
	} {
		mean, most, refusals := 0.0, 0.0, 0
		for seed := range uint64(pairs) {
			o, begin := c.make(), 3+float64(seed)*.77
			two := []*crawler{{name: "a", begin: begin, clients: 8, left: 80}, {name: "b", begin: begin + .3, clients: 8, left: 80}}
			took, _ := together(o, .02, seed, two...)
			begin += took + 30
			alone := &crawler{name: "c", begin: begin, clients: 8, left: 160, hidden: NewHiddenRate(History{})}
			if err := alone.hidden.Restore(seconds(begin), two[0].hidden.State()); err != nil {
				t.Fatal(err)
			}
			alone.hidden.Share("c", true, 1)
			took, refused := together(o, .02, seed, alone)
			mean, most, refusals = mean+took/pairs, max(most, took), refusals+refused
		}
		t.Logf("%s: %.0f s, at most %.0f, %d refused of each", c.name, mean, most, refusals/pairs)
		if mean > c.mean || most > c.most || refusals > c.refused*pairs {
			t.Errorf("%s: %.0f s, at most %.0f, %d refused of each", c.name, mean, most, refusals/pairs)
		}
	}
}

// TestAnInstanceThatJoinsKeepsWhatOthersHaveFound: it hears of the others only after some time. When they are gone, it tries more.
func TestAnInstanceThatJoinsKeepsWhatOthersHaveFound(t *testing.T) {
	t.Parallel()
	p := NewHiddenRate(History{})
	p.Share("b", true, 2)
	p.AcceptFinding(seconds(1000), Finding{Rate: 10, Bad: 11, Fails: 3})
	refused := func(at float64) float64 {
		p.Take(seconds(at), 1)
		f, _ := p.Finding()
		return f.Bad
	}
	if bad := refused(1000.1); bad != 11 {
		t.Errorf("before it has heard of others, %v a second are known to be refused", bad)
	}
	for at := 1001.0; at < 1030; at++ {
		p.OtherUses(seconds(at), "a", Use{Rate: 3})
		if bad := refused(at + .5); bad != 11 {
			t.Fatalf("beside others, %v a second are known to be refused", bad)
		}
	}
	if bad := refused(1030 + 2*UseLasts.Seconds()); bad != 0 {
		t.Errorf("alone, %v a second are known to be refused", bad)
	}
}
