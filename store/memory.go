package store

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// ErrClosed is what a closed store answers.
var ErrClosed = errors.New("the store is closed")

// Memory is a store that lives as long as its process. It is the reference that the
// others are compared with, and what simulations and tests use: its clock is theirs,
// and it can lose what it knows. It is safe for concurrent use.
type Memory struct {
	now func() time.Time

	mu         sync.Mutex
	generation string
	born       time.Time // when this generation began
	kept       kept
	lost       time.Time // when it began with a loss; zero: it did not
	listeners  map[chan News]bool
	closed     bool
}

// kept is all that is written down.
type kept struct {
	sites     map[string]*place
	members   map[string]Member
	documents map[string]map[string]document // :: kind → key
	ended     map[string]bool                // :: instance, of those whose process has ended
	version   uint64                         // of the documents
	swept     time.Time                      // when what is over was dropped last
}

// place is what is written down of one site.
type place struct {
	budgets map[string]*record   // by the name under which they are written down
	until   map[string]time.Time // when each of them may be dropped, and is not missed
	notes   map[string]Note
	rows    map[string]*row // :: key of a Count with Joint
}

func (p *place) joint(a *Ask, t turn, lives func(string) bool) (said Answer) {
	r := p.rows[a.Key]
	if r.owns(a, t.Instance) {
		r, said = own(a, t)
	} else {
		r, said = r.share(a, t, lives)
	}
	if said.Status == Done {
		p.rows[a.Key] = r
	}
	return said
}

type document struct {
	value []byte
	until time.Time
}

func (d document) over(now time.Time) bool { return !d.until.IsZero() && !d.until.After(now) }

// Snapshot is what a Memory knew at some time.
type Snapshot struct{ kept kept }

// NewMemory makes an empty store. The clock may be nil: it is that of the machine then.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	m := &Memory{now: now, listeners: map[chan News]bool{}}
	m.begin(kept{})
	return m
}

// begin is a new life of the store.
func (m *Memory) begin(k kept) {
	m.generation, m.born, m.kept = rand.Text(), m.now(), k.clone()
}

// Lose forgets everything, as a server does that was started again.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(kept{})
	m.lost = m.born
}

// Evict forgets the budgets of a site and nothing else, as a server does that is full.
func (m *Memory) Evict(site string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.kept.sites[site]; p != nil {
		p.budgets = map[string]*record{}
	}
}

// End says that the process of an instance has ended, whatever it may have taken.
func (m *Memory) End(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.ended[instance] = true
}

// Snapshot is what a replica knows that lags from now on.
func (m *Memory) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{m.kept.clone()}
}

// Revert is a failover to the replica that has only that snapshot.
func (m *Memory) Revert(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(s.kept)
	m.lost = m.born
}

// Exchange answers each Batch.
func (m *Memory) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.sweep(m.now())
	replies := make([]Reply, len(batches))
	for i := range batches {
		replies[i] = m.exchange(&batches[i])
	}
	return replies, nil
}

func (m *Memory) exchange(b *Batch) Reply {
	now := time.UnixMicro(m.now().UnixMicro())
	p := m.kept.sites[b.Site]
	if p == nil {
		p = &place{budgets: map[string]*record{}, until: map[string]time.Time{}, notes: map[string]Note{}, rows: map[string]*row{}}
		m.kept.sites[b.Site] = p
	}
	reply := Reply{Generation: m.generation, Now: now, Answers: make([]Answer, 0, len(b.Asks))}
	t := turn{Instance: b.Instance, Now: now.UnixMicro(), Foreign: foreign(b, m.generation), Life: m.generation}
	if !m.lost.IsZero() {
		t.Since = m.lost.UnixMicro()
	}
	lost := false
	for i := range b.Asks {
		a := &b.Asks[i]
		if a.Kind == Count && a.Joint != nil {
			reply.Answers = append(reply.Answers, p.joint(a, t, func(who string) bool { return !m.kept.ended[who] }))
			continue
		}
		name := budget(a)
		r := p.budgets[name]
		if r == nil {
			r = &record{}
		}
		t.Birth, t.Known = rand.Text(), !p.until[name].Before(now)
		said, gone := decide(r, a, t)
		if lost = lost || gone; said.Status == Done || said.Status == Foreign {
			p.budgets[name], p.until[name] = r, time.UnixMicro(r.Until)
		}
		reply.Answers = append(reply.Answers, said)
	}
	if lost {
		m.tell(News{Site: b.Site, Lost: true})
	}
	if notes := mergeNotes(p.notes, b.Notes, now); len(notes) > 0 {
		m.tell(News{Site: b.Site, Notes: notes})
	}
	reply.Notes = sortNotes(slices.Collect(maps.Values(p.notes)))
	return reply
}

