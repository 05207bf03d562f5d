package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// promise is what a limit promises to a site: at most so much in each of its windows, whenever
// requests arrive. late is the longest time from when units are taken until they arrive.
type promise struct {
	spec limit.Spec
	late time.Duration
}

// margin is the longest way of a request that a limit allows for, as docs/state.md has it.
func margin(window time.Duration) time.Duration {
	return min(max(window/128, 5*time.Millisecond), window/8)
}

// over returns by how many units the worst window has too much, and which one that is. It takes for
// each window the times of arrival that are worst for it.
func (p promise) over(uses []use) (most int64, which string) {
	slices.SortFunc(uses, func(a, b use) int { return a.At.Compare(b.At) })
	worse := func(n float64, format string, args ...any) {
		if n > float64(most)+1e-3 {
			most, which = int64(n+1-1e-3), fmt.Sprintf(format, args...)
		}
	}
	amount := float64(p.spec.Amount)
	switch p.spec.As {
	case limit.Fixed, limit.Quota:
		width := p.spec.Window
		if p.spec.As == limit.Quota {
			width = 24 * time.Hour // per day, in UTC
		}
		sums := map[int64]float64{}
		for _, u := range uses {
			first := u.At.UnixNano() / int64(width)
			for w := first; w <= u.At.Add(max(p.late-1, 0)).UnixNano()/int64(width); w++ {
				sums[w] += float64(u.N)
			}
		}
		for w, n := range sums {
			worse(n-amount, "%.0f of %.0f in the window from %v on", n, amount, time.Unix(0, w*int64(width)).UTC())
		}
	case limit.FirstUse:
		sum, end := 0.0, time.Time{}
		for _, u := range uses {
			if !u.At.Before(end) {
				sum, end = 0, u.At.Add(p.spec.Window)
			}
			sum += float64(u.N)
			worse(sum-amount, "%.0f of %.0f in the window until %v", sum, amount, end.UTC())
		}
	case limit.Rolling:
		n := p.within(uses, p.spec.Window+p.late)
		worse(float64(n)-amount, "%d of %.0f within a window", n, amount)
	case limit.Bucket, limit.Paced:
		burst := float64(p.spec.AtOnce())
		if p.spec.As == limit.Paced {
			burst = 1
		}
		rate := amount / p.spec.Window.Seconds()
		for i, first := range uses {
			sum := 0.0
			for _, u := range uses[i:] {
				sum += float64(u.N)
				arrive := max(u.At.Sub(first.At)-p.late, 0).Seconds()
				allowed := burst + rate*arrive
				if p.spec.As == limit.Paced { // the units before have passed when the next goes
					allowed += float64(u.N) - 1
				}
				worse(sum-allowed, "%.0f from %v until %v, of %.2f", sum, first.At.UTC(), u.At.UTC(), allowed)
			}
		}
	}
	return most, which
}

// within is the most that was taken in any time that is shorter than a length.
func (p promise) within(uses []use, length time.Duration) (most int64) {
	sum, first := int64(0), 0
	for _, u := range uses {
		for sum += u.N; u.At.Sub(uses[first].At) >= length; first++ {
			sum -= uses[first].N
		}
		most = max(most, sum)
	}
	return most
}

// total is all that was taken.
func total(uses []use) (n int64) {
	for _, u := range uses {
		n += u.N
	}
	return n
}

func TestTheSweepFindsTheWindowThatHasTooMuch(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds ...float64) (list []use) {
		for _, s := range seconds {
			list = append(list, use{begin.Add(time.Duration(s * float64(time.Second))), 1})
		}
		return list
	}
	second := limit.Spec{Amount: 2, Window: time.Second, Burst: 2}
	for _, c := range []struct {
		as   limit.As
		late time.Duration
		uses []use
		over int64
	}{
		{limit.Fixed, 0, at(0, 0.5, 1, 1.9), 0},
		{limit.Fixed, 0, at(0, 0.5, 0.9), 1},
		{limit.Fixed, 100 * time.Millisecond, at(0.5, 0.95, 1, 1.5), 1}, // that of 0.95 may arrive at 1.04
		{limit.Fixed, 100 * time.Millisecond, at(0.5, 0.9, 1, 1.5), 0},
		{limit.Quota, 0, at(0, 86399, 86400, 86401), 0},
		{limit.Quota, 0, at(0, 86398, 86399), 1},
		{limit.Rolling, 0, at(0, 0.5, 1, 1.5), 0},
		{limit.Rolling, 0, at(0, 0.5, 0.9), 1},
		{limit.Rolling, 100 * time.Millisecond, at(0, 0.5, 1.09), 1},
		{limit.Rolling, 100 * time.Millisecond, at(0, 0.5, 1.1), 0},
		{limit.FirstUse, 0, at(0.5, 0.6, 1.5, 1.6), 0},
		{limit.FirstUse, 0, at(0.5, 0.6, 1.4), 1},
		{limit.Bucket, 0, at(0, 0, 0.5, 1), 0},
		{limit.Bucket, 0, at(0, 0, 0.4), 1},
		{limit.Bucket, 100 * time.Millisecond, at(0, 0, 0.55), 1},
		{limit.Bucket, 100 * time.Millisecond, at(0, 0, 0.6), 0},
		{limit.Paced, 0, at(0, 0.5, 1), 0},
		{limit.Paced, 0, at(0, 0.4), 1},
	} {
		spec := second
		spec.As = c.as
		if over, which := (promise{spec, c.late}).over(c.uses); over != c.over {
			t.Errorf("%s, %v late, %v: %d over, not %d: %s", c.as, c.late, c.uses, over, c.over, which)
		}
	}
}
