package problem

import (
	"maps"
	"slices"
	"testing"
)

func TestReasonsAreThoseOfAllProblems(t *testing.T) {
	want := slices.Sorted(maps.Keys(answerReasons(t)))
	if got := slices.Sorted(maps.Keys(Titles())); !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
