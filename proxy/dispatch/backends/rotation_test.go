package backends

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTurnsAreExactlyThoseOfTheWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 12), 1, 6).Draw(t, "weights")
		sum, all := 0, make([]int, len(weights))
		for i, w := range weights {
			sum, all[i] = sum+w, i
		}
		r := newRotation(weights)
		r.now = farTurn - 5 // counted from zero again on the way
		for i := range r.turn {
			r.turn[i] = r.now
		}
		got := make([]int, len(weights))
		const rounds = 20
		for range rounds * sum {
			got[next(r, all)]++
		}
		for i, w := range weights {
			if got[i] != rounds*w {
				t.Fatalf("weights %v: %v in %d rounds", weights, got, rounds)
			}
		}
	})
}

// next gives one of several backends its turn.
func next(r *rotation, among []int) int {
	first := slices.MinFunc(among, func(a, b int) int {
		x, y := r.rank(a, 0), r.rank(b, 0)
		return slices.Compare(x[:], y[:])
	})
	r.take(first)
	return first
}

func TestABackendThatWasNotReadyDoesNotCatchUp(t *testing.T) {
	r := newRotation([]int{1, 1})
	for range 100 {
		next(r, []int{0})
	}
	got := [2]int{}
	for range 10 {
		got[next(r, []int{0, 1})]++
	}
	if got[0] < 4 || got[1] < 4 {
		t.Errorf("%v of 10", got)
	}
}

func TestAWeightCountsInEveryBalance(t *testing.T) {
	for _, balance := range []string{"round-robin", "least-loaded", "adaptive", "sticky"} {
		p := equals(2, balance)
		p.Hosts[0].weight, p.Hosts[1].weight = 3, 1
		p.rotation = newRotation([]int{3, 1})
		p.sticky = balance == "sticky"
		got := [2]int{}
		for i := range 4000 { // none of them ends
			at := p.pick([]int{0, 1}, fmt.Sprint(i), time.Now())
			p.Hosts[at].Load.Begin()
			got[at]++
		}
		slack := 4
		if p.sticky {
			slack = 300 // ten times the deviation that is usual
		}
		if got[0] < 3000-slack || got[0] > 3000+slack {
			t.Errorf("%s: %v of 4000", balance, got)
		}
	}
}
