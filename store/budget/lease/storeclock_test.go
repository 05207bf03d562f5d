package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// Whatever the store's clock does, nothing of a window is granted twice, and it goes on
// as soon as its clock has come to where it was.
func TestTheStoresClockIsSet(t *testing.T) {
	const width = 20 * time.Second
	for _, as := range []limit.As{limit.Fixed, limit.Rolling} {
		spec := limit.Spec{As: as, Amount: 50, Window: width}
		for name, outage := range outages {
			for _, set := range []struct {
				by   time.Duration
				long time.Duration // 0: for good
			}{
				{-15 * time.Second, 0},
				{-15 * time.Second, 2 * time.Second},
				{40 * time.Second, 2 * time.Second},
				{-10 * time.Second, 0},
				{10 * time.Second, 0},
				{40 * time.Second, 0},
				{-time.Minute, 10 * time.Second},
			} {
				for _, after := range []time.Duration{41, 47, 52, 59} {
					t.Run(fmt.Sprint(as, " ", name, " ", set.by, " for ", set.long, " after ", int64(after)), func(t *testing.T) {
						c := newCrowd(t, spec, outage, time.Millisecond)
						off := lease.ClockFault{}
						c.Run(after * time.Second)
						c.offset = set.by
						if set.long > 0 {
							c.At(set.long, func() { c.offset = 0 })
						}
						c.Run(300*time.Second - after*time.Second)
						for _, a := range c.accounts {
							clockFault := a.Report().Clock
							off.Step, off.Behind = max(off.Step.Abs(), clockFault.Step.Abs()), max(off.Behind, clockFault.Behind)
						}
						if set.long == 0 && off.Step < set.by.Abs()/2 {
							t.Errorf("it is not said: %+v", off)
						}
						// In windows of the machine's clock.
						total := int64(0)
						for _, one := range c.takes {
							total += one.N
						}
						t.Log(c.sums, total)
						if set.long > 0 {
							c.check(1, 15, spec.Amount)
							if most := c.within(width); as == limit.Rolling && most > spec.Amount {
								t.Errorf("%d within a window", most)
							}
						} else if most := c.within(width); most > 2*spec.Amount || as == limit.Rolling && most > spec.Amount {
							t.Errorf("%d within a window", most)
						}
						// Where the clock goes back it waits as long.
						stands := max(-set.by, 0)
						if set.long > 0 {
							stands = set.by.Abs()
						}
						if least := float64(spec.Amount) * 0.94 * float64(300*time.Second-stands-3*width) / float64(width); float64(total) < least {
							t.Errorf("%d went, not %.0f", total, least)
						}
					})
				}
			}
		}
	}
}
