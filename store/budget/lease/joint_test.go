package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// machine is processes of one machine that use one budget.
type machine struct {
	random *rand.Rand
	now    time.Time
	spec   limit.Spec
	store  *reference.Store
	seq    uint64
	born   int
	living []*jointProcess
	used   []jointUse
	failed float64       // part of the exchanges of which no answer comes
	away   bool          // the store answers nobody
	far    bool          // requests arrive late, as far as the limit allows
	holds  time.Duration // the longest time from when a request may go until it is sent, or given back
	slow   time.Duration // the longest time before a write is done, and from then until its answer comes
}

// jointUse is a request as the server sees it.
type jointUse struct {
	at time.Time
	n  int64
}

// heldRequest is a request that may go and is not sent yet.
type heldRequest struct {
	taken, sent time.Time
	n           int64
}

// jointProcess is one of them.
type jointProcess struct {
	id      string
	account *lease.Account
	meter   limit.Meter
	waiting []int64 // units of requests
	held    []heldRequest

	flying  bool
	asks    *store.Batch // that is not written yet
	written time.Time
	answer  *store.Reply
	err     error
	arrives time.Time
	missed  time.Time    // when the first exchange was made of those in a row that no answer came of
	late    *store.Batch // that is done later than it was waited for
}

func (w *machine) join(t interface{ Fatal(args ...any) }) {
	m, err := limit.New(w.spec)
	if err != nil {
		t.Fatal(err)
	}
	w.born++
	p := &jointProcess{id: fmt.Sprint("p", w.born)}
	p.account = lease.NewAccount("s", lease.Options{
		Instance: p.id, Seq: func() uint64 { w.seq++; return w.seq }, Members: func() int { return 2 },
	})
	p.meter = p.account.Durable("requests", w.spec, m, store.Origin{})
	w.living = append(w.living, p)
}

func (w *machine) exchange(b store.Batch) (*store.Reply, error) {
	replies, err := w.store.Exchange(context.Background(), []store.Batch{b})
	if err != nil {
		return nil, err
	}
	return &replies[0], nil
}

// step has everybody do what there is to do now.
func (w *machine) step(most int64) {
	w.random.Shuffle(len(w.living), func(i, j int) { w.living[i], w.living[j] = w.living[j], w.living[i] })
	for _, p := range w.living {
		if p.late != nil && (p.flying && !w.now.Before(p.arrives) || w.random.IntN(4) == 0) {
			_, _ = w.exchange(*p.late)
			p.late = nil
		}
		if p.asks != nil && !w.now.Before(p.written) {
			p.answer, p.err = w.exchange(*p.asks)
			p.asks = nil
		}
		if p.flying && !w.now.Before(p.arrives) {
			p.flying = false
			p.account.Receive(w.now, p.answer, p.err)
		}
		w.take(p, most)
		b, ok := p.account.Batch(w.now)
		if !ok {
			continue
		}
		p.flying, p.written = true, w.now.Add(w.upTo(w.slow))
		p.arrives = p.written.Add(w.upTo(30*time.Millisecond + w.slow))
		p.answer, p.err = nil, errors.New("no answer")
		if p.missed.IsZero() {
			p.missed = w.now
		}
		if w.away {
			continue
		}
		switch outcome := w.random.Float64(); {
		case outcome >= w.failed, w.now.Sub(p.missed) > 2*time.Second: // after ten seconds, a process goes by what it knows
			p.missed = time.Time{}
			if p.late != nil {
				_, _ = w.exchange(*p.late)
				p.late = nil
			}
			p.asks = &b
		case outcome < w.failed/2:
			p.late = &b // its answer is not waited for
		}
	}
}

// upTo is a random duration.
func (w *machine) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// way is the longest time in which a request arrives.
func (w *machine) way() time.Duration {
	if !w.far {
		return 0
	}
	return w.margin()
}

// margin is the time that the limit allows for that.
func (w *machine) margin() time.Duration {
	margin := min(max(w.spec.Window/128, 5*time.Millisecond), w.spec.Window/8)
	switch w.spec.As {
	case limit.Bucket:
		return min(margin, w.spec.Window*time.Duration(w.spec.Burst-1)/time.Duration(w.spec.Amount))
	case limit.Rolling, limit.Fixed:
		return margin
	}
	return 0
}