// sweep drops what is over, once in a while.
func (m *Memory) sweep(now time.Time) {
	if since := now.Sub(m.kept.swept); since >= 0 && since < time.Minute {
		return
	}
	m.kept.swept = now
	for site, p := range m.kept.sites {
		for name, until := range p.until {
			if until.Before(now.Add(-time.Hour)) { // so far its clock may go back
				delete(p.until, name)
				delete(p.budgets, name)
			}
		}
		mergeNotes(p.notes, nil, now)
		if len(p.until) == 0 && len(p.notes) == 0 && len(p.rows) == 0 {
			delete(m.kept.sites, site)
		}
	}
	for _, list := range m.kept.documents {
		maps.DeleteFunc(list, func(_ string, d document) bool { return d.over(now) })
	}
}

// Pulse says that an instance is there.
func (m *Memory) Pulse(ctx context.Context, who Member) (Pulse, error) {
	if err := ctx.Err(); err != nil {
		return Pulse{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Pulse{}, ErrClosed
	}
	now := time.UnixMicro(m.now().UnixMicro())
	who.Seen = now
	if who.Gone {
		delete(m.kept.members, who.ID)
	} else if who.ID != "" {
		m.kept.members[who.ID] = who
	}
	maps.DeleteFunc(m.kept.members, func(_ string, one Member) bool { return now.Sub(one.Seen) > one.lifetime() })
	return Pulse{
		Generation: m.generation, Since: max(now.Sub(m.born), 0), Members: len(m.kept.members),
		Documents: m.kept.version, Now: now,
	}, nil
}

// Members are the instances that are there.
func (m *Memory) Members(ctx context.Context) ([]Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return listed(maps.Values(m.kept.members)), nil
}

// Put keeps a document, or removes it.
func (m *Memory) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	list := m.kept.documents[kind]
	if list == nil {
		list = map[string]document{}
		m.kept.documents[kind] = list
	}
	if value == nil {
		delete(list, key)
	} else {
		list[key] = document{slices.Clone(value), until}
	}
	m.kept.version++
	m.tell(News{})
	return nil
}

// All are the documents of a kind.
func (m *Memory) All(ctx context.Context, kind string) (map[string][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	now, all := m.now(), map[string][]byte{}
	for key, d := range m.kept.documents[kind] {
		if !d.over(now) {
			all[key] = slices.Clone(d.value)
		}
	}
	return all, nil
}

// Listen calls heard with what is news until ctx is done.
func (m *Memory) Listen(ctx context.Context, heard func(News)) error {
	news := make(chan News, 64)
	news <- News{Began: true}
	m.mu.Lock()
	m.listeners[news] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listeners, news)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case one := <-news:
			heard(one)
		}
	}
}

// tell never waits: who does not listen fast enough finds it with his next Exchange.
func (m *Memory) tell(what News) {
	for news := range m.listeners {
		select {
		case news <- what:
		default:
		}
	}
}

// Close is the end: everything is forgotten.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.kept = true, kept{}
	return nil
}

func (k kept) clone() kept {
	c := kept{
		sites: map[string]*place{}, members: map[string]Member{}, documents: map[string]map[string]document{},
		ended: map[string]bool{}, version: k.version, swept: k.swept,
	}
	for site, p := range k.sites {
		q := &place{budgets: map[string]*record{}, until: maps.Clone(p.until), notes: maps.Clone(p.notes), rows: maps.Clone(p.rows)}
		for name, r := range p.budgets {
			q.budgets[name] = r.clone()
		}
		c.sites[site] = q
	}
	maps.Copy(c.members, k.members)
	maps.Copy(c.ended, k.ended)
	for kind, list := range k.documents {
		c.documents[kind] = maps.Clone(list)
	}
	return c
}
