package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
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
	a := &account{site: site, names: map[string]bool{}, additions: map[string]*addition{}}
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
	switch {
	case a.busy:
	case at.IsZero():
		l.due.Remove(a)
	default:
		if l.due.Put(a); l.due.Top() == a {
			l.wake.Send()
		}
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
// their leases to it. It returns the generation before. Accounts that are made later know it.
func (l *accounts) setGeneration(generation string, settled time.Time) (before string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.generation, l.settled = l.generation, generation, settled
	return before
}

// account is the leases of one site, with when there is something to ask the store. The
// lock of the site in the gate guards the lease.Account, the lock of accounts the other
// fields.
type account struct {
	*lease.Account
	site      string
	names     map[string]bool      // of limits that have had a budget here
	additions map[string]*addition // :: key of a budget → what the store has to add to it

	at    time.Time // when it is due; zero: not by time alone. While busy: that it became due meanwhile
	place int32     // in the heap
	busy  bool      // an exchange for it is under way
}

// mostNames bounds the names of limits that an account remembers.
const mostNames = 64

// inherit has the store add to a budget what was spent of others, with the next ask: of those in h and those of limits that
// had a budget here, if before tells so. The site is locked.
func (a *account) inherit(now time.Time, key string, h *addition, before func(name string) bool) {
	if len(a.names) >= mostNames {
		clear(a.names)
	}
	for name := range a.names {
		if name != h.name && before(name) {
			h.before = append(h.before, store.BudgetKey(name, h.whose))
			a.RestateFirst(now, store.BudgetKey(name, h.whose))
		}
	}
	if a.names[h.name] = true; len(h.before) > 0 {
		a.additions[key] = h
	}
}

// batch is Batch, with the budgets that the store has to add. The site is locked.
func (a *account) batch(now time.Time) (b store.Batch, ok bool) {
	b, ok = a.Batch(now)
	for i := range b.Asks {
		if h, j := a.additions[b.Asks[i].Key], b.Asks[i].Joint; h != nil && j != nil {
			j.Before, j.Inherit, h.asked = h.before, h.inherit, true
		}
	}
	return b, ok
}

// receive is Receive. What the store has answered has been added. The site is locked.
func (a *account) receive(now time.Time, r *store.Reply, err error) {
	a.Receive(now, r, err)
	for key, h := range a.additions {
		if h.asked = h.asked && err == nil; h.asked {
			delete(a.additions, key)
		}
	}
}

// byDue orders accounts by when they are due.
type byDue struct{}

func (byDue) Before(a, b *account) bool { return a.at.Before(b.at) }
func (byDue) Place(a *account) *int32   { return &a.place }

// OutageOf returns the configured outage rule of a site.
func OutageOf(rule *policy.Site) lease.Outage {
	if rule == nil {
		return lease.Share
	}
	return lease.Outage(rule.Outage)
}

// Meters makes the meters of a limit persistent or shared: see queue.Limit. It is nil for a
// limit that is neither.
func (k *Keeper) Meters(rule *policy.Site, l *policy.Limit, spec *limit.Spec) queue.MeterSource {
	switch {
	case k == nil, !spec.Traits().Windowed:
		return nil // counts requests in flight only, or is learned again
	case k.o.Shared && !spec.Shareable():
		return nil
	}
	return meterSource{k, lease.Outage(rule.OutageOf(l))}
}

// meterSource makes the meters of a limit under an outage rule.
type meterSource struct {
	keeper *Keeper
	outage lease.Outage
}

func (meterSource) NewMeter() limit.Meter { return nil } // the limit has a Spec

func (s meterSource) External(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	k := s.keeper
	switch {
	case !k.o.Names.Lasting(at.Key):
		return nil
	case k.o.Shared:
		return k.Account(site).Shared(k.key(site, at), spec, s.outage)
	}
	return k.durable(site, at, spec, m)
}

// Unused answers a meter, in place of m, for an explanation of a limit that this instance has not used. What is left of a
// shared limit is not known before the store has answered, unless the store is away and the outage rule goes without it.
func (s meterSource) Unused(at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	if k := s.keeper; !k.o.Shared || !k.o.Names.Lasting(at.Key) || s.outage != lease.Strict && k.Failing() > 0 {
		return m
	}
	return lease.NewAccount("", lease.Options{OnDue: func() {}}).Shared("", spec, s.outage) // the store never hears of it
}

// durable makes a meter that outlives the process: it continues from the store's state. The store adds what was spent of
// the limits that its limit replaces.
func (k *Keeper) durable(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	now, a, key := time.Now(), k.accounts.of(site), k.key(site, at)
	was, known := k.restored.take(site, key)
	carried := !m.Idle(now) // it has the takes of a replaced limit
	h := &addition{name: at.Limit, whose: k.o.Names.Stable(site, at.Key), spec: spec}
	replaced := func(name string) bool { return carried || !k.o.Sites.HasLimit(site, name) }
	if h.before = k.restored.before(site, h, was.At, replaced); known && (carried || len(h.before) > 0) {
		h.before = append(h.before, key)
	}
	if known && !carried {
		var err error
		if m, err = lease.Restore(now, spec, m, was.State, was.Ahead); err != nil {
			k.o.Log.WithFields(logrus.Fields{"site": site, "limit": at.Limit, "reason": err}).Warnf("what %s had used of %q before the restart is not understood: %v", site, at.Limit, err)
		}
		k.restored.setLeft(site, at, m.Left(now))
	}
	a.inherit(now, key, h, replaced)
	kept := a.Durable(key, spec, m, was.From)
	if carried || known && !m.Idle(now) { // the stored state is of another limit, or of another clock
		kept.(interface{ Lost(now time.Time) }).Lost(now)
	}
	return kept
}

// trickleSuffix ends the names and units of trickle limits: see package bandwidth.
const trickleSuffix = " trickle"

// NameOf returns the name of a configured limit without its amounts: with another amount after a
// reload it is the same limit, and used units stay used. Stores have these names, and
// subjectIn parses them.
func NameOf(l *policy.Limit) string {
	return fmt.Sprintf("%s %s per %s %s by %s for %s %s", l.As, l.Unit, l.Per, l.Timezone, l.By, l.Method, l.Path)
}

// subjectIn parses a limit's name for what the limit counts, and its kind: see NameOf.
func subjectIn(name string) (queue.Subject, limit.As) {
	name, trickle := strings.CutSuffix(name, trickleSuffix)
	part := strings.SplitN(name, " ", 10)
	if len(part) < 10 || part[2] != "per" || part[5] != "by" || part[7] != "for" || part[1] == "concurrency" {
		return queue.Subject{}, ""
	}
	path, at, _ := strings.Cut(part[9], " at ")
	path, _, _ = strings.Cut(path, " ")
	s := queue.Subject{Unit: part[1], By: part[6], At: at, Method: part[8], Path: path}
	if trickle {
		s.Unit += trickleSuffix
	}
	return s, limit.As(part[0])
}
