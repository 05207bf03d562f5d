package backfill

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
)

// closingTime bounds the time of the output for what is written while a process stops.
const closingTime = 10 * time.Second

// heldClaims are the claims of this process, each with what cancels the work on it.
type heldClaims struct {
	output output.Job
	warn   func(format string, args ...any)

	mu  sync.Mutex
	all map[*output.Claim]context.CancelFunc // nil: nobody works on it yet
}

func (h *heldClaims) add(c *output.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[c] = nil
}

// begin returns a context for the work on a claim, which ends when the claim is lost. It
// returns false if the claim was lost before.
func (h *heldClaims) begin(ctx context.Context, c *output.Claim) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.all[c]; !held {
		return ctx, false
	}
	ctx, cancel := context.WithCancel(ctx)
	h.all[c] = cancel
	return ctx, true
}

// remove ends a claim here.
func (h *heldClaims) remove(c *output.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.all[c]; cancel != nil {
		cancel()
	}
	delete(h.all, c)
}

// list is all claims.
func (h *heldClaims) list() []*output.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.all))
}

// renew renews the leases of the claims until ctx is done.
func (h *heldClaims) renew(ctx context.Context) {
	tick := time.NewTicker(output.LeaseTime / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		lost, err := h.output.Renew(ctx, h.list())
		if err != nil {
			continue // the commit that needs the output says so
		}
		for _, c := range lost {
			h.warn("unit %s was taken over by another process, because its lease was not renewed in time", c.Key)
			h.remove(c)
		}
	}
}

// release ends the claims that are left, without counting a try.
func (h *heldClaims) release() {
	list := h.list()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closingTime)
	defer cancel()
	if err := h.output.Release(ctx, list); err != nil {
		h.warn("units could not be released, so they can be claimed again in %v: %v", output.LeaseTime, err)
	}
	for _, c := range list {
		h.remove(c)
	}
}
