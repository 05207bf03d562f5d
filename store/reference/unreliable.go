package reference

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/store"
)

// ErrUnreachable is the error of an Unreliable that fails.
var ErrUnreachable = errors.New("no connection")

// Unreliable is a store for tests that is slow, fails, or does not answer. Its fields may be
// changed at any time.
type Unreliable struct {
	store.Store
	Delay atomic.Int64 // of each call, in nanoseconds
	Fails atomic.Bool  // calls return ErrUnreachable
	Hangs atomic.Bool  // calls return when their context ends
	Calls atomic.Int64 // number of calls
}

func (u *Unreliable) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if err := u.wait(ctx); err != nil {
		return nil, err
	}
	return u.Store.Exchange(ctx, batches)
}

func (u *Unreliable) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	if err := u.wait(ctx); err != nil {
		return store.Pulse{}, err
	}
	return u.Store.Pulse(ctx, m)
}

// wait delays or fails a call before it reaches the store.
func (u *Unreliable) wait(ctx context.Context) error {
	u.Calls.Add(1)
	if u.Hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if d := time.Duration(u.Delay.Load()); d > 0 {
		delay := time.NewTimer(d)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
	}
	if u.Fails.Load() {
		return ErrUnreachable
	}
	return ctx.Err()
}
