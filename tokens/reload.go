package tokens

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// remembered is how long what is known of a secret outlives it: a file that was
// read while an editor wrote it has lost some for a moment.
const remembered = 25 * time.Hour

// Change is what a reload has done, by label.
type Change struct {
	Added, Kept, Removed []string
}

// Reload gives the pool other tokens, and another place for them. Those that stay,
// by their secret, keep their state, whatever they are called now.
func (p *Pool) Reload(now time.Time, config policy.Pool, l *Loaded) (Change, error) {
	put, err := NewPut(config.Put)
	if err != nil {
		return Change{}, fmt.Errorf("the pool %s: %w", p.name, err)
	}
	if l == nil || len(l.Entries) == 0 {
		return Change{}, errors.New("the pool " + p.name + " has no tokens")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var c Change
	old := map[id]*Token{}
	for _, t := range p.all {
		old[t.id] = t
	}
	names := p.names(l, old)
	p.all = make([]*Token, 0, len(l.Entries))
	for _, e := range l.Entries {
		t := &Token{id: identify(e.Secret), secret: e.Secret, numbered: e.Label == ""}
		before := old[t.id]
		if names.label(t, e, before); before != nil {
			c.Kept = append(c.Kept, t.label)
		} else {
			c.Added = append(c.Added, t.label)
		}
		t.state = p.stateOf(now, t, names)
		t.key, t.stable = t.state.key, t.state.stable
		p.all = append(p.all, t)
		delete(old, t.id)
	}
	for _, t := range old {
		t.state.left = now
		c.Removed = append(c.Removed, t.label)
	}
	p.forget(now)
	p.gather(now)
	next := &Set{put: put}
	if config.OAuth2.TokenURL != "" {
		next.exchange = p.exchangeFor(config.OAuth2)
		next.exchange.keep(p.all)
	}
	p.publish(next)
	p.version.Add(1)
	return c, nil
}

// stateOf is what is known of a token, also if it was away.
func (p *Pool) stateOf(now time.Time, t *Token, n names) *state {
	if s := p.states[t.id]; s != nil {
		s.left = time.Time{}
		return s
	}
	s := &state{key: n.newKey(t.label), stable: stable(p.name, t.secret)}
	s.account.Store(&account{key: s.key, stable: s.stable})
	p.states[t.id], p.known[s.stable] = s, s
	if m, kept := p.kept[s.stable]; kept {
		delete(p.kept, s.stable)
		p.recall(now, s, m)
	}
	return s
}

// forget drops what is known of tokens that left long ago.
func (p *Pool) forget(now time.Time) {
	for who, s := range p.states {
		if !s.left.IsZero() && (now.Sub(s.left) > remembered || len(p.states) > 2*mostTokens) {
			delete(p.states, who)
			delete(p.known, s.stable)
		}
	}
	for who, m := range p.kept {
		if now.Sub(m.Left) > remembered {
			delete(p.kept, who)
		}
	}
}

// exchangeFor is the set's exchange, if it does the same.
func (p *Pool) exchangeFor(o policy.OAuth2) *exchange {
	if old := p.set.Load(); old != nil && old.exchange != nil && old.exchange.same(o) {
		return old.exchange
	}
	return newExchange(o, p.errands)
}

// names gives out labels and keys that nobody else has.
type names struct {
	labels map[string]bool
	keys   map[string]bool
	stay   map[id]bool // whose numbers stay
}

// names knows the labels and keys that are taken already: labels that the operator
// has written, the numbers of tokens that stay, and the keys of all that are known, as
// meters of those that have left may be there still.
func (p *Pool) names(l *Loaded, old map[id]*Token) names {
	n := names{map[string]bool{}, map[string]bool{}, map[id]bool{}}
	for _, e := range l.Entries {
		if e.Label != "" {
			n.labels[e.Label] = true
		}
	}
	for _, e := range l.Entries {
		t := old[identify(e.Secret)]
		if t != nil && e.Label == "" && t.numbered && !n.labels[t.label] {
			n.labels[t.label], n.stay[t.id] = true, true
		}
	}
	for _, s := range p.states {
		n.keys[s.key], n.keys[s.account.Load().key] = true, true
	}
	return n
}

// label names a token. One without a label has its number, and keeps that when rows
// come or go before it.
func (n names) label(t *Token, e Entry, before *Token) {
	switch {
	case e.Label != "":
		t.label = e.Label
	case n.stay[t.id]:
		t.label = before.label
	default:
		for i := e.Number; ; i++ {
			if t.label = strconv.Itoa(i); !n.labels[t.label] {
				break
			}
		}
	}
	n.labels[t.label] = true
}

// newKey is a key for a token that is new.
func (n names) newKey(label string) string {
	if n.keys[label] {
		label = another(label, n.keys)
	}
	n.keys[label] = true
	return label
}
