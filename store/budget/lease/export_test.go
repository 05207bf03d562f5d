package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Meter is a meter of an account, which also takes demand.
type Meter interface {
	limit.Meter
	Demand(now time.Time, units int64)
}

// Margin is for how long before its end nothing is sent in a window.
func Margin(width int64) int64 { return margin(width) }

// Inside is the meter that a kept one has inside, or m itself.
func Inside(m limit.Meter) limit.Meter {
	if k, ok := m.(*durable); ok {
		return k.Meter
	}
	return m
}
