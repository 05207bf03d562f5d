package budget

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/membership"
	"github.com/abide-proxy/abide/store/budget/storehealth"
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

// session exchanges the leases of this instance with the store. It is safe for concurrent
// use.
type session struct {
	o        *Options
	accounts *accounts
	health   *storehealth.Health
	members  *membership.Membership
	news     newsReceiver // set before the first exchange

	granted  atomic.Int64 // units, in expired windows
	spent    atomic.Int64 // of granted
	underWay sync.WaitGroup
	slots    chan struct{} // semaphore of concurrent exchanges
}

// run exchanges until ctx is done, and returns when no exchange is under way.
func (s *session) run(ctx context.Context) {
	sweeping := time.NewTicker(sweepInterval)
	defer sweeping.Stop()
	defer s.underWay.Wait()
	for ctx.Err() == nil {
		if s.accounts.sweepDue() {
			s.sweep()
		}
		list, next := s.accounts.take(time.Now(), maxBatches)
		if len(list) > 0 {
			select {
			case s.slots <- struct{}{}:
				s.underWay.Go(func() {
					defer func() { <-s.slots }()
					s.exchange(ctx, list, false)
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
		case <-s.accounts.wake:
		case <-time.After(wait):
		case <-sweeping.C:
			s.sweep()
			s.health.Report()
		}
	}
}

// exchange sends the batches of accounts to the store and applies the replies. last marks
// the final exchange, which returns the accounts that could not send everything.
func (s *session) exchange(ctx context.Context, list []*account, last bool) (unsent []*account) {
	batches := make([]store.Batch, 0, len(list))
	sending := list[:0]
	for _, a := range list {
		var batch store.Batch
		var sends bool
		s.withAccount(a, func(now time.Time) bool {
			if last {
				a.Release(now)
			}
			batch, sends = a.Batch(now)
			return sends
		})
		switch {
		case sends:
			batches, sending = append(batches, batch), append(sending, a)
		case last && s.accounts.waits(a):
			unsent = append(unsent, a)
		}
	}
	if len(batches) == 0 {
		return unsent
	}
	replies, err := s.ask(ctx, batches)
	if err != nil && last {
		unsent = append(unsent, sending...)
	}
	for i, a := range sending {
		if err != nil {
			s.answer(a, nil, err)
			continue
		}
		if len(replies[i].Notes) > 0 { // before anything is granted
			s.receiveNotes(a, replies[i].Notes)
		}
		s.health.Settles(time.Now(), a.site, replies[i].Answers)
		s.answer(a, &replies[i], nil)
	}
	return unsent
}

// answer passes the store's reply, or the error, to an account.
func (s *session) answer(a *account, r *store.Reply, err error) {
	var noticed lease.Report
	s.withAccount(a, func(now time.Time) bool {
		a.Receive(now, r, err)
		noticed = a.Report()
		return false
	})
	s.granted.Add(noticed.Granted)
	s.spent.Add(noticed.Spent)
	s.health.Lent(a.site, noticed.Loans, s.health.Failing(), err == nil)
	s.health.ClockIsOff(noticed.Clock)
}

// ask is one exchange with the store. There is none before a shared store has answered a
// pulse: it may have lost other instances' leases.
func (s *session) ask(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if s.o.Shared && !s.members.Known() {
		return nil, errStoreUnknown
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	replies, err := s.o.Store.Exchange(within, batches)
	if err == nil && len(replies) != len(batches) {
		err = errIncompleteReply
	}
	took := time.Since(began)
	s.health.Operation("exchange", err, took)
	if err == nil {
		s.health.ShowsClock(replies[0].Now, began.Add(took/2))
	}
	if err == nil && !s.o.Shared {
		s.rewriteIfNewFile(replies[0].Generation)
	}
	return replies, err
}

// rewriteIfNewFile writes all budgets of this machine again if the file may lack some: a write has
// failed, or the file is a new one, because the old one was removed or damaged.
func (s *session) rewriteIfNewFile(generation string) {
	old, _ := s.accounts.setGeneration(generation, time.Time{})
	if old == "" || old == generation {
		return
	}
	s.o.Log.Warn("writing the state file had failed, or the file was replaced: all that this process knows is written into it again")
	s.o.Gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		if kept, ok := at.Meter.(interface{ Lost(now time.Time) }); ok && at.Spec != nil {
			kept.Lost(now)
		}
	})
}

// receiveNotes passes notes to the account of their site, and new ones to the rest of the
// process. It returns false if the gate does not know the site.
func (s *session) receiveNotes(a *account, notes []store.Note) bool {
	var fresh []store.Note
	known := s.o.Gate.UpdateExternal(a.site, func(now time.Time) { fresh = a.ReceiveNotes(now, notes) })
	if len(fresh) > 0 {
		s.news.Heard(a.site, fresh)
	}
	return known
}

// withAccount calls do under the lock of the account's site, and schedules the account
// unless do returns that an exchange is under way. If the gate has forgotten the site, do
// is not called.
func (s *session) withAccount(a *account, do func(now time.Time) (busy bool)) {
	known := s.o.Gate.UpdateExternal(a.site, func(now time.Time) { s.accounts.release(a, do(now)) })
	if !known {
		s.accounts.abandon(a)
	}
}

// sweep removes the accounts of sites that the gate has forgotten. Each site of the gate
// has at most one account.
func (s *session) sweep() {
	for _, a := range s.accounts.takeIdle() {
		s.withAccount(a, func(time.Time) bool { return false })
	}
	s.accounts.recordSweep()
}

// returnAll returns unused units to the store.
func (s *session) returnAll(ctx context.Context) {
	all := s.accounts.everyone()
	for len(all) > 0 && ctx.Err() == nil {
		var again []*account
		for len(all) > 0 && ctx.Err() == nil {
			n := min(len(all), maxBatches)
			again = append(again, s.exchange(ctx, append([]*account(nil), all[:n]...), true)...)
			all = all[n:]
		}
		if all = again; len(all) > 0 { // the store may be back in a moment
			_ = clock.Sleep(ctx, exchangeTimeout/20)
		}
	}
}
