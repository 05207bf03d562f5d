package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whenever answers come, the bars have all of them, and each bar has those of its time.
func TestBarsHaveAllAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := series{start: noon}
		at := noon
		var times []time.Time
		step := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Hour, 24 * time.Hour}).Draw(t, "step")
		for range rapid.IntRange(1, 3000).Draw(t, "answers") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(step)).Draw(t, "pause")))
			s.add(at)
			times = append(times, at)
		}
		list := s.bars(at)
		if len(list) == 0 || len(list) > mostBars {
			t.Fatalf("%d bars", len(list))
		}
		for i, bar := range list {
			n := int64(0)
			for _, one := range times {
				if !one.Before(bar.At) && (i == len(list)-1 || one.Before(list[i+1].At)) {
					n++
				}
			}
			if n != bar.Requests {
				t.Fatalf("bar %d of %v has %d, not %d", i, bar.At, bar.Requests, n)
			}
		}
	})
}
