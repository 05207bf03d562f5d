// Package broadcast has the instances of a fleet tell each other what they learn of sites:
// cooldowns, announced windows, and the rates that servers hide. Such news are notes beside the
// budgets of their site.
package broadcast

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
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
	store.Names
	// OfFleet returns the stable name of a slot's key at a site, and reports whether all
	// instances of a fleet have a learned limit of that key together.
	OfFleet(site, key string) (whose string, shared bool)
}

// Broadcasts are the news of one instance. They are safe for concurrent use.
type Broadcasts struct {
	o     Options
	told  map[windowOf]ledger.WindowReport // in the last round
	unmet *unmetSites
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
	return &Broadcasts{o: o, unmet: newUnmetSites()}
}

// Run tells the other instances of new announcements and findings, until ctx is done.
func (b *Broadcasts) Run(ctx context.Context) {
	pause := tellEvery
	for clock.Sleep(ctx, pause) == nil {
		began, together := time.Now(), b.o.Keeper.Together()
		if together {
			b.tellLearned()
		} else {
			clear(b.told)
		}
		b.o.Tokens(ctx, together)
		if pause = lookEvery; together {
			pause = max(tellEvery, restPart*time.Since(began))
		}
	}
}

// tellLearned tells of all windows and hidden rates of servers that have changed.
func (b *Broadcasts) tellLearned() {
	var all []message
	b.o.Gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		id, learned := b.o.Learned.ID(at.At.Limit)
		whose, ok := b.shares(at.Site, at.At.Key)
		if !learned || !ok {
			return
		}
		tell := func(text any, news bool) {
			if news {
				all = append(all, message{at.Site, id, whose, text})
			}
		}
		switch m := at.Meter.(type) {
		case *ledger.Ledger:
			windowReport, ok := m.Report(now)
			tell(windowReport, ok)
		case *ledger.HiddenRate:
			f, news := m.Finding()
			tell(f, news)
			use, ok := m.Use(now)
			tell(use, ok)
		}
	})
	b.tell(all)
}

// Cooled tells the other instances of a cooldown that begins in this one. A learned limit
// has another name in each instance, and cools there by itself.
func (b *Broadcasts) Cooled(site string, at queue.Scope, until time.Time, why string) {
	if _, learned := b.o.Learned.ID(at.Limit); learned || !b.o.Keeper.Together() || !b.o.Names.Lasting(at.Key) {
		return
	}
	b.o.Keeper.Note(site, store.Note{Key: keyOf(noteOfCooldown, at.Limit, b.o.Names.Stable(site, at.Key)), Until: until, Text: why})
}

// Heard takes over the news of other instances about a site.
func (b *Broadcasts) Heard(site string, notes []store.Note) {
	for _, n := range notes {
		parts := strings.Split(n.Key, store.Separator)
		if len(parts) < 3 {
			continue
		}
		switch kind, name, whose := parts[0], parts[1], parts[2]; kind {
		case noteOfCooldown:
			for _, key := range b.o.Names.Local(site, name, whose) {
				b.o.Gate.Cool(site, queue.Scope{Limit: name, Key: key}, n.Until, n.Text)
			}
		case noteOfWindow:
			b.hearWindow(site, name, whose, n)
		case noteOfFinding:
			b.hearHidden(site, name, whose, "", n)
		case noteOfUse:
			b.hearHidden(site, name, whose, parts[len(parts)-1], n)
		}
	}
}

