package broadcast

import (
	"encoding/json"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
)

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
