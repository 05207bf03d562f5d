package tokens

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// retention is the time for which the state of a secret is kept after the secret left the
// pool. A file that was read while an editor wrote it may lack some secrets for a moment.
const retention = 25 * time.Hour

// Reload replaces the pool's tokens and their placement. A token whose secret stays keeps
// its state, even under another label.
func (p *Pool) Reload(now time.Time, config policy.Pool, l *Loaded) (policy.TokenChange, error) {
	put, err := newPlacement(config.Put)
	if err != nil {
		return policy.TokenChange{}, fmt.Errorf("the pool %s: %w", p.shown, err)
	}
	if l == nil || len(l.Entries) == 0 {
		return policy.TokenChange{}, errors.New("the pool " + p.shown + " has no tokens")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := policy.TokenChange{Now: len(l.Entries)}
	old := map[id]*Token{}
	for _, t := range p.all {
		old[t.id] = t
	}
	names := p.names(l, old)
	p.all = make([]*Token, 0, len(l.Entries))
	for _, e := range l.Entries {
		t := &Token{id: hashOf(e.Secret), secret: e.Secret, labelIsNumber: e.Label == ""}
		before := old[t.id]
		if names.label(t, e, before); before == nil {
			c.Added = append(c.Added, t.shown)
		}
		t.state = p.stateOf(now, t, names)
		p.all = append(p.all, t)
		delete(old, t.id)
	}
	for _, t := range old {
		t.state.leftAt = now
		c.Removed = append(c.Removed, t.shown)
	}
	p.forget(now)
	p.assignAccounts(now, l.Entries)
	next := &Set{placement: put}
	if config.OAuth2.TokenURL != "" {
		next.exchange = p.reuseExchange(config.OAuth2)
		next.exchange.retain(p.all)
	}
	p.publish(next)
	p.version.Add(1)
	return c, nil
}

// stateOf returns the state of a token. A token that left less than retention ago gets its
// old state.
func (p *Pool) stateOf(now time.Time, t *Token, n names) *state {
	if s := p.states[t.id]; s != nil {
		s.leftAt = time.Time{}
		return s
	}
	s := &state{key: n.newKey(t.shown), stable: stable(p.shown, t.secret)}
	s.account.Store(&account{key: s.key, stable: s.stable})
	p.states[t.id], p.byStable[s.stable] = s, s
	if m, kept := p.restored[s.stable]; kept {
		delete(p.restored, s.stable)
		p.apply(now, s, m)
	}
	return s
}

// forget drops the states of tokens that left longer than retention ago.
func (p *Pool) forget(now time.Time) {
	for who, s := range p.states {
		if !s.leftAt.IsZero() && (now.Sub(s.leftAt) > retention || len(p.states) > 2*maxTokens) {
			delete(p.states, who)
			delete(p.byStable, s.stable)
		}
	}
	maps.DeleteFunc(p.restored, func(_ string, m SavedState) bool { return now.Sub(m.Left) > retention })
}

// assignAccounts gives the tokens of each account one shared account state, and a token
// without an account a state of its own. The entries are in the order of p.all.
func (p *Pool) assignAccounts(now time.Time, entries []entry) {
	before := map[*account]int{}
	shared := map[[2]string][]*state{} // :: account, or stable name of a token without one → the states of its tokens
	for i, e := range entries {
		s, of := p.all[i].state, [2]string{e.Account}
		if before[s.account.Load()]++; e.Account == "" {
			of[1] = s.stable
		}
		shared[of] = append(shared[of], s)
	}
	for _, members := range shared {
		assignAccount(now, members, before)
	}
}

// assignAccount gives the members an account state that no other token of the pool has. The
// account's name is the smallest of their stable names, so every process with the same
// tokens uses the same name. A new account state takes over the pauses of the old ones.
// before counts the tokens that each account had.
func assignAccount(now time.Time, members []*state, before map[*account]int) {
	smallest := slices.MinFunc(members, func(a, b *state) int { return strings.Compare(a.stable, b.stable) })
	old := smallest.account.Load()
	mixed := slices.ContainsFunc(members, func(s *state) bool { return s.account.Load() != old })
	if !mixed && before[old] == len(members) && old.stable == smallest.stable {
		return
	}
	next := &account{key: smallest.key, stable: smallest.stable}
	for _, s := range members {
		next.mergeFrom(now, s.account.Load())
		s.account.Store(next)
	}
}

// reuseExchange returns the current set's exchange if it has this configuration, otherwise
// a new one.
func (p *Pool) reuseExchange(o policy.OAuth2) *exchange {
	if old := p.set.Load(); old != nil && old.exchange != nil && old.exchange.config.TokenURL == o.TokenURL && slices.Equal(old.exchange.config.Scopes, o.Scopes) {
		return old.exchange
	}
	x := &exchange{config: o, running: p.exchanges, grants: map[id]*grant{}}
	if u, err := url.Parse(o.TokenURL); err == nil {
		x.host = u.Host
	}
	return x
}

// names hands out labels and keys that are unique in the pool.
type names struct {
	labels     map[string]bool
	keys       map[string]bool
	keepNumber map[id]bool // tokens whose number labels stay
}

// names collects the labels and keys that are taken: labels written by the operator,
// numbers of tokens that stay, and the keys of all states, since meters of tokens that left
// may still exist.
func (p *Pool) names(l *Loaded, old map[id]*Token) names {
	n := names{map[string]bool{}, map[string]bool{}, map[id]bool{}}
	for _, e := range l.Entries {
		if e.Label != "" {
			n.labels[e.Label] = true
		}
	}
	for _, e := range l.Entries {
		t := old[hashOf(e.Secret)]
		if t != nil && e.Label == "" && t.labelIsNumber && !n.labels[t.shown] {
			n.labels[t.shown], n.keepNumber[t.id] = true, true
		}
	}
	for _, s := range p.states {
		n.keys[s.key], n.keys[s.account.Load().key] = true, true
	}
	return n
}

// label sets a token's label. A token without a configured label has its number, and keeps
// the number when rows before it come or go.
func (n names) label(t *Token, e entry, before *Token) {
	switch {
	case e.Label != "":
		t.shown = e.Label
	case n.keepNumber[t.id]:
		t.shown = before.shown
	default:
		for i := e.Number; ; i++ {
			if t.shown = strconv.Itoa(i); !n.labels[t.shown] {
				break
			}
		}
	}
	n.labels[t.shown] = true
}

// newKey returns an unused key for a new token.
func (n names) newKey(label string) string {
	if n.keys[label] {
		label = freeLabel(label, n.keys)
	}
	n.keys[label] = true
	return label
}