// take has go what may go.
func (w *machine) take(p *jointProcess, most int64) {
	total := int64(0)
	for _, n := range p.waiting {
		total += n
	}
	p.held = slices.DeleteFunc(p.held, func(h heldRequest) bool {
		if w.now.Before(h.sent) {
			return false
		}
		if w.random.IntN(20) == 0 {
			p.meter.Give(w.now, h.taken, h.n)
			return true
		}
		p.meter.Postpone(w.now, h.taken, h.n)
		w.used = append(w.used, jointUse{w.now.Add(w.upTo(w.way())), h.n})
		return true
	})
	for len(p.waiting) > 0 {
		n := p.waiting[0]
		if at, ok := p.meter.When(w.now, n); !ok || at.After(w.now) {
			break
		}
		p.waiting = p.waiting[1:]
		total -= n
		p.meter.Take(w.now, n)
		if w.holds > 0 {
			p.held = append(p.held, heldRequest{w.now, w.now.Add(w.upTo(w.holds)), n})
			continue
		}
		if w.random.IntN(20) == 0 {
			p.meter.Give(w.now, w.now, n)
			continue
		}
		w.used = append(w.used, jointUse{w.now.Add(w.upTo(w.way())), n})
	}
	p.meter.(interface{ Demand(time.Time, int64) }).Demand(w.now, total)
}

// over says what the promise of the limit was broken by, "" if it was kept.
func (w *machine) over() string {
	amount, window := w.spec.Amount, w.spec.Window
	slices.SortFunc(w.used, func(a, b jointUse) int { return a.at.Compare(b.at) })
	if w.spec.As == limit.FirstUse {
		sum, end := int64(0), time.Time{}
		for _, u := range w.used {
			if !u.at.Before(end) {
				sum, end = 0, u.at.Add(window)
			}
			if sum += u.n; sum > amount {
				return fmt.Sprintf("%d until %v", sum, end)
			}
		}
		return ""
	}
	for i, first := range w.used {
		sum, end := int64(0), first.at.Add(window)
		if w.spec.As == limit.Fixed {
			end = first.at.Truncate(window).Add(window)
		}
		for _, u := range w.used[i:] {
			switch w.spec.As {
			case limit.Bucket:
				sum += u.n
				if float64(sum) > float64(w.spec.Burst)+float64(amount)*u.at.Sub(first.at).Seconds()/window.Seconds()+1e-3 {
					return fmt.Sprintf("%d from %v to %v", sum, first.at, u.at)
				}
				continue
			case limit.Paced:
				if u.at.Sub(first.at) < time.Duration(sum*int64(window)/amount) {
					return fmt.Sprintf("%d units and one more from %v to %v", sum, first.at, u.at)
				}
				sum += u.n
				continue
			}
			if !u.at.Before(end) {
				break
			}
			if sum += u.n; sum > amount {
				return fmt.Sprintf("%d from %v to %v", sum, first.at, u.at)
			}
		}
	}
	return ""
}

// Whatever processes of one machine do, come, go, die and wait for answers that never
// come, they spend a limit together as one would alone.
func TestProcessesOfOneMachineNeverExceedALimitTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &machine{random: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))), now: begin}
		w.spec = limit.Spec{
			As:     rapid.SampledFrom([]limit.As{limit.Fixed, limit.Rolling, limit.FirstUse, limit.Bucket, limit.Paced}).Draw(t, "as"),
			Amount: rapid.Int64Range(1, 60).Draw(t, "amount"), Window: rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second}).Draw(t, "window"),
		}
		most := min(rapid.Int64Range(1, 3).Draw(t, "largest"), w.spec.Amount)
		if w.spec.As == limit.Bucket {
			w.spec.Burst = rapid.Int64Range(most, w.spec.Amount).Draw(t, "burst")
		}
		w.failed = rapid.SampledFrom([]float64{0, 0, 0.1, 0.4}).Draw(t, "failed")
		rate := rapid.Float64Range(0.02, 2).Draw(t, "rate")
		w.far, w.slow = rapid.Bool().Draw(t, "far"), rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}).Draw(t, "slow")
		if !w.far {
			w.holds = rapid.SampledFrom([]time.Duration{0, w.margin()}).Draw(t, "holds")
		}
		w.store = reference.New(func() time.Time { return w.now })
		w.join(t)
		for range 1500 {
			w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Millisecond))))
			switch x := w.random.IntN(300); {
			case x == 0 && len(w.living) < 5:
				w.join(t)
			case x == 1 && len(w.living) > 0: // killed
				w.store.End(w.living[0].id)
				w.living = w.living[1:]
			case x == 2 && len(w.living) > 0: // that asks for nothing any more
				w.living[0].waiting = nil
			}
			for _, p := range w.living {
				if w.random.Float64() < rate && len(p.waiting) < 50 {
					p.waiting = append(p.waiting, 1+w.random.Int64N(most))
				}
			}
			w.step(most)
		}
		if wrong := w.over(); wrong != "" {
			t.Fatalf("%+v: %s", w.spec, wrong)
		}
	})
}

