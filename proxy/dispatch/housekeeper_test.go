package dispatch

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

func TestHostsLeaveAsSoonWhenTheyAreLookedAtMoreSeldom(t *testing.T) {
	for since, want := range map[time.Duration]int{
		0: tidyParts, sampleEvery: tidyParts, 3 * sampleEvery: 3 * tidyParts, time.Minute: queue.ForgetParts, time.Hour: queue.ForgetParts,
	} {
		if got := partsAfter(since); got != want {
			t.Errorf("%d parts after %v, not %d", got, since, want)
		}
	}
}
