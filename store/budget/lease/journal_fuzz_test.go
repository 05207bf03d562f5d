package lease

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// Whatever a journal or another process has written of a budget, no more than its amount
// may be taken, and all of it is there again after two windows and what is owed.
func FuzzJournal(f *testing.F) {
	kinds := []limit.Spec{
		{As: limit.Fixed, Amount: 10, Window: time.Minute},
		{As: limit.Quota, Amount: 10, Period: limit.Day},
		{As: limit.Rolling, Amount: 10, Window: time.Minute},
		{As: limit.FirstUse, Amount: 10, Window: time.Minute},
		{As: limit.Bucket, Amount: 10, Window: time.Minute, Burst: 5},
		{As: limit.Paced, Amount: 10, Window: time.Minute},
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, spec := range kinds {
		m, err := limit.New(spec)
		if err != nil {
			f.Fatal(err)
		}
		m.Take(began, 3)
		f.Add(byte(i), m.State(), int64(2), int64(1), int64(-1), int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, which byte, state []byte, ahead, others, used, offset int64) {
		spec := kinds[int(which)%len(kinds)]
		now := began.Add(time.Duration(offset) % (50 * 365 * 24 * time.Hour))
		m, err := limit.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		m, _ = Restore(now, spec, m, state, ahead)
		if left := m.Left(now); left < 0 || left > spec.Amount {
			t.Fatalf("%v: %d left of %d", spec.As, left, spec.Amount)
		}
		uses := []store.Use{{Seq: 1, At: now, N: used}, {Seq: 2, At: began, N: -used}}
		next, left, _ := merge(spec, 1, nil)(now, state, uses, max(ahead, 0), max(others, 0))
		if left < 0 || left > spec.Amount {
			t.Fatalf("%v: %d of %d may be taken", spec.As, left, spec.Amount)
		}
		if again, after, _ := merge(spec, 1, nil)(now, next, nil, 0, max(others, 0)); len(again) > 0 && after > left {
			t.Fatalf("%v: %d may be taken, and with what was written %d", spec.As, left, after)
		}
	})
}
