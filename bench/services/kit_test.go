package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheKitHas54Kinds, each with a name and an ideal time that fits into a run.
func TestTheKitHas54Kinds(t *testing.T) {
	t.Parallel()
	kinds := kitKinds()
	if len(kinds) != 54 {
		t.Errorf("%d kinds", len(kinds))
	}
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.name] {
			t.Errorf("%s is there twice", k.name)
		}
		seen[k.name] = true
		for _, clients := range []int{1, 8, 32} {
			k := k.sized(clients)
			ideal := k.ideal(clients, start)
			if ideal < 2*time.Second || ideal > 2*time.Minute {
				t.Errorf("%s, %d clients: the ideal time is %v", k.name, clients, ideal)
			}
		}
	}
}

// TestTheKitCrawlsThroughTheBuiltBinary looks at no time, so that it does not depend on the machine.
func TestTheKitCrawlsThroughTheBuiltBinary(t *testing.T) {
	t.Parallel()
	k := &kit{clients: []int{4}, longest: 3 * time.Minute}
	for _, kind := range kitKinds() {
		if slices.Contains([]string{"window-20-in-4s", "ietf-07", "pool-own"}, kind.name) {
			short := *kind
			short.requests = 35
			k.kinds = append(k.kinds, &short)
		}
	}
	trials, err := k.run(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range trials {
		if c.abide.errors > 0 || c.abide.served != c.kind.requests {
			t.Errorf("%s: served %d of %d, %d errors, such as %s", c.kind.name, c.abide.served, c.kind.requests, c.abide.errors, c.abide.failed)
		}
	}
	if text := kitReport(trials); !strings.Contains(text, "| pool-own | 4 | 35 |") {
		t.Errorf("a row is missing:\n%s", text)
	}
}

// TestTheKitIsCrawledInVirtualTime: every kind but the one whose client is blocked ends.
func TestTheKitIsCrawledInVirtualTime(t *testing.T) {
	t.Parallel()
	for _, kind := range kitKinds() {
		if kind.blocked {
			continue
		}
		sized := kind.sized(8)
		sized.host = kind.through()
		sum, err := sized.simulate(8, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(sum.ratios) != 1 || sum.ratios[0] <= 0 || sum.ratios[0] > 20 {
			t.Errorf("%s: times the ideal: %v", kind.name, sum.ratios)
		}
	}
}

func TestTheBoundsOfTheKit(t *testing.T) {
	hidden, announced := &kitKind{bound: bound{amounts: 1}}, &kitKind{}
	hidden.requests, announced.requests = 300, 300
	for _, c := range []struct {
		name         string
		kind         *kitKind
		abide, retry outcome
		want         string
	}{
		{"hidden", hidden, outcome{took: 60 * time.Second, refused: 11}, outcome{took: 60 * time.Second, refused: 40}, ""},
		{"refused too often", hidden, outcome{took: 60 * time.Second, refused: 12}, outcome{took: 60 * time.Second, refused: 40}, "12 refused, not 11"},
		{"too slow", hidden, outcome{took: 100 * time.Second}, outcome{took: 200 * time.Second}, "1.67 × ideal, not 1.50"},
		{"announced", announced, outcome{took: 66 * time.Second}, outcome{took: 66 * time.Second}, ""},
		{"announced and refused", announced, outcome{took: 60 * time.Second, refused: 1}, outcome{took: 60 * time.Second}, "1 refused, not 0"},
		{"slower than Retry", hidden, outcome{took: 80 * time.Second}, outcome{took: 60 * time.Second}, "1.33 × Retry's time"},
		{"slower than a Retry that gave pages up", hidden, outcome{took: 80 * time.Second}, outcome{took: 60 * time.Second, errors: 1}, ""},
		{"errors", hidden, outcome{took: 60 * time.Second, errors: 2}, outcome{took: 60 * time.Second}, "2 errors"},
		{"more than a third", hidden, outcome{took: 60 * time.Second, refused: 5}, outcome{took: 60 * time.Second, refused: 14}, "5 refused, and 14 of Retry"},
	} {
		got := strings.Join((&trial{kind: c.kind, clients: 8, ideal: time.Minute, abide: &c.abide, retry: &c.retry}).faults(), "; ")
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// TestStagesChangeTheirRule, and next says when, also of a time in another stage.
func TestStagesChangeTheirRule(t *testing.T) {
	began := start.Truncate(8 * time.Second)
	s := &stages{each: 8 * time.Second, rules: []rule{starting(time.Hour, 1), starting(time.Second, 2)}}
	if at := s.next(began, 1); !at.Equal(began) {
		t.Errorf("the first waits until %v", at)
	}
	s.take(began, 1)
	if at, want := s.next(began.Add(time.Second), 1), began.Add(8*time.Second); !at.Equal(want) {
		t.Errorf("the second goes at %v, not at %v", at, want)
	}
}
