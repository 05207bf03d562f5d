package storehealth

import (
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/store/budget/lease"
)

// clock follows the store's clock.
type clock struct {
	log    *logrus.Logger
	ahead  atomic.Pointer[time.Duration] // of this machine's; nil: not known
	step   rate.Sometimes                // lines about a clock that was set
	behind rate.Sometimes                // lines about a clock that is behind its budgets
}

// ShowsClock notes what the store's clock showed at a moment of this machine's.
func (c *clock) ShowsClock(store, here time.Time) {
	if store.IsZero() {
		return
	}
	ahead := store.Sub(here.Round(0))
	c.ahead.Store(&ahead)
}

// ClockIsOff logs what is wrong with the store's clock.
func (c *clock) ClockIsOff(off lease.ClockFault) {
	if off.Step != 0 {
		c.step.Do(func() {
			c.log.Warnf("the store's clock was set by %v: a window that had not begun by it before is not used until the present one has ended", off.Step.Round(time.Millisecond))
		})
	}
	if off.Behind > 0 {
		c.behind.Do(func() {
			c.log.Warnf("the store's clock is %v behind what its limits have seen: they grant nothing of a new window until it is there", off.Behind.Round(time.Millisecond))
		})
	}
}
