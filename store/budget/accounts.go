package budget

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// minAccountsToSweep is the number of accounts beyond twice those left by the last sweep from
// which the next sweep is due at once.
const minAccountsToSweep = 1000

// accounts are the accounts of all sites, by when they are due. The lock of a site in the
// gate may be held when the lock of accounts is taken, never the other way round.
type accounts struct {
	// open makes the lease.Account of a site. onDue is called when it becomes due earlier.
	open func(site string, onDue func()) *lease.Account
	wake signal.Signal // some account may be due earlier

	mu         sync.Mutex
	all        map[string]*account // :: site →
	due        heap.Heap[*account, byDue]
	generation string    // of the store
	settled    time.Time // when all instances have stated their leases to this generation
	afterSweep int       // number of accounts left by the last sweep
}

// of returns the account of a site, and makes it if necessary. The caller holds the site's
// lock.
func (l *accounts) of(site string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.all[site]; a != nil {
		return a
	}
	a := &account{site: site}
	a.Account = l.open(site, func() { l.schedule(a, a.Due()) })
	if now := time.Now(); now.Before(l.settled) {
		a.NewGeneration(now, l.generation)
	}
	l.all[site] = a
	if len(l.all) > 2*l.afterSweep+minAccountsToSweep {
		l.wake.Send()
	}
	return a
}

// find returns the account of a site, or nil.
func (l *accounts) find(site string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[site]
}

// everyone lists all accounts.
func (l *accounts) everyone() []*account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.all))
}

// schedule sets when an account is due; zero: not by time alone.
func (l *accounts) schedule(a *account, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place(a, at)
}

// place is schedule with the lock held. A busy account is placed when its exchange ends.
func (l *accounts) place(a *account, at time.Time) {
	a.at = at
	if a.busy {
		return
	}
	switch {
	case at.IsZero():
		if l.due.Has(a) {
			l.due.Remove(a)
		}
		return
	case l.due.Has(a):
		l.due.Fix(a)
	default:
		l.due.Push(a)
	}
	if l.due.Top() == a {
		l.wake.Send()
	}
}

// take takes at most so many due accounts. They are busy until release. If there are fewer,
// next is the time at which another is due; zero: none.
func (l *accounts) take(now time.Time, most int) (list []*account, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.due.Empty() && len(list) < most {
		a := l.due.Top()
		if a.at.After(now) {
			return list, a.at
		}
		l.due.Pop()
		a.busy, a.at = true, time.Time{}
		list = append(list, a)
	}
	return list, time.Time{}
}

// takeIdle takes the accounts with nothing to ask. They are busy until release.
func (l *accounts) takeIdle() (list []*account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if !a.busy && !l.due.Has(a) {
			a.busy = true
			list = append(list, a)
		}
	}
	return list
}

// release ends the use of an account, and schedules it. The caller holds the site's lock.
func (l *accounts) release(a *account, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.busy = busy
	l.place(a, a.Due())
}

// abandon is release for an account whose site the gate has forgotten.
func (l *accounts) abandon(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.busy = false
	switch {
	case !a.at.IsZero(): // a new site of that name uses the account already
		l.place(a, a.at)
	case l.all[a.site] == a:
		delete(l.all, a.site)
	}
}

// waits tells whether an account will have something to ask.
func (l *accounts) waits(a *account) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !a.at.IsZero()
}

// sweepDue tells whether a sweep is due because of the number of accounts.
func (l *accounts) sweepDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 2*l.afterSweep+minAccountsToSweep
}

// recordSweep records how many accounts a sweep has left.
func (l *accounts) recordSweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.afterSweep = len(l.all)
}

// setGeneration records a new generation of the store, and when all instances have stated
// their leases to it. It returns the generation before, and the accounts that do not know
// the new one.
func (l *accounts) setGeneration(generation string, settled time.Time) (before string, all []*account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.generation, l.settled = l.generation, generation, settled
	return before, slices.Collect(maps.Values(l.all))
}

// account is the leases of one site, with when there is something to ask the store. The
// lock of the site in the gate guards the lease.Account, the lock of accounts the other
// fields.
type account struct {
	*lease.Account
	site string

	at    time.Time // when it is due; zero: not by time alone. While busy: that it became due meanwhile
	place int32     // in the heap
	busy  bool      // an exchange for it is under way
}

// byDue orders accounts by when they are due.
type byDue struct{}

func (byDue) Before(a, b *account) bool { return a.at.Before(b.at) }
func (byDue) Place(a *account) *int32   { return &a.place }
