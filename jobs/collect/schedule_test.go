package collect

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is slow, fails or is held back: no target is asked outside of its place or twice at
// once, and each round of each target is asked, missed or left out because the target fails.
func TestEachRoundOfATargetIsAskedOrCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.IntRange(1, 60).Draw(t, "every")) * time.Second
		now := time.Unix(1_000_000, 0).Add(time.Duration(rapid.Int64Range(0, int64(every)).Draw(t, "start")))
		var list []*target
		for i := range rapid.IntRange(1, 20).Draw(t, "targets") {
			list = append(list, &target{key: fmt.Sprint(i), host: fmt.Sprint(i % 3), priority: i % 2})
		}
		s := newSchedule(every, list, now)
		var busy []*target
		asked, rounds := 0, map[*target]map[int64]bool{}
		for range 200 {
			for lone := s.begin(now); lone != nil; lone = s.begin(now) {
				n := s.number(lone.at)
				if want := time.Unix(0, n*int64(every)).Add(lone.place); !lone.at.Equal(want) || lone.at.After(now) || now.Sub(lone.at) >= every {
					t.Fatalf("at %v it begins the place %v of round %d, not %v", now, lone.at, n, want)
				}
				if rounds[lone] == nil {
					rounds[lone] = map[int64]bool{}
				}
				if rounds[lone][n] {
					t.Fatalf("round %d is asked twice", n)
				}
				rounds[lone][n] = true
				asked++
				busy = append(busy, lone)
			}
			if len(busy) > 0 && rapid.Bool().Draw(t, "ends") {
				switch item := busy[0]; rapid.IntRange(0, 5).Draw(t, "how") {
				case 0:
					s.miss(item, now)
				case 1:
					s.end(item, now, false)
				default:
					s.end(item, now, true)
				}
				busy = busy[1:]
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(every)/2).Draw(t, "passes")))
			for _, one := range s.due.Items() {
				if one.failures == 0 && one.at.Sub(now) > every {
					t.Fatalf("a target that answers waits for %v", one.at.Sub(now))
				}
				if one.at.Sub(now) > (slowest+1)*every {
					t.Fatalf("a target that fails waits for %v", one.at.Sub(now))
				}
			}
		}
		if asked == 0 {
			t.Fatal("nothing was asked")
		}
	})
}

func TestPlacesAreSpreadAndStay(t *testing.T) {
	places := func(now time.Time) map[string]time.Duration {
		var list []*target
		for i := range 1000 {
			list = append(list, &target{key: fmt.Sprint(i), host: fmt.Sprint(i % 7), priority: 4 - i%2})
		}
		newSchedule(30*time.Second, list, now)
		all := map[string]time.Duration{}
		second := map[time.Duration]int{}
		for _, one := range list {
			all[one.key] = one.place
			second[one.place.Truncate(time.Second)]++
		}
		for at, n := range second {
			if n < 30 || n > 37 {
				t.Errorf("%d targets are asked in second %v", n, at)
			}
		}
		return all
	}
	single, other := places(time.Unix(1_000_000, 0)), places(time.Unix(1_234_567, 8))
	for key, place := range single {
		if other[key] != place {
			t.Fatalf("after a restart the place of %s is %v, not %v", key, other[key], place)
		}
		if urgent := key[len(key)-1]%2 == 1; urgent != (place < 15*time.Second) {
			t.Fatalf("%s is asked at %v", key, place)
		}
	}
}

func TestATargetThatFailsIsAskedMoreRarelyAndComesBack(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	item := &target{key: "a"}
	s := newSchedule(time.Second, []*target{item}, now)
	var pauses []int
	last := time.Time{}
	for range 10 {
		now = s.due.Top().at
		if !last.IsZero() {
			pauses = append(pauses, int(now.Sub(last)/time.Second))
		}
		last = now
		s.begin(now)
		s.end(item, now, false)
	}
	if got := fmt.Sprint(pauses); got != "[1 2 4 8 16 32 32 32 32]" {
		t.Errorf("pauses of %s rounds", got)
	}
	now = s.due.Top().at
	s.begin(now)
	s.end(item, now, true)
	if next := s.due.Top().at; next.Sub(now) != time.Second {
		t.Errorf("after an answer it is asked again in %v", next.Sub(now))
	}
}
