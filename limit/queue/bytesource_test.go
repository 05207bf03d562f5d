package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// bytesOf is a request whose bytes are limited.
func bytesOf(amount int64, window time.Duration) Request {
	return Request{Site: "a", Client: "x", Limits: [][]Limit{{
		{Name: "requests", N: 1, Spec: &limit.Spec{As: limit.Fixed, Amount: 1000, Window: time.Hour}},
		{Name: "bytes", Of: Bytes, N: 10, Spec: &limit.Spec{As: limit.Fixed, Amount: amount, Window: window}},
	}}}
}

// draws takes bytes, and sends how many and after how long.
func draws(t *testing.T, source *ByteSource, n, least int64) <-chan string {
	out, start := make(chan string, 1), time.Now()
	go func() {
		got, err := source.Draw(t.Context().Done(), Draw{Most: n, Least: least})
		if err != nil {
			out <- err.Error()
			return
		}
		out <- fmt.Sprint(got, " after ", time.Since(start))
	}()
	synctest.Wait()
	return out
}

// begin brings the clock to the beginning of a window.
func begin(window time.Duration) {
	time.Sleep(time.Until(time.Now().Truncate(window).Add(window)))
}

func expect(t *testing.T, out <-chan string, want string) {
	t.Helper()
	select {
	case got := <-out:
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	case <-time.After(24 * time.Hour):
		t.Errorf("it waits for ever, not %s", want)
	}
}

func TestASourceDrawsWhatIsThereAndWaitsForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		source := g.ByteSource(bytesOf(1000, time.Minute))
		defer source.Close()
		expect(t, draws(t, source, 600, 100), "600 after 0s")
		if left := source.Left(); left != 400 {
			t.Errorf("%d are left", left)
		}
		expect(t, draws(t, source, 600, 100), "400 after 0s")
		expect(t, draws(t, source, 600, 100), "600 after 1m0s")
		expect(t, draws(t, source, 5000, 5000), "1000 after 1m0s") // never more than a window has
		expect(t, draws(t, source, 0, 0), "0 after 0s")
	})
}

func TestASourceWithoutLimitsOfBytesKeepsNothing(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	source := g.ByteSource(asks("a", "x", tenPerMinute()))
	if n, err := source.Draw(nil, Draw{Most: 1 << 40, Least: 1}); n != 1<<40 || err != nil || source.Left() != -1 {
		t.Errorf("%d, %v, %d", n, err, source.Left())
	}
	if _, pause, ok := source.Forecast(1 << 40); pause != 0 || !ok {
		t.Errorf("%v, %v", pause, ok)
	}
	source.Close()
	source.Close()
	if _, err := source.Draw(nil, Draw{Most: 1, Least: 1}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	source.Refund(1)
}

// Each meter gives the same, and the byte source's resources are not forgotten.
func TestASourceDrawsTheSameFromEachLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		r := bytesOf(1000, time.Minute)
		r.Limits[0] = append(r.Limits[0], Limit{Name: "of x", By: ByClient, Of: Bytes, Spec: &limit.Spec{As: limit.Fixed, Amount: 300, Window: time.Minute}})
		x := g.ByteSource(r)
		r.Client = "y"
		y := g.ByteSource(r)
		expect(t, draws(t, x, 500, 1), "300 after 0s")
		expect(t, draws(t, y, 500, 1), "300 after 0s")
		if x.Left() != 0 || g.lock("a").registry.byScope[Scope{Limit: "bytes"}].resource.meter.Left(time.Now()) != 400 {
			t.Error("not the same from each")
		}
		s := x.site
		s.mu.Unlock() // locked above
		time.Sleep(time.Hour)
		if s.leaves(time.Now()) || s.sched.forget(time.Now(), x.resources[0]) {
			t.Error("it is forgotten while it has a source")
		}
		x.Close()
		y.Close()
		if !s.leaves(time.Now()) {
			t.Error("it is not forgotten when the sources are closed")
		}
	})
}