// Several processes that want all they can get get most of it together, and each a part.
func TestProcessesOfOneMachineUseWhatThereIs(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Fixed, Amount: 20, Window: 2 * time.Second},
		{As: limit.Rolling, Amount: 20, Window: 2 * time.Second},
		{As: limit.FirstUse, Amount: 20, Window: 2 * time.Second},
		{As: limit.Bucket, Amount: 20, Window: 2 * time.Second, Burst: 5},
		{As: limit.Paced, Amount: 10, Window: 2 * time.Second},
	} {
		t.Run(string(spec.As), func(t *testing.T) {
			w := &machine{random: rand.New(rand.NewPCG(1, 2)), now: begin, spec: spec, far: true}
			w.store = reference.New(func() time.Time { return w.now })
			rapid.Check(t, func(t *rapid.T) {
				if w.born == 0 {
					for range 3 {
						w.join(t)
					}
				}
			})
			got := map[string]int{}
			for w.now.Sub(begin) < 40*time.Second {
				w.now = w.now.Add(5 * time.Millisecond)
				for _, p := range w.living {
					before := len(p.waiting)
					for len(p.waiting) < 10 {
						p.waiting = append(p.waiting, 1)
					}
					got[p.id] += len(p.waiting) - before
				}
				w.step(1)
			}
			if wrong := w.over(); wrong != "" {
				t.Fatal(wrong)
			}
			sum := int64(0)
			for _, u := range w.used {
				sum += u.n
			}
			could := spec.Amount * 20
			t.Logf("%d of %d: %v", sum, could, got)
			if sum < could*6/10 {
				t.Errorf("%d went where %d could", sum, could)
			}
			for id, n := range got {
				if int64(n) < could/10 {
					t.Errorf("%s got %d", id, n)
				}
			}
		})
	}
}

// Whatever processes are granted and do not use is there for those that wait: also where requests
// are sent some time after they may go, and some are given back.
func TestNothingIsLostBetweenProcessesOfOneMachine(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Fixed, Amount: 30, Window: 24 * time.Hour},
		{As: limit.Quota, Amount: 30, Period: limit.Day},
		{As: limit.Rolling, Amount: 30, Window: 24 * time.Hour},
		{As: limit.FirstUse, Amount: 30, Window: 24 * time.Hour},
		{As: limit.Bucket, Amount: 30, Window: 24 * time.Hour, Burst: 30},
		{As: limit.Paced, Amount: 1000, Window: 1000 * time.Second},
	} {
		for _, c := range []struct {
			processes int
			each      int           // requests that wait in each
			every     time.Duration // between two of them; 0: they all come at once
			ends      bool          // all but the last stop
		}{{2, 40, 0, false}, {5, 40, 0, false}, {2, 40, 30 * time.Millisecond, false}, {3, 6, 0, true}, {3, 40, 20 * time.Millisecond, true}} {
			t.Run(fmt.Sprint(spec.As, c), func(t *testing.T) {
				w := &machine{random: rand.New(rand.NewPCG(1, 2)), now: begin, spec: spec, holds: 20 * time.Millisecond}
				w.store = reference.New(func() time.Time { return w.now })
				for range c.processes {
					w.join(t)
				}
				come := map[string]int{}
				pass := func(d time.Duration) {
					for until := w.now.Add(d); w.now.Before(until); w.now = w.now.Add(time.Millisecond) {
						for _, p := range w.living {
							for come[p.id] < c.each && w.now.Sub(begin) >= time.Duration(come[p.id])*c.every {
								p.waiting = append(p.waiting, 1)
								come[p.id]++
							}
						}
						w.step(1)
					}
				}
				pass(2 * time.Second)
				if c.ends {
					for _, p := range w.living[:c.processes-1] {
						p.waiting = nil
					}
					pass(2 * time.Second)
					p := w.living[len(w.living)-1]
					p.waiting = append(p.waiting, slices.Repeat([]int64{1}, 40)...)
					pass(2 * time.Second)
				}
				sum, most := int64(0), spec.Amount
				for _, u := range w.used {
					sum += u.n
				}
				if spec.As == limit.Paced {
					most = int64(w.now.Sub(begin)/time.Second) - 1
				}
				if sum < most || spec.As != limit.Paced && sum > most {
					t.Errorf("%d went of %d", sum, most)
				}
			})
		}
	}
}

