package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/bandwidth"
)

// restPart is the shortest rest after a round, as a multiple of the duration of the round.
const restPart = 200

// tidyParts is the number of parts of the sites that are searched in each sampleEvery for sites
// that have nothing to remember any more.
const tidyParts = 8

// partsAfter returns the number of parts that are searched a time after the last search. The
// more sites there are, the longer that time is, and idle sites leave as soon.
func partsAfter(since time.Duration) int {
	return min(tidyParts*max(int(since/sampleEvery), 1), queue.ForgetParts)
}

// tidyEvery is the time between two searches for unused byte budgets.
const tidyEvery = time.Minute

// housekeeper samples the use of limits and removes what is unused. It sleeps while there
// are no requests.
type housekeeper struct {
	gate      *queue.Gate
	bandwidth *bandwidth.Budgets
	use       *limitUse
	idle      func() time.Duration // after which the byte budgets of a connection may go

	asked signal.Signal // wakes run
	woken atomic.Bool   // wake was called since the last round
}

// run works until ctx is done.
func (h *housekeeper) run(ctx context.Context) {
	timer := time.NewTimer(sampleEvery)
	timer.Stop()
	awake, idle, tidied, looked, part := false, time.Duration(0), time.Now(), time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			h.bandwidth.TidyAll()
			return
		case <-h.asked:
			if idle = 0; !awake {
				awake = true
				timer.Reset(sampleEvery)
			}
			continue
		case <-timer.C:
		}
		began := time.Now()
		h.use.sample()
		if began.Sub(tidied) >= tidyEvery {
			tidied = began
			h.bandwidth.Tidy(h.idle())
		}
		for range partsAfter(began.Sub(looked)) {
			h.gate.ForgetIdle(began, part%queue.ForgetParts)
			part++
		}
		looked = began
		next := max(sampleEvery, restPart*time.Since(began))
		h.woken.Store(false)
		if idle += next; idle > forecast.Lately {
			awake = false
			continue
		}
		timer.Reset(next)
	}
}

// wake wakes the housekeeper.
func (h *housekeeper) wake() {
	if !h.woken.Load() {
		h.woken.Store(true)
		h.asked.Send()
	}
}
