package proxy

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

const (
	// patienceOfStore is how long one exchange may take. A request may not have to wait
	// for that long: its meter goes by the outage rule when the store is slower than usual.
	patienceOfStore = 2 * time.Second
	// mostBatches go to the store in one go, and mostExchanges at once.
	mostBatches   = 256
	mostExchanges = 4
	// parting is how long the last exchange of all may take.
	parting = 2 * time.Second
	// sweepEvery is how often it is looked for accounts of sites that are forgotten, and
	// fewAccounts how many more there may be before it is done at once.
	sweepEvery  = time.Minute
	fewAccounts = 1000
)

// desk exchanges what this instance says of its budgets for what the store grants.
// The accounts belong to the locks of their sites in the gate; which of them has
// something to say, and when, belongs to the desk's own. A site's lock may be held
// when the desk's is taken, never the other way round.
type desk struct {
	store    store.Store
	shared   bool // by several instances
	gate     *queue.Gate
	log      *logrus.Logger
	instance string
	name     string
	seq      atomic.Uint64
	granted  atomic.Int64                // in windows that are over
	spent    atomic.Int64                // of that
	members  atomic.Pointer[store.Pulse] // nil: the store has not said yet
	listed   atomic.Pointer[memberList]  // nil: nobody has asked for it
	several  atomic.Bool                 // other processes use the file of this machine, too
	heard    func(site string, news []store.Note)
	strange  *strangeSites
	owns     func(site string) bool // no other instance is expected there; nil: others may be
	changed  func()                 // a document was put or removed
	measure  func(op string, ok bool, took time.Duration)
	health   storeHealth
	lending  lending
	losses   losses
	settings settings
	clock    atomic.Pointer[time.Duration] // by how much the store's is ahead of this machine's
	notices  notices
	unkept   *unkept // limits that were set and are not written down yet

	mu         sync.Mutex
	recalled   map[[2]string]*store.Kept // :: site and key → what was kept, until it is used
	earlier    []store.Kept              // all that was kept when it began, by site
	before     map[slotName]int64        // what had been used of limits when they were recalled, until it is asked for
	accounts   map[string]*account       // :: site →
	due        dueAccounts
	generation string
	settled    time.Time // when everybody has said again what he holds, after a new generation
	swept      int       // how many accounts the last sweep has left
	underWay   sync.WaitGroup
	ringing    ring          // there may be somebody due earlier
	room       chan struct{} // a place for each exchange that may be under way
}

// account is what is held of one site's budgets.
type account struct {
	*lease.Account
	site string

	at    time.Time // when it is due; zero: nothing by time alone. Of a busy one: that a bell has rung since
	place int       // in the heap; -1: not there
	busy  bool      // what it said is under way
}

func newDesk(s store.Store, shared bool, instance, name string, log *logrus.Logger) *desk {
	return &desk{
		store: s, shared: shared, instance: instance, name: name, log: log,
		accounts: map[string]*account{}, unkept: newUnkept(), strange: newStrangeSites(),
		ringing: make(ring, 1), room: make(chan struct{}, mostExchanges), health: storeHealth{downtimes: newDowntimes()},
	}
}

