package broadcast

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// Share has the instances of a fleet divide a learned limit, by the outage rule of its
// site. recalled says that the limit was known before a restart. Share is called under the
// lock of the site.
func (b *Broadcasts) Share(site string, at queue.Scope, m limit.Meter, recalled bool, outage lease.Outage) {
	id, learned := b.learned.ID(at.Limit)
	whose, ok := b.findings.shares(site, at.Key)
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
