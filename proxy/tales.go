package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/tokens"
)

// What instances tell each other beside budgets. Cooldowns and what servers say of
// windows go as notes with the budgets of their site; a token in quarantine is a
// document, since it is about no single site.
const (
	noteOfCooldown   = "cool"
	noteOfTale       = "tale"
	kindOfQuarantine = "quarantine"
	kindOfSwitch     = "token switch"
)

const (
	// tellEvery is how often it is looked what there is to tell.
	tellEvery = 250 * time.Millisecond
	between   = "\x1f"
)

// tale names a window of a server's, as all instances do.
type tale struct{ site, name, budget string }

// tell tells the other instances what servers have said, until ctx is done.
func (s *Server) tell(ctx context.Context) {
	told := map[tale]ledger.Tale{}
	versions := map[string]uint64{}
	timer := time.NewTimer(tellEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		if !s.desk.together() { // nobody is there to hear it
			told = map[tale]ledger.Tale{}
			clear(versions)
			timer.Reset(time.Second)
			continue
		}
		told = s.tellTales(told)
		s.tellFindings()
		s.tellTokens(ctx, versions)
		timer.Reset(max(tellEvery, rememberPart*time.Since(began)))
	}
}

// tellTales tells of the windows that have changed, and answers all that there are.
func (s *Server) tellTales(before map[tale]ledger.Tale) map[tale]ledger.Tale {
	type seen struct {
		site, id, key string
		ledger.Tale
	}
	var all []seen
	s.gate.Slots(func(now time.Time, at queue.SlotNow) {
		id, learned := strings.CutPrefix(at.At.Limit, learnedPrefix)
		l, ok := at.Meter.(*ledger.Ledger)
		if !learned || !ok || passing(at.At.Key) {
			return
		}
		if one, ok := l.Tale(now); ok {
			all = append(all, seen{at.Site, id, at.At.Key, one})
		}
	})
	now := make(map[tale]ledger.Tale, len(all))
	for _, one := range all {
		b := s.books.of(one.site, false)
		if b == nil {
			continue
		}
		is := tale{one.site, b.identity(one.id), s.stable(one.site, one.key)}
		if _, shared := s.ofFleet(one.site, one.key); s.desk.shared && !shared {
			continue
		}
		now[is] = one.Tale
		if old, known := before[is]; known && old.Used >= one.Used && old.Reset.Equal(one.Reset) && old.Number == one.Number {
			continue
		}
		text, err := json.Marshal(one.Tale)
		if err != nil {
			continue
		}
		s.desk.note(is.site, store.Note{
			Key: strings.Join([]string{noteOfTale, is.name, is.budget}, between), Until: one.Reset, N: one.Used, Text: string(text),
		})
	}
	return now
}

// cooled is told of each cooldown that begins here.
func (s *Server) cooled(site string, at queue.Scope, until time.Time, why string) {
	s.learnedSome()
	if s.desk == nil || !s.desk.together() || !common(at) || why == becauseBroken {
		return
	}
	s.desk.note(site, store.Note{
		Key: strings.Join([]string{noteOfCooldown, at.Limit, s.stable(site, at.Key)}, between), Until: until, Text: why,
	})
}

// common tells whether a scope means the same in every instance: those of limits that
// were learned have numbers of their own.
func common(at queue.Scope) bool {
	return !passing(at.Key) && !strings.HasPrefix(at.Limit, learnedPrefix) && !strings.HasPrefix(at.Limit, firstPrefix)
}

// heardNews takes over what other instances tell of a site.
func (s *Server) heardNews(site string, news []store.Note) {
	for _, n := range news {
		parts := strings.Split(n.Key, between)
		if len(parts) != 3 {
			continue
		}
		switch parts[0] {
		case noteOfCooldown:
			for _, key := range s.local(site, parts[1], parts[2]) {
				s.gate.Cool(site, queue.Scope{Limit: parts[1], Key: key}, n.Until, n.Text)
			}
		case noteOfTale:
			s.heardTale(site, parts[1], parts[2], n)
		case noteOfFinding:
			s.heardFinding(site, parts[1], parts[2], n)
		}
	}
}

func (s *Server) heardTale(site, name, budget string, n store.Note) {
	var one ledger.Tale
	b := s.books.of(site, false)
	if b == nil || json.Unmarshal([]byte(n.Text), &one) != nil {
		return
	}
	one.Reset, one.Used = n.Until, max(one.Used, n.N)
	keys := s.local(site, "", budget)
	for _, id := range b.identified(name) {
		for _, key := range keys {
			s.gate.Touch(site, queue.Scope{Limit: learnedPrefix + id, Key: key}, func(now time.Time, m limit.Meter) {
				if l, ok := m.(*ledger.Ledger); ok {
					l.Told(now, one)
				}
			})
		}
	}
}

// stablePrefix begins the names of tokens' budgets that mean the same in every process.
const stablePrefix = "#"

// stable is whose a slot is, so that other processes know it.
func (s *Server) stable(site, key string) string {
	if pool := s.poolOf(site); pool != nil && key != "" {
		if name := pool.Stable(key); name != "" {
			return stablePrefix + name
		}
	}
	return key
}

// local is the reverse: whose slots of this process that are. It is none of a token
// that is not here.
func (s *Server) local(site, limit, key string) []string {
	name, ok := strings.CutPrefix(key, stablePrefix)
	if !ok {
		return []string{key}
	}
	pool := s.poolOf(site)
	if pool == nil {
		return nil
	}
	var keys []string
	for _, t := range pool.Set().Tokens() {
		switch {
		case pool.Stable(t.Budget()) != name:
		case limit == slotOfToken:
			keys = append(keys, t.Key())
		default:
			return []string{t.Budget()}
		}
	}
	return keys
}

// poolOf is the pool of a site, nil if it has none.
func (s *Server) poolOf(site string) *tokens.Pool {
	st := s.state.Load()
	if len(st.pools) == 0 {
		return nil
	}
	rule := st.policy.RuleOf(site)
	if rule == nil {
		return nil
	}
	return st.pools[rule.Pool]
}
