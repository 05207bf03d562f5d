package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Whoever has died, or is done, does not make smaller what the others are granted; what
// it has stays spent.
func TestOnlyThoseWhoAreThereShareWhatIsLeft(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		hour := func(seq uint64, want int64, holds ...store.Holding) store.Ask {
			return store.Ask{Key: "k", Kind: store.Fixed, Amount: 1000, Window: 24 * time.Hour, Seq: seq, Want: want, Holds: holds}
		}
		for _, who := range []string{"a", "b", "c"} {
			say(t, s, "", who, hour(1, 100))
		}
		_, a := say(t, s, "", "d", hour(1, 0))
		if left, holders := a.Remaining, a.Holders; holders != 4 {
			t.Fatalf("%d are left, and %d are there", left, holders)
		}
		c.forward(time.Minute + time.Microsecond)
		before := a.Remaining
		_, a = say(t, s, "", "e", hour(1, 1000))
		wantGranted(t, a, store.Done, before, 0, 1)
	})
}

// What waits is granted whole if that is fair, and not in ever smaller parts.
func TestWhatWaitsIsGrantedWhole(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		say(t, s, "", "a", fixed(1, 60))
		ask := fixed(1, 60)
		ask.Waits = 20
		_, b := say(t, s, "", "b", ask)
		wantGranted(t, b, store.Done, 20, 20, 2)
		ask.Waits = 60 // of which a sixth of the window is its part
		_, b = say(t, s, "", "c", ask)
		wantGranted(t, b, store.Done, 16, 4, 3)
	})
}

func TestOfARollingBudgetLaterSlotsAreGranted(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		ask := store.Ask{Key: "k", Kind: store.Rolling, Amount: 100, Window: time.Minute, Slots: 6, Seq: 1, Want: 70}
		_, a := say(t, s, "", "a", ask)
		w := a.Window
		c.forward(10 * time.Second)
		r, _ := say(t, s, "", "a", store.Ask{
			Key: "k", Kind: store.Rolling, Amount: 100, Window: time.Minute, Slots: 6, Seq: 2, Want: 1,
			Holds: []store.Holding{{Window: w, N: 70}, {Window: w + 1, N: 30}},
		})
		c.forward(10 * time.Second)
		ask.Want, ask.Ahead, ask.Least = 20, 20, 5
		_, answer := say(t, s, "", "c", ask)
		wantGranted(t, answer, store.Done, 0, 0, 2)
		if later := []store.Holding{{Window: w + 7, N: 20}}; !slices.Equal(answer.Later, later) {
			t.Errorf("got %v, want %v", answer.Later, later)
		}
		ask.Want, ask.Ahead = 60, 60
		_, two := say(t, s, "", "d", ask)
		if later := []store.Holding{{Window: w + 7, N: 16}}; !slices.Equal(two.Later, later) {
			t.Errorf("got %v, want %v", two.Later, later)
		}
		// What is not said any more is given back, and what is said is not granted again.
		ask.Seq, ask.Want, ask.Ahead, ask.Holds = 2, 20, 20, []store.Holding{{Window: w + 7, N: 3}}
		_, answer = say(t, s, r.Generation, "c", ask)
		if n := answer.Later; len(n) != 1 || n[0].N != 16 {
			t.Errorf("got %v", n)
		}
	})
}

// What is to last counts as of a later slot, as long as half of the amount is left, or a
// fourth to one alone.
func TestOfARollingBudgetThatIsFarALongerLeaseIsGranted(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		ask := store.Ask{Key: "k", Kind: store.Rolling, Amount: 100, Window: time.Minute, Slots: 6, Seq: 1, Want: 20, Ahead: 50, Lasts: 2}
		r, a := say(t, s, "", "a", ask)
		w := a.Window
		wantGranted(t, a, store.Done, 0, 80, 1)
		if later := []store.Holding{{Window: w + 2, N: 20}}; !slices.Equal(a.Later, later) {
			t.Errorf("got %v, want %v", a.Later, later)
		}
		ask.Seq, ask.Want, ask.Ahead, ask.Holds = 2, 60, 0, a.Later
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 60, 20, 1)
		if later := []store.Holding{{Window: w + 2, N: 20}}; !slices.Equal(a.Later, later) {
			t.Errorf("got %v, want %v", a.Later, later)
		}
		// It counts until a window after that slot.
		c.forward(70 * time.Second)
		_, a = say(t, s, r.Generation, "b", store.Ask{Key: "k", Kind: store.Rolling, Amount: 100, Window: time.Minute, Slots: 6, Seq: 1, Want: 100})
		wantGranted(t, a, store.Done, 80, 0, 1)
	})
}
