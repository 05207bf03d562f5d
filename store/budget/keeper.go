// Package budget keeps budgets in a store: budgets that outlive a process, in a file of this
// machine, and budgets that a fleet shares.
//
//	k := budget.New(budget.Options{Store: s, Gate: gate, …})
//	limit.Keep = k.Meters(rule, l, spec) // its meters are kept
//	k.Run(ctx, news)                     // exchanges with the store until ctx is done
package budget

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/membership"
	"github.com/abide-proxy/abide/store/budget/storehealth"
)

// listenRetry is the pause before listening again after a failure.
const listenRetry = time.Second

// Options are the dependencies of a Keeper. All are required.
type Options struct {
	Store    store.Store
	Shared   bool                // used by several machines; otherwise Store is this machine's
	Self     store.Member        // ID is unique for this run of the process, Name is for operators
	Restored []store.SavedBudget // the budgets that Store had when it was opened
	Gate     *queue.Gate
	Names    store.Names
	Sites    Sites
	Changed  func() // called when a document may have changed
	Metrics  storehealth.Metrics
	Log      *logrus.Logger
}

// Sites answers questions about the configuration of sites.
type Sites interface {
	// HasLimit tells whether a site now has a limit of that name: see NameOf.
	HasLimit(site, name string) bool
	// Owned tells whether this instance is expected to be the only user of a site.
	Owned(site string) bool
}

// newsReceiver receives notes from other instances.
type newsReceiver interface {
	// Heard is called with new notes of a site.
	Heard(site string, notes []store.Note)
	// Unmet is called with notes of a site without an account in this instance.
	Unmet(site string, notes []store.Note)
	// Listens is called with the time since when every note is received; nil: some may be
	// missed.
	Listens(since *time.Time)
}

// Keeper keeps the budgets of one process in a store. It is safe for concurrent use; nil
// keeps and shares nothing.
type Keeper struct {
	o        Options
	health   *storehealth.Health
	members  *membership.Membership
	restored *restored
	accounts *accounts
	news     newsReceiver  // set before the first exchange
	seq      atomic.Uint64 // number of asks to the store

	granted  atomic.Int64 // units, in expired windows
	spent    atomic.Int64 // of granted
	underWay sync.WaitGroup
	slots    chan struct{} // semaphore of concurrent exchanges
}

// New makes a Keeper. Exchanges begin with Run.
func New(o Options) *Keeper {
	k := &Keeper{
		o: o, health: storehealth.New(o.Shared, o.Metrics, o.Log), restored: newRestored(o.Restored), slots: make(chan struct{}, maxExchanges),
	}
	k.members = membership.New(o.Store, o.Self, o.Shared, k.health, o.Log)
	k.accounts = &accounts{open: k.open, wake: signal.New(), all: map[string]*account{}}
	return k
}

// open makes the account of a site.
func (k *Keeper) open(site string, onDue func()) *lease.Account {
	return lease.NewAccount(site, lease.Options{
		Instance: k.o.Self.ID, Seq: func() uint64 { return k.seq.Add(1) },
		OnDue: onDue, Members: k.members.Size,
		Returned: k.health.Returned,
		Owns:     func() bool { return k.o.Shared && k.o.Sites.Owned(site) },
	})
}

// Shared tells whether instances on several machines use the budgets.
func (k *Keeper) Shared() bool { return k != nil && k.o.Shared }

// Together tells whether other processes use the budgets, on this machine or on others.
func (k *Keeper) Together() bool { return k != nil && k.members.Together() }

// Joinable tells whether other processes may begin to use the budgets.
func (k *Keeper) Joinable() bool { return k != nil && (k.o.Shared || k.members.Local()) }

// Size returns the number of instances of the fleet that shares the budgets.
func (k *Keeper) Size() int {
	if !k.Shared() {
		return 1
	}
	return k.members.Size()
}

// Failing returns the duration of the present outage of the store, 0 if there is none.
func (k *Keeper) Failing() time.Duration { return k.health.Failing() }

// Status returns the store's state.
func (k *Keeper) Status() status.Store {
	if k == nil {
		return status.Store{Kind: status.StoreNone}
	}
	store := status.Store{Kind: status.StoreLocal, Instance: k.o.Self.ID, Granted: k.granted.Load(), Spent: k.spent.Load()}
	if k.o.Shared {
		store.Kind = status.StoreShared
	}
	k.members.Fill(&store)
	k.health.Fill(&store)
	return store
}

// Members lists the instances that use the store, as many as the store lists.
func (k *Keeper) Members(ctx context.Context) []status.Member {
	if k == nil {
		return nil
	}
	return k.members.List(ctx)
}

// Saved records whether other data than a budget could be written to this machine's store.
func (k *Keeper) Saved(err error) {
	if k != nil && !k.o.Shared {
		k.health.Answered(err, 0)
	}
}

