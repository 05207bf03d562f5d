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
	} {
		now := time.Date(2000, 1, 2, 12, 30, 0, 0, time.UTC)
		say := func(state []byte, uses ...store.Use) (next []byte, left int64) {
			now = now.Add(time.Second)
			return merge(spec, 1)(now, state, uses, 0, 0)
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
