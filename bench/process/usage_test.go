package process

import (
	"testing"
	"time"
)

func TestProcessTimesAreReadWhateverTheProgramIsCalled(t *testing.T) {
	s, err := parseStat("42 (a) b (c) S 7 1 1 0 -1 4194560 1 0 0 0 150 25 30 5 20 0 1 0 100 1 1")
	if err != nil {
		t.Fatal(err)
	}
	if want := (procStat{parent: 7, own: 1750 * time.Millisecond, reaped: 350 * time.Millisecond}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	for _, line := range []string{"", "1 nameless", "1 (short) S 1 2", "1 (x) S p 1 1 0 -1 4 1 0 0 0 1 2 3 4 20"} {
		if _, err := parseStat(line); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}
