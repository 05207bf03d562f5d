package tokens

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// Memory is what outlives a process of one token. It is small, and has nothing of the
// secret but a name that no way leads back from.
type Memory struct {
	Token       string    `json:"token"`                      // Token.Stable
	Disabled    string    `json:"disabled,omitempty"`         // why; "" is not at all
	Quarantined time.Time `json:"quarantined_until,omitzero"` // also when it is over, as long as no success was seen
	Times       int       `json:"times,omitempty"`            // quarantines in a row: the next is the longer
	Why         string    `json:"why,omitempty"`              // it is in quarantine
	Account     string    `json:"account,omitempty"`          // the same for all that are of one account; "" is its own
	Left        time.Time `json:"left,omitzero"`              // when it left the pool; zero is not at all
}

const (
	longestWhy = 200
	mostTimes  = 32
	// alike is by how much two words of one quarantine may differ.
	alike = 2 * time.Second
)

// Version grows with every change of what State says.
func (p *Pool) Version() uint64 { return p.version.Load() }

// note is for a change of what is remembered, if it is one.
func (p *Pool) note(news bool) {
	if news {
		p.version.Add(1)
	}
}

// State is what is worth remembering, for Restore, in order of the names.
func (p *Pool) State(now time.Time) []Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	members := map[*account]int{}
	for _, s := range p.known {
		members[s.account.Load()]++
	}
	var list []Memory
	for _, s := range p.known {
		if !s.left.IsZero() && now.Sub(s.left) > remembered {
			continue
		}
		a := s.account.Load()
		m := Memory{
			Token: s.stable, Disabled: s.disabled, Quarantined: s.rejection.until, Times: s.rejection.times, Left: s.left,
		}
		if m.Times > 0 {
			m.Why = s.rejection.why
		}
		if members[a] > 1 || a.stable != s.stable {
			m.Account = a.stable
		}
		if m.Disabled != "" || m.Times > 0 || m.Account != "" {
			list = append(list, m)
		}
	}
	list = slices.AppendSeq(list, maps.Values(p.kept))
	slices.SortFunc(list, func(a, b Memory) int { return strings.Compare(a.Token, b.Token) })
	return list
}

// Restore takes over what State has said in another process, or in this one. Nothing
// becomes shorter or is forgotten by it. What concerns tokens that are not there is
// kept for a day, for a reload that brings them.
func (p *Pool) Restore(now time.Time, list []Memory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range list {
		m, ok := m.credible(now)
		if !ok {
			continue
		}
		if s := p.known[m.Token]; s != nil {
			p.recall(now, s, m)
			continue
		}
		if m.Left.IsZero() {
			m.Left = now
		}
		old, there := p.kept[m.Token]
		if there {
			m = old.and(m)
		}
		if m != old && (there || len(p.kept) < mostTokens) && now.Sub(m.Left) <= remembered {
			p.kept[m.Token] = m
			p.version.Add(1)
		}
	}
	p.gather(now)
	p.publish(nil)
}

// and is two memories of one token: of each the stricter.
func (m Memory) and(o Memory) Memory {
	m.Disabled, m.Account = cmp.Or(m.Disabled, o.Disabled), cmp.Or(m.Account, o.Account)
	m.Times = max(m.Times, o.Times)
	if o.Quarantined.After(m.Quarantined) {
		m.Quarantined, m.Why = o.Quarantined, o.Why
	}
	if o.Left.After(m.Left) {
		m.Left = o.Left
	}
	return m
}

// credible is a memory with nothing in it that cannot be: it may come from a clock that
// was ahead, or from a file that was damaged.
func (m Memory) credible(now time.Time) (Memory, bool) {
	if b, err := hex.DecodeString(m.Token); err != nil || len(b) != stableBytes {
		return m, false
	}
	if b, err := hex.DecodeString(m.Account); m.Account != "" && (err != nil || len(b) != stableBytes) {
		m.Account = ""
	}
	m.Disabled, m.Why = printable(m.Disabled), printable(m.Why)
	if m.Times = min(max(m.Times, 0), mostTimes); !m.Quarantined.IsZero() {
		m.Times = max(m.Times, 1)
	}
	if m.Times > 0 {
		if latest := now.Add(confinement(m.Times)); m.Quarantined.After(latest) {
			m.Quarantined = latest
		}
	}
	if m.Left.After(now) {
		m.Left = now
	}
	return m, true
}

// printable is a reason that can be shown.
func printable(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), longestWhy)], "")
}

// recall applies what is remembered of a token.
func (p *Pool) recall(now time.Time, s *state, m Memory) {
	if s.disabled == "" && m.Disabled != "" {
		s.disabled = m.Disabled
		p.version.Add(1)
	}
	p.confine(now, s, m)
	if m.Account != "" {
		p.belong(now, s.account.Load(), m.Account)
	}
}

// confine puts a token into the quarantine that is remembered, if that is longer.
func (p *Pool) confine(now time.Time, s *state, m Memory) (news bool) {
	r := s.rejection
	r.times = max(r.times, m.Times)
	if m.Quarantined.After(r.until) {
		r.until, r.why = m.Quarantined, m.Why
		if r.until.After(now) {
			r.since, r.sent = now, now // whatever is under way has been known
			s.witness.Store(0)
		}
	}
	news = s.reject(r)
	p.note(news)
	return news
}

// belong makes an account that of a name, and of all others that have it.
func (p *Pool) belong(now time.Time, a *account, name string) {
	for _, s := range p.states {
		if other := s.account.Load(); other != a && other.stable == name {
			p.join(now, a, other)
			return
		}
	}
	if name < a.stable {
		a.stable = name
		p.version.Add(1)
	}
}

// gather brings tokens into the accounts that have their names: these may have been
// known before the tokens were.
func (p *Pool) gather(now time.Time) {
	for _, s := range p.known {
		a := s.account.Load()
		if o := p.known[a.stable]; o != nil && o.account.Load() != a {
			p.join(now, a, o.account.Load())
		}
	}
}

// Hear takes over a quarantine that another instance has met: the longer one stands.
// It answers the token if that is news. Each is heard once, however often it is told,
// so that a token which has been accepted since stays in use.
func (p *Pool) Hear(now time.Time, m Memory) *Token {
	m, ok := m.credible(now)
	if !ok || !m.Quarantined.After(now) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.known[m.Token]
	if s == nil || !m.Quarantined.After(s.heard.Add(alike)) {
		return nil
	}
	s.heard = m.Quarantined
	if !m.Quarantined.After(s.rejection.until.Add(alike)) || !p.confine(now, s, m) {
		return nil
	}
	for _, t := range p.all {
		if t.state == s {
			return t
		}
	}
	return nil
}

// Stable names a budget as Token.Stable names a token: the same in every process where
// the same tokens are known to be of one account. It is "" for one that nobody has.
func (p *Pool) Stable(budget string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budgets == nil {
		p.budgets = make(map[string]string, len(p.states))
		for _, s := range p.states {
			p.budgets[s.key] = s.account.Load().stable
		}
		for _, s := range p.states {
			a := s.account.Load()
			p.budgets[a.key] = a.stable
		}
	}
	return p.budgets[budget]
}
