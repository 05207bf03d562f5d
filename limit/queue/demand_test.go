package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// vault is a meter that has what it may give from elsewhere.
type vault struct {
	limit.Meter
	credit int64
	heard  []int64
	away   bool
	stays  bool // it takes another spec
	spec   limit.Spec
}

func (v *vault) When(now time.Time, n int64) (time.Time, bool) {
	at, ok := v.Meter.When(now, n)
	if ok && !at.After(now) && n > v.credit {
		return limit.Unknown, true
	}
	return at, ok
}

func (v *vault) Take(now time.Time, n int64) { v.credit -= n; v.Meter.Take(now, n) }

func (v *vault) Left(now time.Time) int64 { return min(v.credit, v.Meter.Left(now)) }

func (v *vault) Demand(_ time.Time, units int64) { v.heard = append(v.heard, units) }

func (v *vault) Asks(now time.Time, n int64) bool {
	at, ok := v.Meter.When(now, n)
	return ok && !at.After(now) && n > v.credit
}

func (v *vault) Away(time.Time) bool { return v.away }

func (v *vault) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	if v.stays {
		v.spec = spec
		v.Meter, _ = limit.Move(now, v.Meter, spec)
	}
	return v.stays
}

func (v *vault) Past(now time.Time) []limit.Spent { return limit.PastOf(now, v.Meter) }

// vaults are those that a limit was given, the last one last.
type vaults struct {
	list []*vault
	at   []Scope
	give func(*vault) // how a new one begins
}

func (all *vaults) keep(_ string, at Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	v := &vault{Meter: m, spec: spec}
	if all.give != nil {
		all.give(v)
	}
	all.list, all.at = append(all.list, v), append(all.at, at)
	return v
}

func (all *vaults) asks(spec *limit.Spec) Request {
	r := asks("a", "x", spec)
	r.Limits[0][0].Source = externalFunc(all.keep)
	return r
}

func (all *vaults) last() *vault { return all.list[len(all.list)-1] }

func TestAMeterIsKeptOnceForEachSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		all, others := vaults{give: func(v *vault) { v.credit = 100 }}, vaults{}
		for range 3 {
			allow(t, g, all.asks(tenPerMinute())).Finish(Result{})
		}
		allow(t, g, others.asks(tenPerMinute())).Finish(Result{}) // another function
		if len(all.list) != 1 || len(others.list) != 0 {
			t.Fatalf("it was kept %d and %d times", len(all.list), len(others.list))
		}
		if v := all.last(); v.credit != 96 || v.spec != *tenPerMinute() || all.at[0] != (Scope{Limit: "limit"}) {
			t.Errorf("%d of 100 are left, for %+v of %v", v.credit, v.spec, all.at)
		}
	})
}

// What was spent stays spent, whether the meter takes the other spec or is replaced.
func TestAKeptMeterRemembersWhatWasSpentWhenItChanges(t *testing.T) {
	other := limit.Spec{As: limit.Bucket, Amount: 20, Window: time.Minute}
	for spec, more := range map[limit.Spec]int{other: 20 - 10, {As: limit.Rolling, Amount: 12, Window: time.Minute}: 2} {
		for _, stays := range []bool{true, false} {
			if stays && spec == other {
				continue // limit.Move begins anew there
			}
			t.Run(fmt.Sprint(spec.As, stays), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewGate(Bounds{}, nil)
					all := vaults{give: func(v *vault) { v.credit, v.stays = 1000, stays }}
					for range 10 {
						allow(t, g, all.asks(tenPerMinute())).Finish(Result{})
					}
					r := all.asks(&spec)
					r.Wait = time.Millisecond
					for range more {
						allow(t, g, r).Finish(Result{})
					}
					deny(t, g, r, TooLong)
					want := 2
					if stays {
						want = 1
					}
					if len(all.list) != want || all.last().spec != spec {
						t.Errorf("%d were kept, the last for %+v", len(all.list), all.last().spec)
					}
				})
			})
		}
	}
}

// A meter hears how much waits for it, and each change of that, and who waits goes
// when it has got more.
func TestAMeterHearsWhatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		all := vaults{give: func(v *vault) { v.credit = 1 }}
		went := make(chan *Permit, 10)
		for range 4 {
			go func() { went <- allow(t, g, all.asks(tenPerMinute())) }()
			synctest.Wait()
		}
		v := all.last()
		if len(went) != 1 || !slices.Equal(v.heard, []int64{1, 2, 3}) {
			t.Errorf("%d went, it heard %v", len(went), v.heard)
		}
		more := func(n int64) func(time.Time) { return func(time.Time) { v.credit += n } }
		if !g.UpdateExternal("a", more(2)) || g.UpdateExternal("b", more(1000)) {
			t.Error("a site is known that is not, or the other way round")
		}
		if synctest.Wait(); len(went) != 3 || !slices.Equal(v.heard, []int64{1, 2, 3, 1}) {
			t.Errorf("%d went, it heard %v", len(went), v.heard)
		}
		g.UpdateExternal("a", more(5))
		if synctest.Wait(); len(went) != 4 || v.heard[len(v.heard)-1] != 0 {
			t.Errorf("%d went, it heard %v", len(went), v.heard)
		}
		for range 4 {
			(<-went).Finish(Result{})
		}
		nobodyWaits(t, g)
	})
}

