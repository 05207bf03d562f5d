package metrics

import (
	"testing"
	"time"
)

func TestTheLastMinuteForgetsWhatIsOlder(t *testing.T) {
	var r recent
	start := time.Unix(1_700_000_000, 0)
	for i := range 200 {
		r.add(start.Add(time.Duration(i) * time.Second / 2)) // two a second, for 100 s
	}
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{{99 * time.Second, 120}, {129 * time.Second, 60}, {158 * time.Second, 2}, {159 * time.Second, 0}, {time.Hour, 0}} {
		if got := r.lastMinute(start.Add(c.at)); got != c.want {
			t.Errorf("after %v: %d, want %d", c.at, got, c.want)
		}
	}
}
