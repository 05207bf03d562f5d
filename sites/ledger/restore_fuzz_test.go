package ledger

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// fuzzBegan is when fuzzed states are read. No time after 2242 is counted.
var fuzzBegan = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fuzzTime(offset int64) time.Time {
	return fuzzBegan.Add(time.Duration(offset) % (50 * 365 * 24 * time.Hour))
}

// passes lets requests go as soon as a meter says so, and checks that it says so again and
// again, and never later than by what a server may announce.
func passes(t *testing.T, m limit.Meter, now time.Time, farthest int64) {
	t.Helper()
	for range 20 {
		at, ok := m.When(now, 1)
		if !ok {
			t.Fatalf("one can never go")
		}
		if wait := at.Sub(now); int64(wait) > farthest {
			t.Fatalf("one may go in %v", wait)
		}
		if at.After(now) {
			now = at
		}
		m.Take(now, 1)
		m.Done(now, now, 1, limit.Success)
	}
	if len(m.State()) > 4096 {
		t.Fatalf("its state has %d bytes", len(m.State()))
	}
}

// Whatever is kept of a ledger, nobody waits for longer than the farthest that a server may
// announce, and what it says of itself can be read again.
func FuzzLedgerRestore(f *testing.F) {
	f.Add([]byte(`{"v":1}`), int64(0))
	l := New(Options{})
	f.Add(l.State(), int64(0))
	l.AcceptReport(fuzzBegan, WindowReport{Limit: 10, Used: 3, Reset: fuzzBegan.Add(time.Minute), Window: time.Minute})
	f.Add(l.State(), int64(time.Hour))
	f.Fuzz(func(t *testing.T, state []byte, offset int64) {
		now, l := fuzzTime(offset), New(Options{})
		if l.Restore(now, state) != nil {
			return
		}
		if left := l.Left(now); left < 0 || left > maxAmount {
			t.Fatalf("%d are left", left)
		}
		if err := New(Options{}).Restore(now, l.State()); err != nil {
			t.Fatalf("its own state: %v", err)
		}
		passes(t, l, now, 2*maxAhead)
	})
}

// Whatever another instance tells of a window, nobody waits for longer than that.
func FuzzReport(f *testing.F) {
	for _, one := range []WindowReport{{}, {Limit: 10, Used: 3, Reset: fuzzBegan.Add(time.Minute), Window: time.Minute, Number: 7}} {
		text, _ := json.Marshal(one)
		f.Add(text, []byte(nil), int64(0))
	}
	f.Fuzz(func(t *testing.T, text, state []byte, offset int64) {
		var windowReport WindowReport
		now, l := fuzzTime(offset), New(Options{})
		if json.Unmarshal(text, &windowReport) != nil {
			return
		}
		_ = l.Restore(now, state)
		l.AcceptReport(now, windowReport)
		if report, ok := l.Report(now); ok && (report.Used < 0 || report.Limit < 0 || !report.Reset.After(now)) {
			t.Fatalf("it tells %+v", report)
		}
		passes(t, l, now, 2*maxAhead)
	})
}

// Whatever is kept of a pace, it goes on.
func FuzzPaceRestore(f *testing.F) {
	f.Add(NewHiddenRate(History{Accepted: 30, Lasted: 10 * time.Second}).State(), int64(0))
	f.Add([]byte(`{"v":1,"rate":1e-9}`), int64(1))
	f.Fuzz(func(t *testing.T, state []byte, offset int64) {
		now, p := fuzzTime(offset), NewHiddenRate(History{})
		if p.Restore(now, state) != nil {
			return
		}
		if err := NewHiddenRate(History{}).Restore(now, p.State()); err != nil {
			t.Fatalf("its own state: %v", err)
		}
		passes(t, p, now, 2*maxAhead)
	})
}