// Those who wait go in the order of their arrival, one who waits for something else
// does not keep them, and all before any new request.
func TestDrawsGoInOrderAndBeforeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Minute)
		r := bytesOf(1000, time.Minute)
		a, b := g.ByteSource(r), g.ByteSource(r)
		r.Limits = [][]Limit{{r.Limits[0][1], {Name: "slow", Of: Bytes, Spec: &limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Hour}}}}
		slow := g.ByteSource(r)
		expect(t, draws(t, slow, 10, 1), "10 after 0s")
		never := draws(t, slow, 10, 1)
		expect(t, draws(t, a, 985, 1), "985 after 0s") // 5 are left
		first := draws(t, a, 800, 700)
		start := time.Now()
		went := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				r := bytesOf(1000, time.Minute)
				r.Limits[0][1].N = 5
				allow(t, g, r).Finish(Result{})
				went <- time.Since(start)
			}()
		}
		synctest.Wait()
		second := draws(t, b, 700, 700)
		if len(went) != 0 {
			t.Error("a request took what a body waits for")
		}
		expect(t, first, "800 after 1m0s")
		expect(t, second, "700 after 2m0s")
		for range 2 {
			if took := <-went; took != 2*time.Minute {
				t.Errorf("a request went after %v", took)
			}
		}
		select {
		case got := <-never:
			t.Error(got)
		default:
		}
		slow.Close()
		expect(t, never, ErrGone.Error())
		nobodyWaits(t, g)
	})
}

func TestADrawEndsWhenNobodyWaitsForItAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Hour)
		source := g.ByteSource(bytesOf(1000, time.Hour))
		defer source.Close()
		expect(t, draws(t, source, 1000, 1), "1000 after 0s")
		start := time.Now()
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		behind := draws(t, source, 100, 100)
		if _, err := source.Draw(done, Draw{Most: 1000, Least: 1000}); !errors.Is(err, ErrGone) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		for _, until := range []time.Duration{90 * time.Second, 0, -time.Second} {
			now := time.Now()
			_, err := source.Draw(nil, Draw{Most: 1000, Least: 1000, Until: now.Add(until)})
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != stalled || refusal.Limit != "bytes" || !refusal.RetryAt.Equal(start.Add(time.Hour)) {
				t.Errorf("%+v", err)
			}
			if took := time.Since(now); took != max(until, 0) {
				t.Errorf("it ended after %v", took)
			}
		}
		expect(t, behind, "100 after 1h0m0s")
		last := draws(t, source, 1000, 1000)
		g.Close()
		expect(t, last, string(Draining))
		if _, err := source.Draw(nil, Draw{Most: 1000, Least: 1000}); err == nil {
			t.Error("it waits when all is over")
		}
		expect(t, draws(t, source, 900, 900), "900 after 0s") // what is under way goes on while it may
	})
}

func TestWhatWasDrawnLastCanBeGivenBack(t *testing.T) {
	for _, as := range []limit.As{limit.Rolling, limit.Fixed, limit.FirstUse, limit.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Bounds{}, nil)
			begin(time.Hour)
			r := bytesOf(1<<20, time.Hour)
			r.Limits[0][1].Spec.As = as
			source := g.ByteSource(r)
			defer source.Close()
			drawn := int64(0)
			for i := range 100 {
				n := int64(1000 + 1000*(i%70))
				if n > 1<<20-drawn {
					break
				}
				expect(t, draws(t, source, n, n), fmt.Sprint(n, " after 0s"))
				source.Refund(n - 1)
				drawn++
				time.Sleep(time.Millisecond)
				if left := source.Left(); left > 1<<20 || left < 1<<20-2*drawn { // a bucket fills, and rounds
					t.Fatalf("%s: %d are left after %d", as, left, drawn)
				}
			}
			other := draws(t, source, 1<<20, 1<<20)
			source.Refund(1 << 20)
			if left := source.Left(); left > 1<<20 {
				t.Errorf("%s: %d are left", as, left)
			}
			source.Close()
			<-other
		})
	}
}

