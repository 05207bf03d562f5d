package tokens

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// SavedState is the state of one token that outlives a process. It names the token by
// its stable name, a one-way hash, and contains nothing else of the secret. Its JSON form is
// persisted: if you add a field, keep old documents readable.
type SavedState struct {
	Token       string    `json:"token"`                      // its stable name
	Disabled    string    `json:"disabled,omitempty"`         // reason; "": enabled
	Quarantined time.Time `json:"quarantined_until,omitzero"` // end of the quarantine; kept after that end until a success is seen
	Times       int       `json:"times,omitempty"`            // quarantines in a row; each is longer than the one before
	Why         string    `json:"why,omitempty"`              // reason of the quarantine
	Site        string    `json:"site,omitempty"`             // of the quarantine; "": all
	Left        time.Time `json:"left,omitzero"`              // when the token left the pool; zero: it is in the pool
}

const (
	maxReasonBytes = 200
	maxQuarantines = 32
	// quarantineTolerance bounds the difference between two reports of one quarantine.
	quarantineTolerance = 2 * time.Second
)

// Version grows with every change of SavedStates.
func (p *Pool) Version() uint64 { return p.version.Load() }

// bumpVersionIf increments the version if changed is true.
func (p *Pool) bumpVersionIf(changed bool) {
	if changed {
		p.version.Add(1)
	}
}

// SavedStates returns the states to persist for Restore, sorted by stable name.
func (p *Pool) SavedStates(now time.Time) []SavedState {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []SavedState
	for _, s := range p.byStable {
		if !s.leftAt.IsZero() && now.Sub(s.leftAt) > retention {
			continue
		}
		m := SavedState{
			Token: s.stable, Disabled: s.disabled, Quarantined: s.rejection.until, Times: s.rejection.quarantinesInRow, Left: s.leftAt,
		}
		if m.Times > 0 {
			m.Why, m.Site = s.rejection.reason, s.rejection.site
		}
		if m.Disabled != "" || m.Times > 0 {
			list = append(list, m)
		}
	}
	list = slices.AppendSeq(list, maps.Values(p.restored))
	slices.SortFunc(list, func(a, b SavedState) int { return strings.Compare(a.Token, b.Token) })
	return list
}

// Restore applies states that SavedStates has returned, in this process or another. It
// never shortens or ends a quarantine. States of tokens that are not in the pool are kept
// for a day, in case a reload adds the tokens.
func (p *Pool) Restore(now time.Time, list []SavedState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range list {
		m, ok := m.sanitized(now)
		if !ok {
			continue
		}
		if s := p.byStable[m.Token]; s != nil {
			p.apply(now, s, m)
			continue
		}
		if m.Left.IsZero() {
			m.Left = now
		}
		old, there := p.restored[m.Token]
		if there {
			m = old.stricter(m)
		}
		if m != old && (there || len(p.restored) < maxTokens) && now.Sub(m.Left) <= retention {
			p.restored[m.Token] = m
			p.version.Add(1)
		}
	}
	p.publish(nil)
}

// TryAgain ends the quarantines of a pool of which no token can be used, so that one request tries each.
// A token may have been paid for since the process before this one.
func (p *Pool) TryAgain(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.all, func(t *Token) bool { return t.state.disabled == "" && !t.state.rejection.until.After(now) }) {
		return
	}
	for _, t := range p.all {
		if r := t.state.rejection; r.until.After(now) {
			r.until = now
			t.state.reject(r)
		}
	}
}

// stricter merges two states of one token: each field has the stricter of both values.
func (m SavedState) stricter(o SavedState) SavedState {
	m.Disabled = cmp.Or(m.Disabled, o.Disabled)
	m.Times = max(m.Times, o.Times)
	if m.Site != o.Site && !m.Quarantined.IsZero() && !o.Quarantined.IsZero() {
		m.Site, o.Site = "", ""
	}
	if o.Quarantined.After(m.Quarantined) {
		m.Quarantined, m.Why, m.Site = o.Quarantined, o.Why, o.Site
	}
	m.Left = status.Later(m.Left, o.Left)
	return m
}

// sanitized bounds impossible values, which come from a clock that was ahead or from a
// damaged file. ok is false if the state names no token.
func (m SavedState) sanitized(now time.Time) (SavedState, bool) {
	if b, err := hex.DecodeString(m.Token); err != nil || len(b) != stableBytes {
		return m, false
	}
	m.Disabled, m.Why, m.Site = printable(m.Disabled), printable(m.Why), printable(m.Site)
	if m.Times = min(max(m.Times, 0), maxQuarantines); !m.Quarantined.IsZero() {
		m.Times = max(m.Times, 1)
	}
	if m.Times > 0 {
		if latest := now.Add(quarantineLength(m.Times)); m.Quarantined.After(latest) {
			m.Quarantined = latest
		}
	}
	if m.Left.After(now) {
		m.Left = now
	}
	return m, true
}

// printable returns a reason without control characters, cut to maxReasonBytes.
func printable(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), maxReasonBytes)], "")
}

// apply sets a token's state to a restored one.
func (p *Pool) apply(now time.Time, s *state, m SavedState) {
	if s.disabled == "" && m.Disabled != "" {
		s.disabled = m.Disabled
		p.version.Add(1)
	}
	p.extendQuarantine(now, s, m)
}

// extendQuarantine sets the restored quarantine if it ends later than the current one.
func (p *Pool) extendQuarantine(now time.Time, s *state, m SavedState) (news bool) {
	r := s.rejection
	if m.Times > 0 {
		r = r.by(m.Site)
	}
	r.quarantinesInRow = max(r.quarantinesInRow, m.Times)
	if m.Quarantined.After(r.until) {
		r.until, r.reason = m.Quarantined, m.Why
		if r.until.After(now) {
			r.since, r.sent = now, now // answers to requests sent before now are outdated
		}
	}
	news = s.reject(r)
	p.bumpVersionIf(news)
	return news
}

// ApplyQuarantine applies a quarantine that another instance has reported; the longer one
// stands. It returns the token if that changes anything. A quarantine is applied once,
// however often it is reported, so a token that has been accepted since stays in use.
func (p *Pool) ApplyQuarantine(now time.Time, m SavedState) *Token {
	m, ok := m.sanitized(now)
	if !ok || !m.Quarantined.After(now) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.byStable[m.Token]
	if s == nil || !m.Quarantined.After(s.heardUntil.Add(quarantineTolerance)) {
		return nil
	}
	s.heardUntil = m.Quarantined
	if !m.Quarantined.After(s.rejection.until.Add(quarantineTolerance)) && s.rejection.covers(m.Site) || !p.extendQuarantine(now, s, m) {
		return nil
	}
	return p.tokenOf(s)
}

// Stable returns the stable name of a budget, as stable does for a token: the same in
// every process that groups the same tokens into one account. It is "" for an unknown
// budget.
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