// Credit that may come at any moment is waited for, also by who does not wait for a
// limit, and where nobody gives any, that is why it is refused.
func TestWhoWaitsForCreditIsRefusedAtTheDeadline(t *testing.T) {
	for _, away := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Bounds{Wait: time.Minute}, nil)
			all := vaults{give: func(v *vault) { v.away = away }}
			r := all.asks(tenPerMinute())
			r.Limits[0][0].Refuse = true
			why := TooLong
			if away {
				why = Away
			}
			start := time.Now()
			deny(t, g, r, why)
			if took := time.Since(start); took != time.Minute {
				t.Errorf("it was refused after %v", took)
			}
		})
	}
}

// One that is refused at once would have had some, too: the meter hears of it, and
// at the next turn that nobody waits.
func TestAMeterHearsOfWhoDidNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Second}, nil)
		all := vaults{give: func(v *vault) { v.credit = 100 }}
		for range 10 {
			allow(t, g, all.asks(tenPerMinute())).Finish(Result{})
		}
		deny(t, g, all.asks(tenPerMinute()), TooLong)
		v := all.last()
		if !slices.Equal(v.heard, []int64{1}) {
			t.Errorf("it heard %v", v.heard)
		}
		g.UpdateExternal("a", func(time.Time) {})
		if !slices.Equal(v.heard, []int64{1, 0}) {
			t.Errorf("it heard %v", v.heard)
		}
	})
}

// A meter that is replaced is not left with a demand that nobody takes back.
func TestAMeterThatIsReplacedHearsThatNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := tenPerMinute()
		all := vaults{}
		limits := func(Request) [][]Limit {
			r := all.asks(spec)
			return r.Limits
		}
		g := NewGate(Bounds{}, plans(limits))
		done := make(chan struct{})
		go func() {
			allow(t, g, all.asks(spec)).Finish(Result{})
			close(done)
		}()
		synctest.Wait()
		spec = &limit.Spec{As: limit.Fixed, Amount: 7, Window: time.Hour}
		g.Reload(Bounds{}, plans(limits))
		if len(all.list) != 2 || !slices.Equal(all.list[0].heard, []int64{1, 0}) || !slices.Equal(all.list[1].heard, []int64{1}) {
			t.Errorf("%d meters, the first heard %v, the last %v", len(all.list), all.list[0].heard, all.last().heard)
		}
		g.UpdateExternal("a", func(time.Time) { all.last().credit = 1 })
		<-done
	})
}

func TestASiteIsRememberedWhileWhatIsKeptForItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		all := vaults{give: func(v *vault) { v.credit = 1 }}
		allow(t, g, all.asks(tenPerMinute())).Finish(Result{})
		s := g.lock("a")
		s.mu.Unlock()
		if s.leaves(time.Now()) {
			t.Error("it is forgotten while its meter remembers something")
		}
		time.Sleep(time.Hour)
		if !s.leaves(time.Now()) || g.UpdateExternal("a", func(time.Time) { t.Error("it is touched") }) {
			t.Error("it is not forgotten")
		}
	})
}

func TestWrittenLimitsAreVisitedWithWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		r := asks("a", "x", tenPerMinute())
		r.Limits[0] = append(r.Limits[0], made("", newBudget(5, time.Hour)).Limits[0]...)
		r.Limits[0] = append(r.Limits[0], Limit{Name: "token", Key: "key"})
		allow(t, g, r).Finish(Result{})
		seen := 0
		g.VisitLoadedResources(func(now time.Time, at ResourceInfo) {
			if at.Spec == nil {
				return
			}
			seen++
			if at.Site != "a" || at.At.Limit != "limit" || at.Title != "limit" || *at.Spec != *tenPerMinute() || at.Left(now) != 9 || at.Meter == nil {
				t.Errorf("%+v: %d", at, at.Left(now))
			}
		})
		if seen != 1 {
			t.Errorf("%d were visited", seen)
		}
	})
}

// When credit comes nobody knows, but what waits longer than the limit itself lets
// pass is foreseen.
func TestALongQueueForCreditIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: time.Minute}, nil)
		all := vaults{}
		refused := make(chan *Refusal, 30)
		start := time.Now()
		for range 30 {
			go func() { refused <- deny(t, g, all.asks(tenPerMinute()), TooLong) }()
			synctest.Wait()
		}
		if n := len(refused); n < 5 || n > 15 {
			t.Errorf("%d are refused at once", n)
		}
		for range 30 {
			<-refused
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the others are after %v", took)
		}
	})
}