// Account returns the lease.Account of a site, whose lock the caller holds.
func (k *Keeper) Account(site string) *lease.Account { return k.accounts.of(site).Account }

// key returns the key of a slot's budget, the same in every process.
func (k *Keeper) key(site string, at queue.Scope) string {
	return store.BudgetKey(at.Limit, k.o.Names.Stable(site, at.Key))
}

// Has tells whether the store had a budget for a slot at the start that no request has used
// yet.
func (k *Keeper) Has(site string, at queue.Scope) bool {
	return k != nil && k.restored.has(site, k.key(site, at))
}

// LeftBefore returns the units of a limit that were left at the start of the process. They
// are known once, for limits that outlive the process.
func (k *Keeper) LeftBefore(site string, at queue.Scope) (left int64, known bool) {
	if k == nil {
		return 0, false
	}
	return k.restored.takeLeft(site, at)
}

// Note sends a note about a site to the other instances.
func (k *Keeper) Note(site string, n store.Note) {
	k.o.Gate.UpdateExternal(site, func(now time.Time) {
		a := k.accounts.of(site)
		a.AddNote(now, n)
		k.accounts.schedule(a, a.Due())
	})
}

// Notes asks a shared store for the notes of a site.
func (k *Keeper) Notes(ctx context.Context, site string, patience time.Duration) []store.Note {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	replies, err := k.o.Store.Exchange(within, []store.Batch{{Site: site, Instance: k.o.Self.ID}})
	if ctx.Err() == nil {
		k.o.Metrics.StoreOperation("exchange", err == nil, time.Since(began)) // it says nothing about whether the store is away
	}
	if err != nil || len(replies) != 1 {
		return nil
	}
	return replies[0].Notes
}

// Run exchanges with the store until ctx is done, and then returns all unused units.
func (k *Keeper) Run(ctx context.Context, news newsReceiver) {
	k.news = news
	events := membership.Events{Documents: k.o.Changed, Generation: k.restateAll}
	var others sync.WaitGroup
	if k.Joinable() {
		k.members.Beat(ctx, events)
		others.Go(func() { k.listen(ctx, events) })
	}
	if k.o.Shared {
		others.Go(func() { k.members.Run(ctx, events) })
	}
	k.run(ctx)
	others.Wait()
	last, cancel := context.WithTimeout(context.Background(), exchangeTimeout)
	defer cancel()
	k.returnAll(last)
	if k.o.Shared {
		k.members.Leave(last)
	}
	k.health.Report()
}

// restateAll states all leases again to a store that may have lost them.
func (k *Keeper) restateAll(began time.Time, old *store.Pulse, p store.Pulse) {
	k.accounts.setGeneration(p.Generation, began.Add(max(store.RecoveryTime-p.Since, 0)))
	if old != nil {
		k.health.LostAll(began)
	} else if p.Since >= store.RecoveryTime {
		return // all instances have stated their leases long ago
	}
	for _, a := range k.accounts.everyone() {
		k.o.Gate.UpdateExternal(a.site, func(now time.Time) { a.NewGeneration(now, p.Generation) })
	}
}

// listen receives news as soon as the store publishes them.
func (k *Keeper) listen(ctx context.Context, events membership.Events) {
	l, ok := k.o.Store.(store.Listener)
	if !ok {
		return
	}
	lines := rate.Sometimes{Interval: time.Minute}
	for {
		err := l.Listen(ctx, func(n store.News) { k.receiveNews(ctx, n, events) }) // the next exchange finds what is missed
		if errors.Is(err, background.ErrPanic) {
			lines.Do(func() {
				k.o.Log.WithField("reason", err).Warnf("news of the store are not received, which is tried again: %v", err)
			})
		}
		k.news.Listens(nil)
		if clock.Sleep(ctx, listenRetry) != nil {
			return
		}
	}
}

// receiveNews handles one message.
func (k *Keeper) receiveNews(ctx context.Context, n store.News, events membership.Events) {
	switch {
	case n.Began:
		now := time.Now()
		k.news.Listens(&now)
		return
	case n.Site == "":
		if n.Lost || k.members.Local() {
			k.members.Beat(ctx, events)
		}
		if !n.Lost {
			k.o.Changed()
		}
		return
	}
	if n.Lost {
		k.health.LostSite(time.Now(), n.Site)
	}
	a := k.accounts.find(n.Site)
	switch {
	case a != nil && n.Lost:
		k.o.Gate.UpdateExternal(n.Site, a.Restate)
	case len(n.Notes) > 0:
		if a == nil || !k.receiveNotes(a, n.Notes) {
			k.news.Unmet(n.Site, n.Notes)
		}
	case a != nil:
		k.o.Gate.UpdateExternal(n.Site, a.FetchNotes)
	}
}
