package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

const (
	// exchangeTimeout bounds one exchange. Requests do not wait as long as that: their meters
	// go by the outage rule when the store is slower than usual.
	exchangeTimeout = 2 * time.Second
	// maxBatches go to the store in one exchange, and maxExchanges are under way at once.
	maxBatches   = 256
	maxExchanges = 4
	// sweepInterval is the time between two sweeps of accounts whose sites the gate has
	// forgotten.
	sweepInterval = time.Minute
)

var (
	errIncompleteReply = errors.New("the store has not answered everything")
	errStoreUnknown    = errors.New("the store has not been heard yet")
)

// run exchanges until ctx is done, and returns when no exchange is under way.
func (k *Keeper) run(ctx context.Context) {
	sweeping := time.NewTicker(sweepInterval)
	defer sweeping.Stop()
	defer k.underWay.Wait()
	for ctx.Err() == nil {
		if k.accounts.sweepDue() {
			k.sweep()
		}
		list, next := k.accounts.take(time.Now(), maxBatches)
		if len(list) > 0 {
			select {
			case k.slots <- struct{}{}:
				k.underWay.Go(func() {
					defer func() { <-k.slots }()
					k.exchange(ctx, list, false)
				})
			case <-ctx.Done():
			}
			continue
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = time.Until(next)
		}
		select {
		case <-ctx.Done():
		case <-k.accounts.wake:
		case <-time.After(wait):
		case <-sweeping.C:
			k.sweep()
			k.health.Report()
		}
	}
}

// exchange sends the batches of accounts to the store and applies the replies. last marks
// the final exchange, which returns the accounts that could not send everything.
func (k *Keeper) exchange(ctx context.Context, list []*account, last bool) (unsent []*account) {
	batches := make([]store.Batch, 0, len(list))
	sending := list[:0]
	for _, a := range list {
		var batch store.Batch
		var sends bool
		k.withAccount(a, func(now time.Time) bool {
			if last {
				a.Release(now)
			}
			batch, sends = a.batch(now)
			return sends
		})
		switch {
		case sends:
			batches, sending = append(batches, batch), append(sending, a)
		case last && k.accounts.waits(a):
			unsent = append(unsent, a)
		}
	}
	if len(batches) == 0 {
		return unsent
	}
	replies, err := k.ask(ctx, batches)
	if err != nil && last {
		unsent = append(unsent, sending...)
	}
	for i, a := range sending {
		if err != nil {
			k.answer(a, nil, err)
			continue
		}
		if len(replies[i].Notes) > 0 { // before anything is granted
			k.receiveNotes(a, replies[i].Notes)
		}
		k.health.Settles(time.Now(), a.site, replies[i].Answers)
		k.answer(a, &replies[i], nil)
	}
	return unsent
}

// answer passes the store's reply, or the error, to an account.
func (k *Keeper) answer(a *account, r *store.Reply, err error) {
	var noticed lease.Report
	k.withAccount(a, func(now time.Time) bool {
		a.receive(now, r, err)
		noticed = a.Report()
		return false
	})
	k.granted.Add(noticed.Granted)
	k.spent.Add(noticed.Spent)
	k.health.Lent(a.site, noticed.Loans, k.health.Failing(), err == nil)
	k.health.ClockIsOff(noticed.Clock)
}

// ask is one exchange with the store. There is none before a shared store has answered a
// pulse: it may have lost other instances' leases.
func (k *Keeper) ask(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if k.o.Shared && !k.members.Known() {
		return nil, errStoreUnknown
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	replies, err := k.o.Store.Exchange(within, batches)
	if err == nil && len(replies) != len(batches) {
		err = errIncompleteReply
	}
	took := time.Since(began)
	k.health.Operation("exchange", err, took)
	if err == nil {
		k.health.ShowsClock(replies[0].Now, began.Add(took/2))
	}
	if err == nil && !k.o.Shared {
		k.rewriteIfNewFile(replies[0].Generation)
	}
	return replies, err
}

// rewriteIfNewFile writes all budgets of this machine again if the file may lack some: a write has
// failed, or the file is a new one, because the old one was removed or damaged.
func (k *Keeper) rewriteIfNewFile(generation string) {
	old := k.accounts.setGeneration(generation, time.Time{})
	if old == "" || old == generation {
		return
	}
	k.o.Log.Warn("writing the state file had failed, or the file was replaced: all that this process knows is written into it again")
	k.o.Gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		if kept, ok := at.Meter.(interface{ Lost(now time.Time) }); ok && at.Spec != nil {
			kept.Lost(now)
		}
	})
}

// receiveNotes passes notes to the account of their site, and new ones to the rest of the
// process. It returns false if the gate does not know the site.
func (k *Keeper) receiveNotes(a *account, notes []store.Note) bool {
	var fresh []store.Note
	known := k.o.Gate.UpdateExternal(a.site, func(now time.Time) { fresh = a.ReceiveNotes(now, notes) })
	if len(fresh) > 0 {
		k.news.Heard(a.site, fresh)
	}
	return known
}

// withAccount calls do under the lock of the account's site, and schedules the account
// unless do returns that an exchange is under way. If the gate has forgotten the site, do
// is not called.
func (k *Keeper) withAccount(a *account, do func(now time.Time) (busy bool)) {
	known := k.o.Gate.UpdateExternal(a.site, func(now time.Time) { k.accounts.release(a, do(now)) })
	if !known {
		k.accounts.abandon(a)
	}
}

// sweep removes the accounts of sites that the gate has forgotten. Each site of the gate
// has at most one account.
func (k *Keeper) sweep() {
	for _, a := range k.accounts.takeIdle() {
		k.withAccount(a, func(time.Time) bool { return false })
	}
	k.accounts.recordSweep()
}

// returnAll returns unused units to the store.
func (k *Keeper) returnAll(ctx context.Context) {
	all := k.accounts.everyone()
	for len(all) > 0 && ctx.Err() == nil {
		var again []*account
		for some := range slices.Chunk(all, maxBatches) {
			again = append(again, k.exchange(ctx, slices.Clone(some), true)...)
		}
		if all = again; len(all) > 0 { // the store may be back in a moment
			_ = clock.Sleep(ctx, exchangeTimeout/20)
		}
	}
}
