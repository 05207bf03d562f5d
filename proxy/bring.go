package proxy

import (
	"strings"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// mostBrought is how many budgets are there from the beginning; others are when somebody
// asks for them.
const mostBrought = mostUsages

// keyOfOthers is whose a slot of the queue is that many share.
const keyOfOthers = "other"

// bringAll has the budgets of which something is used be there from the beginning, those
// used last first: who looks before any request comes sees what is left.
func (s *Server) bringAll(all []store.Kept) {
	st, now, brought := s.state.Load(), time.Now(), 0
	plans := map[string]*plan{}
	for i := range all {
		one := &all[i]
		p, looked := plans[one.Site]
		if !looked {
			p = st.planOf(one.Site, st.policy.RuleOf(one.Site))
			plans[one.Site] = p
		}
		name, whose, _ := strings.Cut(one.Key, between)
		need := p.called(name)
		if need == nil || need.Keep == nil || !uses(now, need.Spec, one) {
			continue
		}
		for _, key := range s.local(one.Site, name, whose) {
			if key == keyOfOthers {
				continue // of all who came late, which nobody has yet
			}
			s.bring(requestOf(one.Site, *need, key, st.made))
		}
		if brought++; brought >= mostBrought {
			break
		}
	}
	s.sampleOnce()
}

// called is the limit of that identity, nil if there is none any more.
func (p *plan) called(identity string) *queue.Limit {
	if p == nil {
		return nil
	}
	for i := range p.limits {
		switch one := &p.limits[i]; identity {
		case one.need.Name:
			return &one.need
		case one.trickle.Name:
			return &one.trickle
		}
	}
	return nil
}

// uses tells whether anything of what was kept still counts.
func uses(now time.Time, spec *limit.Spec, one *store.Kept) bool {
	m, err := limit.New(*spec)
	return err == nil && (lease.Restore(now, m, one.State, one.Ahead) != nil || !m.Idle(now))
}

// requestOf is one that takes from a limit's meter of that key.
func requestOf(site string, need queue.Limit, key string, made uint64) queue.Request {
	r := queue.Request{Site: site, Made: made}
	switch need.Key = ""; need.By {
	case queue.ByClient:
		r.Client = key
	case queue.ByRoute:
		r.Method, r.Path, _ = strings.Cut(key, " ")
	default:
		need.Key = key
	}
	r.Limits = [][]queue.Limit{{need}}
	return r
}

// bring has what is known from before of a request's limits be there.
func (s *Server) bring(r queue.Request) {
	s.gate.Bring(r, func(at queue.Scope) bool {
		if strings.HasPrefix(at.Limit, learnedPrefix) {
			return s.memory.has(kindOfLedger, s.slotKey(r.Site, at))
		}
		return s.desk.has(r.Site, budgetKey(at.Limit, s.stable(r.Site, at.Key)))
	})
}

// noteUsed remembers how much of a limit had been used before the restart.
func (d *desk) noteUsed(site string, at queue.Scope, spec *limit.Spec, m limit.Meter) {
	if !lasts(spec) {
		return
	}
	l := written{WrittenLimit: WrittenLimit{Amount: spec.Amount, Left: m.Left(time.Now())}, spec: spec}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.before == nil {
		d.before = map[slotName]int64{}
	}
	d.before[slotName{site, at}] = l.used()
}

// usedBefore is that, once.
func (d *desk) usedBefore(name slotName) int64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.before[name]
	delete(d.before, name)
	return n
}

// has tells whether a budget was kept, and was not asked for yet.
func (d *desk) has(site, key string) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.recalled[[2]string{site, key}]
	return there
}

// has tells whether something is remembered of a key, and was not asked for yet.
func (m *memories) has(kind, key string) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there := m.recalled[kind][key]
	return there
}
