package lease

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// What a process takes of a window that others use, too, and gives back, is there again in it:
// other processes have restored the state meanwhile, and it has what was taken.
func TestWhatIsGivenBackOfABudgetThatSeveralUseIsThereAgain(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Fixed, Amount: 10, Window: time.Hour},
		{As: limit.Quota, Amount: 10, Period: limit.Day},
		{As: limit.Rolling, Amount: 10, Window: time.Hour},
		{As: limit.Bucket, Amount: 10, Window: time.Hour, Burst: 10},
	} {
		now := time.Date(2000, 1, 2, 12, 30, 0, 0, time.UTC)
		say := func(state []byte, uses ...store.Use) (next []byte, left int64) {
			now = now.Add(time.Second)
			next, left, _ = merge(spec, 1, nil)(now, state, uses, 0, 0)
			return next, left
		}
		state, _ := say(nil, store.Use{N: 3, At: now})
		taken := now.Add(300 * time.Millisecond)
		state, _ = say(state, store.Use{N: 2, At: now})
		state, left := say(state, store.Use{N: 1, At: now}, store.Use{N: -1, At: taken})
		if left != 5 {
			t.Errorf("%+v: %d are left of 10 when 5 are used", spec, left)
		}
		// What was taken in a window that is over is not given back to this one.
		before := now
		now = now.Add(24 * time.Hour)
		if _, left = say(state, store.Use{N: 4, At: now}, store.Use{N: -2, At: before}); left != 6 {
			t.Errorf("%+v: %d are left in a later window", spec, left)
		}
	}
}

// What several processes used of a first-use limit before a restart is charged after it only
// as long as it counts.
func TestWhatSeveralUsedBeforeARestartComesBack(t *testing.T) {
	spec := limit.Spec{As: limit.FirstUse, Amount: 10, Window: time.Minute}
	now := time.Date(2000, 1, 2, 12, 30, 0, 0, time.UTC)
	state, _, _ := merge(spec, 1, nil)(now, nil, []store.Use{{N: 4, At: now}}, 0, 0)
	for after, want := range map[time.Duration]int64{time.Second: 6, time.Hour: 10} {
		m, err := limit.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		m, err = Restore(now.Add(after), spec, m, state, 0)
		if err != nil || m.Left(now.Add(after)) != want {
			t.Errorf("%d are left of 10 after %v, not %d; %v", m.Left(now.Add(after)), after, want, err)
		}
	}
}

// A request may arrive up to a margin after it was taken. It counts until then, however often
// other processes restore the state meanwhile.
func TestWhatIsInFlightCountsWhenOtherProcessesWrite(t *testing.T) {
	begin := time.Date(2000, 1, 2, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		as    limit.As
		taken time.Duration // since a window of a minute has begun; its margin is 468.75 ms
		frees time.Duration
	}{
		{limit.Rolling, 0, time.Minute + 468750*time.Microsecond},
		{limit.Fixed, time.Minute - 400*time.Millisecond, 2 * time.Minute},
		{limit.Fixed, time.Minute - 500*time.Millisecond, time.Minute},
	} {
		spec := limit.Spec{As: c.as, Amount: 10, Window: time.Minute}
		var state []byte
		var left int64
		say := func(after time.Duration, uses ...store.Use) int64 {
			state, left, _ = merge(spec, 1, nil)(begin.Add(after), state, uses, 0, 0)
			return left
		}
		say(c.taken, store.Use{N: 4, At: begin.Add(c.taken)})
		say(c.taken + 100*time.Millisecond)
		say(c.taken + 200*time.Millisecond)
		if left := say(c.frees - 1); left != 6 {
			t.Errorf("%s: taken after %v, %d are left of 10 when 4 may have arrived", c.as, c.taken, left)
		}
		if left := say(c.frees); left != 10 {
			t.Errorf("%s: taken after %v, %d are left of 10 after %v", c.as, c.taken, left, c.frees)
		}
	}
}
