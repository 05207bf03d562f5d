package ledger

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

func hostileNumber(t *rapid.T, name string) learn.Amount {
	return learn.Amount{
		N: rapid.OneOf(
			rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 1e18, 1e-300, 0.5, 100}),
			rapid.Float64Range(0, 200),
		).Draw(t, name),
		Known: rapid.Bool().Draw(t, name+" known"),
	}
}

func hostileTime(t *rapid.T, now time.Time, name string) time.Time {
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]int64{0, 1, -1, 1e9, -1e18, math.MaxInt64, math.MinInt64, 1e15, 60e9}), func(n int64) time.Time { return now.Add(time.Duration(n)) }),
		rapid.SampledFrom([]time.Time{{}, time.Unix(0, 0), time.Unix(1<<60, 0), limit.Unknown}),
		rapid.Map(rapid.Int64Range(0, 100e9), func(n int64) time.Time { return now.Add(time.Duration(n)) }),
	).Draw(t, name)
}

// Whatever a server says, and whoever calls what, nothing panics, nothing
// overflows, and a wait ends.
func TestNothingThatIsSaidIsTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := New(Options{
			Unit: rapid.SampledFrom([]learn.Unit{learn.Requests, learn.Tokens, learn.Concurrent, learn.Percent}).Draw(t, "unit"),
			Reserve: Reserve{
				Units:   rapid.SampledFrom([]int64{0, 1, -5, math.MaxInt64}).Draw(t, "reserve"),
				Percent: rapid.SampledFrom([]float64{0, 10, -1, 1e9, math.NaN()}).Draw(t, "percent"),
			},
		})
		now := epoch
		var taken []time.Time
		some := func() time.Time {
			if len(taken) == 0 || rapid.IntRange(0, 9).Draw(t, "other") == 0 {
				return hostileTime(t, now, "taken")
			}
			return rapid.SampledFrom(taken).Draw(t, "taken")
		}
		n := func() int64 {
			return rapid.SampledFrom([]int64{1, 1, 1, 2, 0, -1, math.MaxInt64, 1 << 49}).Draw(t, "n")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{0, 1, 1e6, 1e9, 60e9, 4000e9, -1e9, -1e12}).Draw(t, "later")))
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				n := n()
				if at, ok := l.When(now, n); ok && !at.After(now) || n > 1 {
					l.Take(now, n)
					taken = append(taken, now)
				}
			case 3, 4, 5:
				l.Update(now, Answer{
					Sent: some(), Units: n(), Refused: rapid.Bool().Draw(t, "refused"), RetryAt: hostileTime(t, now, "retry"), Named: rapid.Bool().Draw(t, "named"),
					Limit: learn.Limit{
						Limit: hostileNumber(t, "limit"), Remaining: hostileNumber(t, "remaining"), Used: hostileNumber(t, "used"),
						Reset: hostileTime(t, now, "reset"), Next: hostileTime(t, now, "next"),
						Resolution: time.Duration(rapid.SampledFrom([]int64{0, 1e9, math.MaxInt64, -1}).Draw(t, "resolution")),
						Relative:   rapid.Bool().Draw(t, "relative"),
						Window:     time.Duration(rapid.SampledFrom([]int64{0, 1, 1e9, 60e9, math.MaxInt64, -1}).Draw(t, "window")),
						Rate:       rapid.SampledFrom([]float64{0, 0, 1, 1e-12, 1e300, -1, math.NaN(), math.Inf(1)}).Draw(t, "rate"),
					},
				})
			case 6:
				l.Done(now, some(), n(), limit.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome")))
			case 7:
				l.Give(now, some(), n())
			case 8:
				l.Settle(now, some(), n(), n())
				l.Postpone(now, some(), n())
			case 9:
				state := l.State()
				m := New(l.options)
				if err := m.Restore(now, state); err != nil {
					t.Fatalf("its own state: %v: %s", err, state)
				}
			}
			if math.IsNaN(l.allowance.level) || math.Abs(l.allowance.level) > float64(maxAmount) || !(l.allowance.cost.each > 0) || math.IsNaN(l.allowance.refill.rate) {
				t.Fatalf("level %v cost %v rate %v", l.allowance.level, l.allowance.cost.each, l.allowance.refill.rate)
			}
			if f := &l.allowance.flights; f.unanswered() < 0 || f.busy < 0 || f.answered < 0 {
				t.Fatalf("taken %d answered %d busy %d", f.taken, f.answered, f.busy)
			}
			s := l.Status(now)
			if s.Remaining < -1 || s.Limit < -1 || l.Left(now) < 0 || s.Own < 0 || s.Foreign < 0 {
				t.Fatalf("%+v left %d", s, l.Left(now))
			}
			at, ok := l.When(now, 1)
			if ok && !at.Equal(limit.Unknown) && at.Sub(now) > 32*24*time.Hour {
				t.Fatalf("it waits for %v", at.Sub(now))
			}
			l.Idle(now)
		}
	})
}

// Whatever is found where a state was stored does no harm.
func TestADamagedStateDoesNoHarm(t *testing.T) {
	t.Parallel()
	d := newDriver(&testing.T{}, Options{})
	d.hear(d.send(), d.says(10, 9, 60))
	p := NewHiddenRate(History{Accepted: 30, Lasted: 10 * time.Second})
	p.Refused(epoch, Refusal{Sent: epoch, RetryAt: time.Time{}})
	for _, good := range [][]byte{d.m.State(), p.State()} {
		rapid.Check(t, func(t *rapid.T) {
			b := append([]byte(nil), good...)
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					b[at] = rapid.SampledFrom([]byte(`0123456789-+e.,:"{}`)).Draw(t, "byte")
				case 1:
					b = append(b[:at], b[at+1:]...)
				case 2:
					b = append(b[:at], append([]byte("9"), b[at:]...)...)
				}
			}
			for _, m := range []limit.Meter{New(Options{}), NewHiddenRate(History{Accepted: 10, Lasted: 10 * time.Second})} {
				_ = m.Restore(epoch, b)
				at, ok := m.When(epoch, 1)
				if !ok || at.Before(epoch) {
					t.Fatalf("%v %v after %s", at, ok, b)
				}
				if !at.Equal(limit.Unknown) && at.Sub(epoch) > 63*24*time.Hour {
					t.Fatalf("it waits until %v after %s", at, b)
				}
				m.Take(epoch, 1)
				m.Done(epoch, epoch, 1, limit.Success)
				m.Left(epoch)
				m.Idle(epoch)
				m.State()
			}
		})
	}
}
