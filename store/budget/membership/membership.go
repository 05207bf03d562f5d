// Package membership registers an instance with the store, and counts the instances that use
// it.
package membership

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/storehealth"
)

const (
	// patience bounds one question about the members.
	patience = 3 * time.Second
	// listedFor is the time for which a list of the members is used again.
	listedFor = 5 * time.Second
)

// Membership registers one instance with its store. It is safe for concurrent use.
type Membership struct {
	store  store.Store
	self   store.Member
	shared bool // by instances on several machines
	health *storehealth.Health
	log    *logrus.Logger

	pulse  atomic.Pointer[store.Pulse] // the last answer; nil: there was none
	listed atomic.Pointer[list]        // nil: nobody has asked for it
}

// Events are called after a pulse.
type Events struct {
	Documents  func()                                                 // some document may have changed
	Generation func(began time.Time, old *store.Pulse, p store.Pulse) // the store has lost what it had, or answers for the first time: old is nil
}

// New makes the membership of an instance that is not registered yet. A store that is not
// shared is a file of this machine, which several processes may use.
func New(s store.Store, self store.Member, shared bool, h *storehealth.Health, log *logrus.Logger) *Membership {
	return &Membership{store: s, self: self, shared: shared, health: h, log: log}
}

// Known tells whether the store has answered a pulse.
func (m *Membership) Known() bool { return m.pulse.Load() != nil }

// Size returns the number of instances.
func (m *Membership) Size() int {
	if p := m.pulse.Load(); p != nil {
		return max(p.Members, 1)
	}
	return 1
}

// Several tells whether other processes use the file of this machine.
func (m *Membership) Several() bool { return !m.shared && m.Size() > 1 }

// Together tells whether other instances use the store.
func (m *Membership) Together() bool { return m.shared || m.Several() }

// Fill sets the fields of a status that follow from the members.
func (m *Membership) Fill(s *status.Store) {
	if p := m.pulse.Load(); p != nil {
		s.Count = p.Members
	}
}

// Run repeats the pulse of a shared store until ctx is done.
func (m *Membership) Run(ctx context.Context, e Events) {
	for ctx.Err() == nil {
		m.Beat(ctx, e)
		if m.Known() {
			m.health.Inspect(ctx, m.store, patience)
		}
		// Instances that were started together do not stay together.
		_ = clock.Sleep(ctx, time.Duration((0.9+0.2*rand.Float64())*float64(store.Beat(m.Size()))))
	}
}

// Local tells whether the store is one of this machine that several processes may use.
func (m *Membership) Local() bool {
	_, ok := m.store.(interface{ Several() bool })
	return ok && !m.shared
}

// Beat registers this instance with a store, and finds out how many use it. In a Local one it lasts as long as its
// process.
func (m *Membership) Beat(ctx context.Context, e Events) {
	began, before := time.Now(), m.Several()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	self := m.self
	self.Lifetime = store.Lifetime(m.Size())
	p, err := m.store.Pulse(within, self)
	if ctx.Err() != nil {
		return
	}
	if m.shared { // of a file the next exchange records the error
		m.health.Operation("pulse", err, time.Since(began))
	}
	if err != nil {
		return
	}
	old := m.pulse.Swap(&p)
	if m.Several() && !before {
		m.log.Infof("%d processes use the state file, and keep one budget together", p.Members)
	}
	if m.shared && (old == nil || old.Documents != p.Documents) {
		e.Documents()
	}
	if m.shared && (old == nil || old.Generation != p.Generation) {
		e.Generation(began, old, p)
	}
}

// Leave removes this instance from a shared store.
func (m *Membership) Leave(ctx context.Context) {
	self := m.self
	self.Gone = true
	_, _ = m.store.Pulse(ctx, self) // without it the instance is forgotten a while later
}

// list has the members as they were listed at a time.
type list struct {
	all []status.Member
	at  time.Time
}

// List returns the members, as many as the store lists. While the store does not answer,
// they are those that it listed last.
func (m *Membership) List(ctx context.Context) []status.Member {
	old := m.listed.Load()
	if old != nil && time.Since(old.at) < listedFor {
		return old.all
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got := &list{at: time.Now()}
	all, err := m.store.Members(within)
	got.all = lists.Map(all, func(member store.Member) status.Member {
		return status.Member{ID: member.ID, Name: cmp.Or(member.Name, member.ID), Seen: member.Seen}
	})
	if err != nil && old != nil {
		got.all = old.all
	}
	m.listed.Store(got)
	return got.all
}
