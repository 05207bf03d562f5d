package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// byteRequest is an amount of bytes that a request or a tunnel which is under way waits
// for.
type byteRequest struct {
	source  *byteAccount
	most    int64 // bytes, at most
	least   int64 // bytes, at least
	granted int64 // bytes; 0 while it waits
	over    bool  // granted or refused
	err     error
	waker   waker
}

// wake tells who waits that the byte request is over.
func (b *byteRequest) wake() { b.waker.wake() }

// takeFromAll takes the same amount from each resource: at most n and at least the least, or
// nothing. From a resource that can never have the least, all that it can have is enough.
func takeFromAll(now time.Time, resources []*resource, n, least int64) int64 {
	least = max(min(least, n), 1)
	for _, res := range resources {
		if res.meter == nil {
			continue
		}
		left := res.meter.Left(now)
		if left < least {
			least = res.within(now, least)
		}
		if left < least {
			if at, ok := res.meter.When(now, least); !ok || at.After(now) {
				return 0
			}
			left = least
		}
		n = min(n, left)
	}
	for _, res := range resources {
		if res.meter != nil {
			res.meter.Take(now, n)
		}
	}
	return n
}

// longestWait is when all resources have an amount, and the resource that has it last; nil if
// that is now. The time is limit.Unknown if it is not known.
func longestWait(now time.Time, resources []*resource, n int64) (by *resource, at time.Time) {
	at = now
	for _, res := range resources {
		if res.meter == nil {
			continue
		}
		t, ok := res.meter.When(now, res.within(now, n))
		if !ok || t.Sub(now) > far {
			t = limit.Unknown
		}
		if t.After(at) {
			by, at = res, t
		}
	}
	return by, at
}

// anyWaiting tells whether earlier byte requests wait for one of the resources.
func anyWaiting(resources []*resource) bool {
	for _, res := range resources {
		if res.waitingBytes > 0 {
			return true
		}
	}
	return false
}
