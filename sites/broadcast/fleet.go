package broadcast

import (
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
