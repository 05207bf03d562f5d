package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/policy"
)

// refusedReload remembers that reloads are refused, until one succeeds. The zero value
// has seen none. It is safe for concurrent use.
type refusedReload struct {
	mu    sync.Mutex
	since time.Time // the first refusal; zero: the last reload succeeded, or there was none
	err   error     // of the last refusal
}

// note takes how a reload ended; a nil error is a success.
func (r *refusedReload) note(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	switch {
	case err == nil:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
}

// status is what the operator's listener tells of it, nil for nothing.
func (r *refusedReload) status() *admin.RefusedReload {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return admin.NewRefusedReload(r.since, r.err)
}

// checks is what /readyz, the status and the page tell of it. abide serves on with the
// configuration before, so the check is degraded and not failed.
func (r *refusedReload) checks() []admin.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	text := r.err.Error()
	var faults policy.Faults
	if errors.As(r.err, &faults) {
		text = faults[0].Error()
		if more := len(faults) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more; abide check lists them)", more)
		}
	}
	return []admin.Check{checkOf("configuration", "", r.since, "the last good one is used, because a reload was refused: "+text)}
}