// keeper is for a limit whose meter outlives this process, or is shared with others.
// stable names whose meter it is as other processes do. What it answers is called
// under the lock of the site.
func (d *desk) keeper(outage lease.Outage, stable func(site, key string) string, holds func(site, limit string) bool) func(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter {
	return func(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
		if passing(at.Key) {
			return nil
		}
		a, key := d.account(site), budgetKey(at.Limit, stable(site, at.Key))
		if d.shared {
			return a.Shared(key, spec, outage)
		}
		was, ok := d.recalls(site, key)
		carried := !m.Idle(time.Now()) // from a limit that it replaces
		if !carried {
			if list := d.spentBefore(site, key, was.At, holds); len(list) > 0 {
				if own, err := limit.Carry(time.Now(), list, spec); err == nil {
					m, carried = own, true
				}
			}
		}
		if ok && !carried {
			if err := lease.Restore(time.Now(), m, was.State, was.Ahead); err != nil {
				d.log.Warnf("what %s had used of %q before the restart is not understood: %v", site, at.Limit, err)
			}
			d.noteUsed(site, at, &spec, m)
		}
		kept := a.Joint(key, spec, m, was.From)
		if carried || ok && !m.Idle(time.Now()) { // the journal has it by another limit, or by another clock
			kept.(interface{ Lost(now time.Time) }).Lost(time.Now())
		}
		return kept
	}
}

// recalls is what was kept of a budget, once.
func (d *desk) recalls(site, key string) (store.Kept, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := [2]string{site, key}
	was, ok := d.recalled[at]
	if !ok {
		return store.Kept{}, false
	}
	delete(d.recalled, at)
	return *was, true
}

// recall takes what was kept before this process began.
func (d *desk) recall(all []store.Kept) {
	d.recalled = make(map[[2]string]*store.Kept, len(all))
	for i := range all {
		d.recalled[[2]string{all[i].Site, all[i].Key}] = &all[i]
	}
	d.earlier = slices.SortedStableFunc(slices.Values(all), func(a, b store.Kept) int { return cmp.Compare(a.Site, b.Site) })
}

// budgetKey is the name of a limit's budget: which limit it is, and whose.
func budgetKey(limit, key string) string {
	if key == "" {
		return limit
	}
	return limit + between + key
}

// account is that of a site, whose lock is held.
func (d *desk) account(site string) *account {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[site]
	if a == nil {
		a = &account{site: site, place: -1}
		a.Account = lease.NewAccount(site, lease.Options{
			Instance: d.instance, Seq: func() uint64 { return d.seq.Add(1) },
			Bell: func() { d.schedule(a, a.Due()) }, Members: d.size, Several: d.several.Load,
			Returned: d.health.lastReturned,
			Owns:     func() bool { return d.shared && d.owns != nil && d.owns(site) },
		})
		if now := time.Now(); now.Before(d.settled) {
			a.Renew(now, d.generation)
		}
		d.accounts[site] = a
		if len(d.accounts) > 2*d.swept+fewAccounts {
			d.ringing.ring()
		}
	}
	return a
}

// size is how many instances there are.
func (d *desk) size() int {
	if p := d.members.Load(); p != nil {
		return max(p.Members, 1)
	}
	return 1
}

// schedule says when an account is due.
func (d *desk) schedule(a *account, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.place(a, at)
}

// place is schedule with the lock held. What is under way is placed when it is over.
func (d *desk) place(a *account, at time.Time) {
	a.at = at
	if a.busy {
		return
	}
	switch {
	case at.IsZero():
		if a.place >= 0 {
			heap.Remove(&d.due, a.place)
		}
		return
	case a.place >= 0:
		heap.Fix(&d.due, a.place)
	default:
		heap.Push(&d.due, a)
	}
	if d.due[0] == a {
		d.ringing.ring()
	}
}

// note tells the other instances something of a site.
func (d *desk) note(site string, n store.Note) {
	d.gate.With(site, func(now time.Time) {
		a := d.account(site)
		a.Note(now, n)
		d.schedule(a, a.Due())
	})
}

// run exchanges until ctx is done, and gives back then what is left.
func (d *desk) run(ctx context.Context) {
	var others sync.WaitGroup
	if d.shared {
		d.beatOnce(ctx)
		others.Go(func() { d.pulse(ctx) })
		others.Go(func() { d.listen(ctx) })
	} else if d.local() {
		d.count(ctx)
		others.Go(func() { d.listen(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweeping := time.NewTicker(sweepEvery)
	defer sweeping.Stop()
	for ctx.Err() == nil {
		if d.crowded() {
			d.sweep()
		}
		list, next := d.take(time.Now())
		if len(list) > 0 {
			select {
			case d.room <- struct{}{}:
				d.underWay.Go(func() {
					defer func() { <-d.room }()
					d.exchange(ctx, list, false)
				})
			case <-ctx.Done():
			}
			continue
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-d.ringing:
		case <-timer.C:
		case <-sweeping.C:
			d.sweep()
			d.tellRest()
		}
	}
	d.underWay.Wait()
	others.Wait()
	d.part()
	d.tellRest()
}

// tellRest tells the log what it was not told so far, to keep its lines few.
func (d *desk) tellRest() {
	d.tellLent()
	d.tellOutages()
	d.tellLosses()
}

// take are the accounts that are due, and otherwise when the next one is.
func (d *desk) take(now time.Time) (list []*account, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.due) > 0 && len(list) < mostBatches {
		a := d.due[0]
		if a.at.After(now) {
			return list, a.at
		}
		heap.Pop(&d.due)
		a.busy, a.at = true, time.Time{}
		list = append(list, a)
	}
	return list, time.Time{}
}

// exchange says what accounts have to say and has them hear the answer. The last one of
// all answers who could not be heard.
func (d *desk) exchange(ctx context.Context, list []*account, last bool) (unheard []*account) {
	batches := make([]store.Batch, 0, len(list))
	speaking := list[:0]
	for _, a := range list {
		var one store.Batch
		var says bool
		d.under(a, func(now time.Time) bool {
			if last {
				a.Release(now)
			}
			one, says = a.Batch(now)
			return says
		})
		switch {
		case says:
			batches, speaking = append(batches, one), append(speaking, a)
		case last && d.waits(a):
			unheard = append(unheard, a)
		}
	}
	if len(batches) == 0 {
		return unheard
	}
	replies, err := d.ask(ctx, batches)
	if err != nil && last {
		unheard = append(unheard, speaking...)
	}
	for i, a := range speaking {
		if err == nil && len(replies[i].Notes) > 0 { // before anything is granted
			d.told(a, replies[i].Notes)
		}
		if err == nil {
			d.losses.settles(time.Now(), a.site, replies[i].Answers)
		}
		var loans []lease.Loan
		var off lease.Off
		d.under(a, func(now time.Time) bool {
			if err != nil {
				a.Hear(now, nil, err)
				loans = a.Loans()
				return false
			}
			a.Hear(now, &replies[i], nil)
			loans = a.Loans()
			off = a.Off()
			granted, spent := a.Leased()
			d.granted.Add(granted)
			d.spent.Add(spent)
			return false
		})
		d.lent(a.site, loans, err)
		d.tellOff(off)
	}
	return unheard
}

// waits tells whether an account has something to say later.
func (d *desk) waits(a *account) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !a.at.IsZero()
}

// ask is one exchange with the store. None is made before the store has said what it
// is: it may have lost what others hold.
func (d *desk) ask(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if d.shared && d.members.Load() == nil {
		return nil, errUnheard
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, patienceOfStore)
	defer cancel()
	replies, err := d.store.Exchange(within, batches)
	if err == nil && len(replies) != len(batches) {
		err = errShort
	}
	took := time.Since(began)
	d.measure("exchange", err == nil, took)
	d.heardOf(err, took)
	if err == nil && !replies[0].Now.IsZero() {
		ahead := replies[0].Now.Sub(began.Round(0).Add(took / 2))
		d.clock.Store(&ahead)
	}
	if err == nil && !d.shared {
		d.lives(replies[0].Generation)
	}
	return replies, err
}

// lives hears which file this machine's budgets are in. In another one than before,
// since that was removed or damaged, all of them are written again.
func (d *desk) lives(generation string) {
	d.mu.Lock()
	old := d.generation
	d.generation = generation
	d.mu.Unlock()
	if old == "" || old == generation {
		return
	}
	d.log.Warn("the state file is another one than before, so everything is written again")
	d.gate.Limits(func(now time.Time, _ string, _ queue.Scope, _ string, _ *limit.Spec, _ int64, m limit.Meter) {
		if kept, ok := m.(interface{ Lost(now time.Time) }); ok {
			kept.Lost(now)
		}
	})
}

// under does something with an account under the lock of its site, and schedules it
// unless what it said is under way. It does nothing where the site was forgotten, and
// what the account had with it.
func (d *desk) under(a *account, do func(now time.Time) (busy bool)) {
	known := d.gate.With(a.site, func(now time.Time) {
		busy := do(now)
		d.mu.Lock()
		defer d.mu.Unlock()
		a.busy = busy
		d.place(a, a.Due())
	})
	if known {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.busy = false
	switch {
	case !a.at.IsZero(): // a site of that name has begun to use it meanwhile
		d.place(a, a.at)
	case d.accounts[a.site] == a:
		delete(d.accounts, a.site)
	}
}

// crowded tells whether there are many accounts more than there were after a sweep.
func (d *desk) crowded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.accounts) > 2*d.swept+fewAccounts
}

// sweep forgets the accounts of sites that the gate has forgotten. There is one for
// each site that it remembers, and no second one beside it.
func (d *desk) sweep() {
	d.mu.Lock()
	var quiet []*account
	for _, a := range d.accounts {
		if !a.busy && a.place < 0 {
			a.busy = true
			quiet = append(quiet, a)
		}
	}
	d.mu.Unlock()
	for _, a := range quiet {
		d.under(a, func(time.Time) bool { return false })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.swept = len(d.accounts)
}

// part gives back what was granted and not used.
func (d *desk) part() {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	d.mu.Lock()
	all := make([]*account, 0, len(d.accounts))
	for _, a := range d.accounts {
		all = append(all, a)
	}
	d.mu.Unlock()
	for len(all) > 0 && ctx.Err() == nil {
		var again []*account
		for len(all) > 0 && ctx.Err() == nil {
			n := min(len(all), mostBatches)
			again = append(again, d.exchange(ctx, append([]*account(nil), all[:n]...), true)...)
			all = all[n:]
		}
		if all = again; len(all) > 0 { // what was away may be there again
			pause := time.NewTimer(parting / 20)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
		}
	}
	if d.shared {
		_, _ = d.store.Pulse(ctx, store.Member{ID: d.instance, Name: d.name, Gone: true}) // it would be forgotten anyway
	}
}
