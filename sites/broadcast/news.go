package broadcast

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
)

// The kinds of notes. Stores have them.
const (
	noteOfCooldown = "cool"
	noteOfWindow   = "tale"
	noteOfFinding  = "found"
)

// keyOf returns the key of a note: its kind, its limit, and whose limit that is.
func keyOf(kind, name, whose string) string {
	return strings.Join([]string{kind, name, whose}, store.Separator)
}

// shares reports whether a fleet has the learned limit of a key together, and returns the
// fleet's name of the key.
func (b *Broadcasts) shares(site, key string) (whose string, ok bool) {
	if !b.keeper.Shared() || !b.names.Lasting(key) {
		return "", false
	}
	return b.names.OfFleet(site, key)
}

// touch visits the meters of a learned limit in this instance.
func (b *Broadcasts) touch(site, name, whose string, do func(now time.Time, m limit.Meter)) {
	ids := b.learned.IDs(site, name)
	if len(ids) == 0 {
		return
	}
	keys := b.names.Local(site, "", whose)
	for _, id := range ids {
		for _, key := range keys {
			b.gate.Update(site, queue.Scope{Limit: b.learned.Slot(id), Key: key}, do)
		}
	}
}

// windowOf names the window of a server's limit, the same in all instances.
type windowOf struct{ site, name, whose string }

// report is a server's announcement of a window until now.
type report struct {
	site, id, key string
	ledger.WindowReport
}

// tellWindows tells of the windows that have changed, of all that there are.
func (b *Broadcasts) tellWindows(all []report) {
	told := make(map[windowOf]ledger.WindowReport, len(all))
	for _, one := range all {
		name, known := b.learned.Name(one.site, one.id)
		if !known {
			continue
		}
		if _, ok := b.shares(one.site, one.key); b.keeper.Shared() && !ok {
			continue
		}
		of := windowOf{one.site, name, b.names.Stable(one.site, one.key)}
		told[of] = one.WindowReport
		if old, was := b.told[of]; was && old.Used >= one.Used && old.Reset.Equal(one.Reset) && old.Number == one.Number {
			continue
		}
		if text, err := json.Marshal(one.WindowReport); err == nil {
			b.keeper.Note(of.site, store.Note{Key: keyOf(noteOfWindow, of.name, of.whose), Until: one.Reset, N: one.Used, Text: string(text)})
		}
	}
	b.told = told
}

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

// finding is a change of a hidden limit.
type finding struct {
	site, id, whose string
	ledger.Finding
}

// tellFindings tells of hidden limits that have changed.
func (b *Broadcasts) tellFindings(all []finding) {
	for _, one := range all {
		name, known := b.learned.Name(one.site, one.id)
		text, err := json.Marshal(one.Finding)
		if !known || err != nil {
			continue
		}
		b.learned.SetFinding(one.site, name, one.whose, one.Finding)
		passes := int64(1)
		if one.Refused {
			passes = 0
		}
		b.keeper.Note(one.site, store.Note{
			Key: keyOf(noteOfFinding, name, one.whose), Until: time.Now().Add(findingLasts), Text: string(text),
			N: 2*int64(1e9-1000*min(one.Rate, 1e6)) + passes, // of two at one time the lower rate counts
		})
	}
}

// hearFinding takes over another instance's finding of a hidden limit.
func (b *Broadcasts) hearFinding(site, name, whose string, n store.Note) {
	var finding ledger.Finding
	if json.Unmarshal([]byte(n.Text), &finding) != nil {
		return
	}
	if version, changed := b.learned.SetFinding(site, name, whose, finding); changed {
		b.gate.Replan(site, version)
	}
	b.touch(site, name, whose, func(now time.Time, m limit.Meter) {
		if p, ok := m.(*ledger.HiddenRate); ok {
			p.AcceptFinding(now, finding)
		}
	})
}
