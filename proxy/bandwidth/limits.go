package bandwidth

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

const (
	// tricklePart: 1/tricklePart of a byte limit is reserved for paused connections.
	tricklePart = 100
	// TrickleSuffix ends the names and units of the limits that trickle. Stores have them.
	TrickleSuffix = " trickle"
	// maxTrickle bounds the bytes that a connection gets from the trickle at once.
	maxTrickle = 512
)

// Split divides a byte limit into a small part for the trickle and the rest.
func Split(whole queue.Limit) (rest, trickle queue.Limit) {
	small, large := *whole.Spec, *whole.Spec
	small.Amount = max(whole.Spec.Amount/tricklePart, 1)
	large.Amount -= small.Amount
	if whole.Spec.Burst > 0 {
		small.Burst = max(whole.Spec.Burst/tricklePart, 1)
		large.Burst = max(whole.Spec.Burst-small.Burst, 1)
	}
	rest, trickle = whole, whole
	rest.Spec, trickle.Spec = &large, &small
	trickle.Name, trickle.Title = whole.Name+TrickleSuffix, "trickle of "+whole.Title
	if whole.Subject != nil {
		subject := *whole.Subject
		subject.Unit += TrickleSuffix
		trickle.Subject = &subject
	}
	return rest, trickle
}

// Whole is the amount of a limit whose rest after Split is rest.
func Whole(rest int64) int64 {
	whole := rest + rest/(tricklePart-1)
	for whole-max(whole/tricklePart, 1) < rest {
		whole++
	}
	return whole
}

// shortestWindow is the shortest window of some limits, in nanoseconds; 0 is none.
func shortestWindow(limits []queue.Limit) int64 {
	least := int64(0)
	for i := range limits {
		if s := limits[i].Spec; s != nil && s.Window > 0 && (least == 0 || int64(s.Window) < least) {
			least = int64(s.Window)
		}
	}
	return least
}

// minimumTime is the time for which bytes of a bucket accumulate before they are taken.
// Taking each byte separately would cost too much.
const minimumTime = 2 * time.Millisecond

// minimumOf is the minimum number of bytes taken at once: the refill of the slowest bucket
// in minimumTime. Other limits give all at once, or nothing for a long time.
func minimumOf(limits []queue.Limit) int64 {
	least := int64(math.MaxInt64)
	for i := range limits {
		if s := limits[i].Spec; s != nil && s.Traits().Burst && s.Window > 0 {
			least = min(least, int64(float64(s.Amount)/float64(s.Window)*float64(minimumTime)))
		}
	}
	if least == math.MaxInt64 {
		return 1
	}
	return max(least, 1)
}
