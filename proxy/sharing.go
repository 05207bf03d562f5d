package proxy

import (
	"strings"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/queue"
)

// shareLedger has the instances of a fleet divide what a site announces for a token. It
// is called under the lock of the site.
//
// Without a token a site counts by address, of which each machine has its own.
func (s *Server) shareLedger(site string, at queue.Scope, l *ledger.Ledger) {
	if s.desk == nil || !s.desk.shared || passing(at.Key) {
		return
	}
	id, learned := strings.CutPrefix(at.Limit, learnedPrefix)
	budget, b := s.stable(site, at.Key), s.books.of(site, false)
	if !learned || b == nil || !strings.HasPrefix(budget, stablePrefix) {
		return
	}
	outage := lease.Share
	if rule := s.policy().RuleOf(site); rule != nil {
		outage = outages[rule.Outage]
	}
	l.Share(s.desk.account(site).Announced(budgetKey(learnedPrefix+b.identity(id), budget), outage))
}
