package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// refusedReload is the reload that was refused last, until a reload succeeds. The zero value
// is none. It is safe for concurrent use.
type refusedReload struct {
	mu    sync.Mutex
	since time.Time // the first refusal; zero: the last reload succeeded, or there was none
	err   error     // of the last refusal
}

// note notes the result of a reload; a nil error is a success.
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

// status is the refused reload for the admin API, nil for none.
func (r *refusedReload) status() *status.RefusedReload {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return admin.NewRefusedReload(r.since, r.err)
}

// checks are the checks for /readyz, the status and the page. abide serves with the
// configuration before, so the check is degraded and not failed.
func (r *refusedReload) checks() []status.Check {
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
	return []status.Check{checkOf("configuration", "", r.since, "the last good one is used, because a reload was refused: "+text)}
}
