package proxy

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// noteOfFinding is about a limit that a site hides.
const noteOfFinding = "found"

// findingKept is how long a note tells of a hidden limit after that was found or has
// changed, as long as an instance keeps one that nobody uses.
const findingKept = 24 * time.Hour

// ofFleet names whose a learned limit is, the same in all instances. It is false for those
// that each instance has for itself.
//
// Without a token a site counts by address, of which each machine has its own unless
// egress.shared says otherwise.
func (s *Server) ofFleet(site, key string) (budget string, is bool) {
	if s.desk == nil || !s.desk.shared || passing(key) {
		return "", false
	}
	budget = s.stable(site, key)
	if strings.HasPrefix(budget, stablePrefix) {
		return budget, true
	}
	byAddress := key == "" || s.poolOf(site) == nil
	return budget, byAddress && s.policy().Egress.Shared
}

// shareLearned has the instances of a fleet divide a limit that was learned. recalled says
// that it was known before a restart. It is called under the lock of the site.
func (s *Server) shareLearned(site string, at queue.Scope, m limit.Meter, recalled bool) {
	id, learned := strings.CutPrefix(at.Limit, learnedPrefix)
	budget, is := s.ofFleet(site, at.Key)
	if !learned || !is {
		return
	}
	b := s.books.of(site, false)
	if b == nil {
		return
	}
	outage := lease.Share
	if rule := s.policy().RuleOf(site); rule != nil {
		outage = outages[rule.Outage]
	}
	name := b.identity(id)
	key := budgetKey(learnedPrefix+name, budget)
	switch m := m.(type) {
	case *ledger.Ledger:
		m.Share(s.desk.account(site).Announced(key, outage))
	case *ledger.Pace:
		f, found := b.finding(name + between + budget)
		m.Share(s.desk.account(site).SharedRate(key, outage), recalled || found, s.desk.size())
		if found {
			m.Told(time.Now(), f)
		}
	}
}

// tellFindings tells what is known of hidden limits, as far as that has changed.
func (s *Server) tellFindings() {
	type seen struct {
		site, id, budget string
		ledger.Finding
	}
	var all []seen
	s.gate.Slots(func(_ time.Time, at queue.SlotNow) {
		id, learned := strings.CutPrefix(at.At.Limit, learnedPrefix)
		p, ok := at.Meter.(*ledger.Pace)
		if !learned || !ok {
			return
		}
		if budget, is := s.ofFleet(at.Site, at.At.Key); is {
			if f, news := p.Found(); news {
				all = append(all, seen{at.Site, id, budget, f})
			}
		}
	})
	for _, one := range all {
		b := s.books.of(one.site, false)
		if b == nil {
			continue
		}
		text, err := json.Marshal(one.Finding)
		if err != nil {
			continue
		}
		name, passes := b.identity(one.id), int64(1)
		if one.Refused {
			passes = 0
		}
		b.hear(name, one.budget, one.Finding)
		s.desk.note(one.site, store.Note{
			Key: strings.Join([]string{noteOfFinding, name, one.budget}, between), Until: time.Now().Add(findingKept), Text: string(text),
			N: 2*int64(1e9-1000*min(one.Rate, 1e6)) + passes, // of two at one time the lower rate counts
		})
	}
}

// heardFinding takes over what another instance has found of a hidden limit.
func (s *Server) heardFinding(site, name, budget string, n store.Note) {
	var f ledger.Finding
	if json.Unmarshal([]byte(n.Text), &f) != nil {
		return
	}
	b := s.books.of(site, true)
	if b.hear(name, budget, f) {
		s.gate.Replan(site, b.version())
	}
	for _, id := range b.identified(name) {
		for _, key := range s.local(site, "", budget) {
			s.gate.Touch(site, queue.Scope{Limit: learnedPrefix + id, Key: key}, func(now time.Time, m limit.Meter) {
				if p, ok := m.(*ledger.Pace); ok {
					p.Told(now, f)
				}
			})
		}
	}
}

// hear remembers what was found of a hidden limit. It tells whether the limits of routes
// have changed by that.
func (b *book) hear(name, budget string, f ledger.Finding) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found == nil || len(b.found) >= mostRefusals {
		b.found = map[string]ledger.Finding{}
	}
	b.found[name+between+budget] = f
	return b.routes.Found(name)
}

func (b *book) finding(key string) (f ledger.Finding, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, known = b.found[key]
	return f, known
}