// Unmet takes in notes of a site of which this instance holds nothing. They are remembered
// before the gate is asked: a request may come in between.
func (b *Broadcasts) Unmet(site string, notes []store.Note) {
	b.unmet.remember(time.Now(), site, notes)
	if b.o.Gate.Knows(site) {
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
	if !b.o.Keeper.Shared() || q.Observe || !b.unmet.misses(now) || leases(q.Limits) || b.o.Gate.Knows(q.Site) || b.o.Keeper.Failing() > 0 {
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
	if b.unmet.allows(now, b.o.Keeper.Size()) {
		b.Heard(q.Site, b.o.Keeper.Notes(ctx, q.Site, patience))
	}
}

// leases reports whether a request needs a lease, whichever way it goes.
func leases(ways [][]queue.Limit) bool {
	for _, limits := range ways {
		if !slices.ContainsFunc(limits, func(l queue.Limit) bool { return l.Source != nil && l.Spec != nil }) {
			return false
		}
	}
	return len(ways) > 0
}

// Share has the instances of a fleet divide a learned limit, by the outage rule of its
// site, and the processes of one machine one that is announced. recalled says that the limit was known before a restart.
// Share is called under the lock of the site.
func (b *Broadcasts) Share(site string, at queue.Scope, m limit.Meter, recalled bool, outage lease.Outage) {
	id, learned := b.o.Learned.ID(at.Limit)
	whose, ok := b.shares(site, at.Key)
	if !learned || !ok {
		return
	}
	name, known := b.o.Learned.Name(site, id)
	if !known {
		return
	}
	key := store.BudgetKey(b.o.Learned.Slot(name), whose)
	open := func() *lease.Account { return b.o.Keeper.Account(site) }
	l, announced := m.(*ledger.Ledger)
	if announced && !b.o.Keeper.Shared() {
		l.Share(&lease.OnMachine{Name: key, Open: open}, b.o.Keeper.Together)
	} else if announced {
		l.Share(open().Announced(key, outage), nil)
	} else if m, hidden := m.(*ledger.HiddenRate); hidden {
		f, found := b.o.Learned.Finding(site, name, whose)
		m.Share(b.o.Keeper.Status().Instance, recalled || found, b.o.Keeper.Size())
		if found {
			m.AcceptFinding(time.Now(), f)
		}
	}
}

// The kinds of notes. Stores have them.
const (
	noteOfCooldown = "cool"
	noteOfWindow   = "tale"
	noteOfFinding  = "found"
	noteOfUse      = "used" // of a hidden limit, by one instance
)

// keyOf returns the key of a note: its kind, its limit, and whose limit that is.
func keyOf(kind, name, whose string) string {
	return strings.Join([]string{kind, name, whose}, store.Separator)
}

// shares reports whether a fleet, or the processes of one machine, have the learned limit of a key together, and returns
// their name of the key.
func (b *Broadcasts) shares(site, key string) (whose string, ok bool) {
	switch {
	case b.o.Keeper == nil || !b.o.Names.Lasting(key):
		return "", false
	case !b.o.Keeper.Shared():
		return b.o.Names.Stable(site, key), true
	}
	return b.o.Names.OfFleet(site, key)
}

// touch visits the meters of a learned limit in this instance.
func (b *Broadcasts) touch(site, name, whose string, do func(now time.Time, m limit.Meter)) {
	ids := b.o.Learned.IDs(site, name)
	if len(ids) == 0 {
		return
	}
	keys := b.o.Names.Local(site, "", whose)
	for _, id := range ids {
		for _, key := range keys {
			b.o.Gate.Update(site, queue.Scope{Limit: b.o.Learned.Slot(id), Key: key}, do)
		}
	}
}

// windowOf names the window of a server's limit, the same in all instances.
type windowOf struct{ site, name, whose string }

// hearWindow takes over another instance's report of a window.
func (b *Broadcasts) hearWindow(site, name, whose string, n store.Note) {
	var windowReport ledger.WindowReport
	if json.Unmarshal([]byte(n.Text), &windowReport) != nil {
		return
	}
	windowReport.Reset, windowReport.Used = n.Until, max(windowReport.Used, n.N)
	b.touch(site, name, whose, func(now time.Time, m limit.Meter) {
		if l, ok := m.(*ledger.Ledger); ok {
			l.AcceptReport(now, windowReport)
		}
	})
}

// findingLasts is the time for which a note tells of a hidden limit after the limit was found
// or has changed: as long as an instance knows a limit that is not used.
const findingLasts = 24 * time.Hour

// message tells the other instances of a limit: a ledger.WindowReport, ledger.Finding or ledger.Use.
type message struct {
	site, id, whose string
	text            any
}

// tell tells of hidden limits, and of the windows that have changed, of all that there are.
func (b *Broadcasts) tell(all []message) {
	told := map[windowOf]ledger.WindowReport{}
	for _, one := range all {
		name, known := b.o.Learned.Name(one.site, one.id)
		if !known {
			continue
		}
		n := store.Note{Key: keyOf(noteOfFinding, name, one.whose), Until: time.Now().Add(findingLasts)}
		switch text := one.text.(type) {
		case ledger.WindowReport:
			of := windowOf{one.site, name, one.whose}
			told[of] = text
			if old, was := b.told[of]; was && old.Used >= text.Used && old.Reset.Equal(text.Reset) && old.Number == text.Number {
				continue
			}
			n.Key, n.Until, n.N = keyOf(noteOfWindow, name, one.whose), text.Reset, text.Used
		case ledger.Finding:
			b.o.Learned.SetFinding(one.site, name, one.whose, text)
			n.N = int64(1e9 - 1000*min(text.Rate, 1e6)) // of two at one time the lower rate counts
		case ledger.Use:
			n.Key = keyOf(noteOfUse, name, one.whose) + store.Separator + b.o.Keeper.Status().Instance
			n.Until = time.Now().Add(ledger.UseLasts)
		}
		if text, err := json.Marshal(one.text); err == nil {
			n.Text = string(text)
			b.o.Keeper.Note(one.site, n)
		}
	}
	b.told = told
}

// hearHidden takes over what another instance tells of a hidden limit. instance is its name if it tells its use, else "".
func (b *Broadcasts) hearHidden(site, name, whose, instance string, n store.Note) {
	var finding ledger.Finding
	var use ledger.Use
	if instance == b.o.Keeper.Status().Instance || json.Unmarshal([]byte(n.Text), &finding) != nil || json.Unmarshal([]byte(n.Text), &use) != nil {
		return
	}
	if instance == "" {
		if version, changed := b.o.Learned.SetFinding(site, name, whose, finding); changed {
			b.o.Gate.Replan(site, version)
		}
	}
	b.touch(site, name, whose, func(now time.Time, m limit.Meter) {
		if p, ok := m.(*ledger.HiddenRate); ok && instance == "" {
			p.AcceptFinding(now, finding)
		} else if ok {
			p.OtherUses(now, instance, use)
		}
	})
}