// What comes back lets others go at once.
func TestARefundLetsOthersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Hour)
		r := bytesOf(1000, time.Hour)
		a, b := g.ByteSource(r), g.ByteSource(r)
		expect(t, draws(t, a, 1000, 1), "1000 after 0s")
		waits := draws(t, b, 1000, 400)
		time.Sleep(time.Second)
		a.Refund(300)
		synctest.Wait()
		a.Refund(200)
		expect(t, waits, "500 after 1s")
		b.Refund(20)
		p := allow(t, g, r) // by its estimate
		p.Finish(Result{Exact: true})
		if left := a.Left(); left != 20 {
			t.Errorf("%d are left after nothing of an estimate was used", left)
		}
		a.Close()
		b.Close()
	})
}

// A byte request that waits and one that comes later follow the limits.
func TestASourceFollowsTheLimits(t *testing.T) {
	for name, change := range map[string]func(*Gate, planFunc){
		"reload": func(g *Gate, p planFunc) { g.Reload(Bounds{}, p) },
		"replan": func(g *Gate, _ planFunc) { g.Replan("a", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				amount, seen := int64(1000), uint64(0)
				plan := planFunc(func(Request) ([][]Limit, uint64) { return bytesOf(amount, time.Hour).Limits, seen })
				g := NewGate(Bounds{}, plan)
				begin(time.Hour)
				source := g.ByteSource(Request{Site: "a", Generation: 1000})
				defer source.Close()
				idle := g.ByteSource(bytesOf(1000, time.Hour))
				defer idle.Close()
				expect(t, draws(t, source, 1000, 1), "1000 after 0s")
				waits := draws(t, source, 3000, 3000)
				time.Sleep(time.Second)
				amount, seen = 5000, 1
				change(g, plan)
				expect(t, waits, "3000 after 1s")
				expect(t, draws(t, idle, 3000, 1), "1000 after 0s")
				if res := source.resources[0]; res.users != 2 || res != idle.resources[0] {
					t.Errorf("%d use the slot", res.users)
				}
			})
		})
	}
}

// A meter that asks elsewhere hears of byte requests, and they go when it has got more.
func TestAMeterHearsOfDraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		all := vaults{give: func(v *vault) { v.credit = 10; v.away = true }}
		r := bytesOf(1000, time.Hour)
		r.Limits[0][1].Source = externalFunc(all.keep)
		source := g.ByteSource(r)
		defer source.Close()
		waits := draws(t, source, 600, 100)
		v := all.last()
		if len(v.heard) != 1 || v.heard[0] != 600 {
			t.Errorf("it heard %v", v.heard)
		}
		second := draws(t, source, 50, 1)
		var refusal *Refusal
		if _, err := source.Draw(nil, Draw{Most: 5, Least: 5, Until: time.Now().Add(time.Second)}); !errors.As(err, &refusal) || refusal.Reason != Away || !refusal.RetryAt.IsZero() {
			t.Errorf("%+v", err)
		}
		g.UpdateExternal("a", func(time.Time) { v.credit = 200 })
		expect(t, waits, "200 after 1s")
		g.UpdateExternal("a", func(time.Time) { v.credit = 200 })
		expect(t, second, "50 after 1s")
		if last := v.heard[len(v.heard)-1]; last != 0 {
			t.Errorf("it heard %v", v.heard)
		}
	})
}

func TestADrawThatGoesAtOnceAllocatesNothing(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	source := g.ByteSource(bytesOf(1<<40, time.Hour))
	defer source.Close()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := source.Draw(nil, Draw{Most: 64 << 10, Least: 1}); err != nil {
			t.Fatal(err)
		}
		source.Refund(1000)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
