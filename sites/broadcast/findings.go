package broadcast

import (
	"encoding/json"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
)

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
