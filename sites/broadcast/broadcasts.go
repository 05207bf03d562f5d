// Package broadcast has the instances of a fleet tell each other what they learn of sites:
// cooldowns, announced windows, and the rates that servers hide. Such news are notes beside the
// budgets of their site.
package broadcast

import (
	"context"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget"
	"github.com/abide-proxy/abide/store/budget/lease"
)

const (
	// tellEvery is the least time between two rounds of telling, and restPart the least
	// rest after a round, as a multiple of the time of the round.
	tellEvery = 250 * time.Millisecond
	restPart  = 200
	// lookEvery is the interval in which a process that is alone looks whether others have come.
	lookEvery = time.Second
	// questionPatience is the longest wait of a request for the cooldowns of its site.
	questionPatience = 500 * time.Millisecond
)

// Names names the budgets of tokens and clients alike in every process.
type Names interface {
	budget.Names
	// OfFleet returns the stable name of a slot's key at a site, and reports whether all
	// instances of a fleet have a learned limit of that key together.
	OfFleet(site, key string) (whose string, shared bool)
}

// Broadcasts are the news of one instance. They are safe for concurrent use.
type Broadcasts struct {
	keeper  *budget.Keeper
	gate    *queue.Gate
	names   Names
	learned *sites.Sites
	tokens  func(ctx context.Context, together bool)
	told    map[windowOf]ledger.WindowReport // in the last round
	unmet   *unmetSites
}

// Options configure Broadcasts.
type Options struct {
	Keeper  *budget.Keeper // nil: there is no other instance
	Gate    *queue.Gate
	Names   Names
	Learned *sites.Sites
	// Tokens is called in each round of telling, to tell of tokens; together says whether
	// other instances are there.
	Tokens func(ctx context.Context, together bool)
}

// New makes Broadcasts. They tell nothing before Run.
func New(o Options) *Broadcasts {
	return &Broadcasts{keeper: o.Keeper, gate: o.Gate, names: o.Names, learned: o.Learned, tokens: o.Tokens, unmet: newUnmetSites()}
}

// Run tells the other instances of new announcements and findings, until ctx is done.
func (b *Broadcasts) Run(ctx context.Context) {
	timer := time.NewTimer(tellEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began, together := time.Now(), b.keeper.Together()
		if together {
			b.tellLearned()
		} else {
			clear(b.told)
		}
		b.tokens(ctx, together)
		if !together {
			timer.Reset(lookEvery)
			continue
		}
		timer.Reset(max(tellEvery, restPart*time.Since(began)))
	}
}

// tellLearned tells of all windows and hidden rates of servers that have changed.
func (b *Broadcasts) tellLearned() {
	var reports []report
	var found []finding
	b.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		id, learned := b.learned.ID(at.At.Limit)
		if !learned || !b.names.Lasting(at.At.Key) {
			return
		}
		switch m := at.Meter.(type) {
		case *ledger.Ledger:
			if windowReport, ok := m.Report(now); ok {
				reports = append(reports, report{at.Site, id, at.At.Key, windowReport})
			}
		case *ledger.HiddenRate:
			if whose, ok := b.shares(at.Site, at.At.Key); ok {
				if f, news := m.Finding(); news {
					found = append(found, finding{at.Site, id, whose, f})
				}
			}
		}
	})
	b.tellWindows(reports)
	b.tellFindings(found)
}

// Cooled tells the other instances of a cooldown that begins in this one. A learned limit
// has another name in each instance, and cools there by itself.
func (b *Broadcasts) Cooled(site string, at queue.Scope, until time.Time, why string) {
	if _, learned := b.learned.ID(at.Limit); learned || !b.keeper.Together() || !b.names.Lasting(at.Key) {
		return
	}
	b.keeper.Note(site, store.Note{Key: keyOf(noteOfCooldown, at.Limit, b.names.Stable(site, at.Key)), Until: until, Text: why})
}

// Heard takes over the news of other instances about a site.
func (b *Broadcasts) Heard(site string, notes []store.Note) {
	for _, n := range notes {
		parts := strings.Split(n.Key, store.Separator)
		if len(parts) != 3 {
			continue
		}
		switch kind, name, whose := parts[0], parts[1], parts[2]; kind {
		case noteOfCooldown:
			for _, key := range b.names.Local(site, name, whose) {
				b.gate.Cool(site, queue.Scope{Limit: name, Key: key}, n.Until, n.Text)
			}
		case noteOfWindow:
			b.hearWindow(site, name, whose, n)
		case noteOfFinding:
			b.hearFinding(site, name, whose, n)
		}
	}
}

// Unmet takes in notes of a site of which this instance holds nothing. They are remembered
// before the gate is asked: a request may come in between.
func (b *Broadcasts) Unmet(site string, notes []store.Note) {
	b.unmet.remember(time.Now(), site, notes)
	if b.gate.Knows(site) {
		b.Heard(site, notes)
		b.unmet.forget(site)
	}
}

// Listens notes since when every note is heard; nil: some may be missed.
func (b *Broadcasts) Listens(since *time.Time) { b.unmet.listens.Store(since) }

// Meet is called before a request goes to a site. The news of other instances about the site
// hold for the request. At a site that this instance has not met, and of which notes
// may have been missed, it asks the store, unless the request waits for a lease anyway: the
// answer to that brings the same.
func (b *Broadcasts) Meet(ctx context.Context, q *queue.Request) {
	if notes := b.unmet.of(q.Site); len(notes) > 0 {
		b.Heard(q.Site, notes)
		b.unmet.forget(q.Site)
	}
	now := time.Now()
	if !b.keeper.Shared() || q.Observe || !b.unmet.misses(now) || leases(q.Limits) || b.gate.Knows(q.Site) || b.keeper.Failing() > 0 {
		return
	}
	patience := questionPatience
	if q.Wait > 0 {
		patience = min(patience, q.Wait)
	}
	answered, done := b.unmet.question(q.Site)
	if done == nil {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		select {
		case <-answered:
		case <-within.Done():
		}
		return
	}
	defer done()
	if b.unmet.allows(now, b.keeper.Size()) {
		b.Heard(q.Site, b.keeper.Notes(ctx, q.Site, patience))
	}
}

// leases reports whether a request needs a lease, whichever way it goes.
func leases(ways [][]queue.Limit) bool {
	for _, limits := range ways {
		found := false
		for i := range limits {
			found = found || limits[i].Source != nil && limits[i].Spec != nil
		}
		if !found {
			return false
		}
	}
	return len(ways) > 0
}

// Share has the instances of a fleet divide a learned limit, by the outage rule of its
// site. recalled says that the limit was known before a restart. Share is called under the
// lock of the site.
func (b *Broadcasts) Share(site string, at queue.Scope, m limit.Meter, recalled bool, outage lease.Outage) {
	id, learned := b.learned.ID(at.Limit)
	whose, ok := b.shares(site, at.Key)
	if !learned || !ok {
		return
	}
	name, known := b.learned.Name(site, id)
	if !known {
		return
	}
	account, key := b.keeper.Account(site), store.BudgetKey(b.learned.Slot(name), whose)
	switch m := m.(type) {
	case *ledger.Ledger:
		m.Share(account.Announced(key, outage))
	case *ledger.HiddenRate:
		f, found := b.learned.Finding(site, name, whose)
		m.Share(account.SharedRate(key, outage), recalled || found, b.keeper.Size())
		if found {
			m.AcceptFinding(time.Now(), f)
		}
	}
}