// Each process gets what waits there, at most an equal part, however much waits in the others: also at the
// beginning of a window, for which all of them have waited for a long time.
func TestNoProcessOfAMachineStarvesBesideAnother(t *testing.T) {
	for _, c := range []struct {
		spec   limit.Spec
		counts []int // of crawlers of each process
		lasts  time.Duration
	}{
		{limit.Spec{As: limit.Fixed, Amount: 60, Window: 5 * time.Second}, []int{64, 4}, time.Second},
		{limit.Spec{As: limit.Fixed, Amount: 60, Window: 5 * time.Second}, []int{64, 2, 64, 1}, 200 * time.Millisecond},
		{limit.Spec{As: limit.Fixed, Amount: 8, Window: 10 * time.Second}, []int{8, 2, 1}, time.Second},
		{limit.Spec{As: limit.Fixed, Amount: 8, Window: 5 * time.Second}, []int{4, 2, 64, 8, 4}, 50 * time.Millisecond},
		{limit.Spec{As: limit.Rolling, Amount: 60, Window: 5 * time.Second}, []int{64, 4}, time.Second},
		{limit.Spec{As: limit.Bucket, Amount: 60, Window: 5 * time.Second, Burst: 20}, []int{64, 4}, time.Second},
	} {
		t.Run(fmt.Sprint(c.spec.As, c.counts), func(t *testing.T) {
			w := &machine{random: rand.New(rand.NewPCG(1, 2)), now: begin, spec: c.spec}
			w.store = reference.New(func() time.Time { return w.now })
			for range c.counts {
				w.join(t)
			}
			processes, got := slices.Clone(w.living), make([]int, len(c.counts))
			begins := make([][]time.Time, len(c.counts)) // when crawlers ask for their next page
			for i, n := range c.counts {
				begins[i] = make([]time.Time, n)
			}
			const windows = 20
			for w.now.Sub(begin) < windows*c.spec.Window {
				w.now = w.now.Add(5 * time.Millisecond)
				before := make([]int, len(processes))
				for i, p := range processes {
					waiting := slices.DeleteFunc(begins[i], func(at time.Time) bool { return !at.After(w.now) })
					for range len(begins[i]) - len(waiting) {
						p.waiting = append(p.waiting, 1)
					}
					begins[i], before[i] = waiting, len(p.waiting)
				}
				w.step(1)
				for i, p := range processes {
					for range before[i] - len(p.waiting) {
						got[i]++
						begins[i] = append(begins[i], w.now.Add(c.lasts/2+w.upTo(c.lasts)))
					}
				}
			}
			if wrong := w.over(); wrong != "" {
				t.Fatal(wrong)
			}
			for i, n := range got {
				if part := min(c.counts[i], int(c.spec.Amount)/len(c.counts)); n < part*windows*7/10 {
					t.Errorf("%d crawlers got %d in %d windows, and their part is %d of each: %v", c.counts[i], n, windows, part, got)
				}
			}
			t.Log(got)
		})
	}
}

// Processes that went on alone while nothing could be written go on together when it can be
// again: what each of them spent counts from when it was spent.
func TestProcessesOfOneMachineDoNotStallAfterAnOutage(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Fixed, Amount: 20, Window: 2 * time.Second},
		{As: limit.Rolling, Amount: 20, Window: 2 * time.Second},
		{As: limit.FirstUse, Amount: 20, Window: 2 * time.Second},
		{As: limit.Bucket, Amount: 20, Window: 2 * time.Second, Burst: 5},
		{As: limit.Paced, Amount: 20, Window: 2 * time.Second},
	} {
		t.Run(string(spec.As), func(t *testing.T) {
			w := &machine{random: rand.New(rand.NewPCG(1, 2)), now: begin, spec: spec}
			w.store = reference.New(func() time.Time { return w.now })
			rapid.Check(t, func(t *rapid.T) {
				for w.born < 2 {
					w.join(t)
				}
			})
			within := func(d time.Duration) int {
				before := len(w.used)
				for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(5 * time.Millisecond) {
					for _, p := range w.living {
						for len(p.waiting) < 10 {
							p.waiting = append(p.waiting, 1)
						}
					}
					w.step(1)
				}
				return len(w.used) - before
			}
			before := within(10 * time.Second)
			w.away = true
			away := within(2 * time.Minute)
			w.away = false
			within(3 * time.Second) // both decide alone until then
			if after := within(10 * time.Second); after < before*7/10 {
				t.Errorf("%d in 10 s, %d in an outage of 2 min, %d in 10 s", before, away, after)
			}
		})
	}
}
