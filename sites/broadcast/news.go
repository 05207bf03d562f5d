package broadcast

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget"
)

// The kinds of notes. Stores have them.
const (
	noteOfCooldown = "cool"
	noteOfWindow   = "tale"
	noteOfFinding  = "found"
)

// keyOf is the key of a note: its kind, the limit that it is about, and whose.
func keyOf(kind, name, whose string) string {
	return strings.Join([]string{kind, name, whose}, store.Separator)
}

// Names names the budgets of tokens and clients alike in every process.
type Names interface {
	budget.Names
	// OfFleet is the stable name of a slot's key at a site, and whether all instances of a
	// fleet have a learned limit of that key together.
	OfFleet(site, key string) (whose string, is bool)
}

// Learned is what is known of the limits of sites that were learned. Their IDs differ
// between instances, their names do not.
type Learned interface {
	// ID is that of the limit of a slot; false: the limit was not learned.
	ID(slot string) (id string, learned bool)
	// Slot is the reverse. Of a name it is what stores have.
	Slot(id string) string
	// Name is that of a limit by its ID; false: nothing is known of the site.
	Name(site, id string) (name string, known bool)
	// IDs are those of the limits of a site with a name.
	IDs(site, name string) []string
	// SetFinding remembers what was found of a hidden limit, and for whose requests. It
	// answers the version of what is known of the site, and whether that has changed.
	SetFinding(site, name, whose string, f ledger.Finding) (version uint64, changed bool)
	// Finding is what was remembered so.
	Finding(site, name, whose string) (f ledger.Finding, known bool)
}

// fleet is what this instance has together with the others.
type fleet struct {
	keeper  *budget.Keeper
	gate    *queue.Gate
	names   Names
	learned Learned
}

// shares tells whether a fleet has the learned limit of a key together, and what its key
// is called there.
func (f *fleet) shares(site, key string) (whose string, ok bool) {
	if !f.keeper.Shared() || !f.names.Lasting(key) {
		return "", false
	}
	return f.names.OfFleet(site, key)
}

// touch visits the meters of a learned limit in this instance.
func (f *fleet) touch(site, name, whose string, do func(now time.Time, m limit.Meter)) {
	ids := f.learned.IDs(site, name)
	if len(ids) == 0 {
		return
	}
	keys := f.names.Local(site, "", whose)
	for _, id := range ids {
		for _, key := range keys {
			f.gate.Update(site, queue.Scope{Limit: f.learned.Slot(id), Key: key}, do)
		}
	}
}

// windows tells of the windows that servers announce.
type windows struct {
	*fleet
	told map[windowOf]ledger.WindowReport
}

// windowOf names a window of a server's, as all instances do.
type windowOf struct{ site, name, whose string }

// report is what a server has said of a window until now.
type report struct {
	site, id, key string
	ledger.WindowReport
}

// forget has all windows told again.
func (w *windows) forget() { clear(w.told) }

// tell tells of the windows that have changed, of all that there are.
func (w *windows) tell(all []report) {
	told := make(map[windowOf]ledger.WindowReport, len(all))
	for _, one := range all {
		name, known := w.learned.Name(one.site, one.id)
		if !known {
			continue
		}
		if _, ok := w.shares(one.site, one.key); w.keeper.Shared() && !ok {
			continue
		}
		of := windowOf{one.site, name, w.names.Stable(one.site, one.key)}
		told[of] = one.WindowReport
		if old, was := w.told[of]; was && old.Used >= one.Used && old.Reset.Equal(one.Reset) && old.Number == one.Number {
			continue
		}
		if text, err := json.Marshal(one.WindowReport); err == nil {
			w.keeper.Note(of.site, store.Note{Key: keyOf(noteOfWindow, of.name, of.whose), Until: one.Reset, N: one.Used, Text: string(text)})
		}
	}
	w.told = told
}

// hear takes over what another instance tells of a window.
func (w *windows) hear(site, name, whose string, n store.Note) {
	var windowReport ledger.WindowReport
	if json.Unmarshal([]byte(n.Text), &windowReport) != nil {
		return
	}
	windowReport.Reset, windowReport.Used = n.Until, max(windowReport.Used, n.N)
	w.touch(site, name, whose, func(now time.Time, m limit.Meter) {
		if l, ok := m.(*ledger.Ledger); ok {
			l.AcceptReport(now, windowReport)
		}
	})
}

// findingKept is how long a note tells of a hidden limit after the limit was found or has
// changed: as long as an instance keeps a limit that is not used.
const findingKept = 24 * time.Hour

// findings tells of the limits that servers hide.
type findings struct{ *fleet }

// finding is what has changed of a hidden limit.
type finding struct {
	site, id, whose string
	ledger.Finding
}

// tell tells of hidden limits that have changed.
func (f *findings) tell(all []finding) {
	for _, one := range all {
		name, known := f.learned.Name(one.site, one.id)
		text, err := json.Marshal(one.Finding)
		if !known || err != nil {
			continue
		}
		f.learned.SetFinding(one.site, name, one.whose, one.Finding)
		passes := int64(1)
		if one.Refused {
			passes = 0
		}
		f.keeper.Note(one.site, store.Note{
			Key: keyOf(noteOfFinding, name, one.whose), Until: time.Now().Add(findingKept), Text: string(text),
			N: 2*int64(1e9-1000*min(one.Rate, 1e6)) + passes, // of two at one time the lower rate counts
		})
	}
}

// hear takes over what another instance has found of a hidden limit.
func (f *findings) hear(site, name, whose string, n store.Note) {
	var finding ledger.Finding
	if json.Unmarshal([]byte(n.Text), &finding) != nil {
		return
	}
	if version, changed := f.learned.SetFinding(site, name, whose, finding); changed {
		f.gate.Replan(site, version)
	}
	f.touch(site, name, whose, func(now time.Time, m limit.Meter) {
		if p, ok := m.(*ledger.HiddenRate); ok {
			p.AcceptFinding(now, finding)
		}
	})
}
