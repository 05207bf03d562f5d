package queue

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestHowLargeAReceiveBufferIs(t *testing.T) {
	of := func(s *limit.Spec) Limit { return Limit{Name: "x", Of: Bytes, Spec: s} }
	per := func(amount int64, window time.Duration) Limit {
		return of(&limit.Spec{As: limit.Fixed, Amount: amount, Window: window})
	}
	for name, c := range map[string]struct {
		limits []Limit
		want   int64
	}{
		"tight":                    {[]Limit{per(1<<10, time.Minute)}, leastBuffer},
		"a part of the limit":      {[]Limit{per(1<<20, time.Minute)}, 16 << 10},
		"a large part if it flows": {[]Limit{per(36<<14, time.Second)}, 16 << 10},
		"of a usual one":           {[]Limit{per(16<<20, time.Minute)}, mostBuffer},
		"loose":                    {[]Limit{per(1<<30, time.Minute)}, 1 << 20},
		"loose and tight":          {[]Limit{per(1<<30, time.Minute), per(1<<20, time.Hour)}, 16 << 10},
		"as good as none":          {[]Limit{per(1<<50, time.Minute)}, widest},
		"a burst":                  {[]Limit{of(&limit.Spec{As: limit.Bucket, Amount: 1 << 30, Window: time.Minute, Burst: 1 << 26})}, 1 << 16},
		"unknown":                  {[]Limit{of(nil), per(1<<30, time.Minute)}, mostBuffer},
	} {
		if got := BufferOf(c.limits); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}
