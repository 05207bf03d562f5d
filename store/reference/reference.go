// Package reference is a store in plain Go, for tests and simulations. The other stores
// are compared with it.
package reference

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Store is a store that lives as long as its process. Its clock is that of its test, and
// it can lose what it knows. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu         sync.Mutex
	generation string
	born       time.Time // when this generation began
	kept       kept
	lost       time.Time // when it began with a loss; zero: it did not
	listeners  map[chan store.News]bool
	closed     bool
}

// kept is the data of a Store.
type kept struct {
	sites     map[string]*place
	members   map[string]store.Member
	documents map[string]map[string]document // :: kind → key
	ended     map[string]bool                // :: instance, of those whose process has ended
	version   uint64                         // of the documents
	swept     time.Time                      // when what is over was dropped last
}

// place is the record of one site.
type place struct {
	budgets map[string]*record   // by the name under which they are written down
	until   map[string]time.Time // when each of them may be dropped, and is not missed
	notes   map[string]store.Note
	rows    map[string]*store.JointRow // :: key of a Count
}

type document struct {
	value []byte
	until time.Time
}

func (d document) over(now time.Time) bool { return !d.until.IsZero() && !d.until.After(now) }

// Snapshot is a copy of a Store's data at some time.
type Snapshot struct{ kept kept }

// New makes an empty store. The clock may be nil: it is that of the machine then.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	m := &Store{now: now, listeners: map[chan store.News]bool{}}
	m.begin(kept{})
	return m
}

// begin begins a new life of the store.
func (m *Store) begin(k kept) {
	m.generation, m.born, m.kept = rand.Text(), m.now(), k.clone()
}

// Lose forgets everything, as a server does that was started again.
func (m *Store) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(kept{})
	m.lost = m.born
}

// Evict forgets the budgets of a site and nothing else, as a server does that is full.
func (m *Store) Evict(site string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.kept.sites[site]; p != nil {
		p.budgets = map[string]*record{}
	}
}

// End records that the process of an instance has ended, whatever it may have taken.
func (m *Store) End(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.ended[instance] = true
}

// Snapshot returns a copy of the data, as a lagging replica has it.
func (m *Store) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{m.kept.clone()}
}

// Revert fails over to the replica that has only that snapshot.
func (m *Store) Revert(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(s.kept)
	m.lost = m.born
}

// Exchange answers each Batch.
func (m *Store) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	m.sweep(m.now())
	replies := make([]store.Reply, len(batches))
	for i := range batches {
		replies[i] = m.exchange(&batches[i])
	}
	return replies, nil
}

func (m *Store) exchange(b *store.Batch) store.Reply {
	now := time.UnixMicro(m.now().UnixMicro())
	p := m.kept.sites[b.Site]
	if p == nil {
		p = &place{budgets: map[string]*record{}, until: map[string]time.Time{}, notes: map[string]store.Note{}, rows: map[string]*store.JointRow{}}
		m.kept.sites[b.Site] = p
	}
	reply := store.Reply{Generation: m.generation, Now: now, Answers: make([]store.Answer, 0, len(b.Asks))}
	t := turn{Instance: b.Instance, Now: now.UnixMicro(), Foreign: foreign(b, m.generation), Life: m.generation}
	if !m.lost.IsZero() {
		t.Since = m.lost.UnixMicro()
	}
	lost := false
	for i := range b.Asks {
		exact := b.Asks[i].Exact()
		a := &exact
		if a.Kind == store.Count {
			r, said := store.AnswerJoint(p.rows, a, b.Instance, now, func(who string) bool { return !m.kept.ended[who] })
			if said.Status == store.Done {
				p.rows[a.Key] = r
			}
			reply.Answers = append(reply.Answers, said)
			continue
		}
		name := a.Name()
		r := p.budgets[name]
		if r == nil {
			r = &record{}
		}
		t.Birth, t.Known = rand.Text(), !p.until[name].Before(now)
		said, gone := decide(r, a, t)
		if lost = lost || gone; said.Status == store.Done || said.Status == store.Foreign {
			p.budgets[name], p.until[name] = r, time.UnixMicro(r.Until)
		}
		reply.Answers = append(reply.Answers, said)
	}
	if lost {
		m.tell(store.News{Site: b.Site, Lost: true})
	}
	if notes := store.MergeNotes(p.notes, b.Notes, now); len(notes) > 0 {
		m.tell(store.News{Site: b.Site, Notes: notes})
	}
	reply.Notes = store.SortNotes(slices.Collect(maps.Values(p.notes)))
	return reply
}

// sweep drops expired data, once a minute.
func (m *Store) sweep(now time.Time) {
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
		store.MergeNotes(p.notes, nil, now)
		if len(p.until) == 0 && len(p.notes) == 0 && len(p.rows) == 0 {
			delete(m.kept.sites, site)
		}
	}
	for _, list := range m.kept.documents {
		maps.DeleteFunc(list, func(_ string, d document) bool { return d.over(now) })
	}
}

// Pulse records that an instance is alive.
func (m *Store) Pulse(ctx context.Context, who store.Member) (store.Pulse, error) {
	if err := ctx.Err(); err != nil {
		return store.Pulse{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.Pulse{}, store.ErrClosed
	}
	now := time.UnixMicro(m.now().UnixMicro())
	who.Seen = now
	if who.Gone {
		delete(m.kept.members, who.ID)
	} else if who.ID != "" {
		m.kept.members[who.ID] = who
	}
	maps.DeleteFunc(m.kept.members, func(_ string, member store.Member) bool {
		return now.Sub(member.Seen) > cmp.Or(member.Lifetime, store.Lifetime(0))
	})
	return store.Pulse{
		Generation: m.generation, Since: max(now.Sub(m.born), 0), Members: len(m.kept.members),
		Documents: m.kept.version, Now: now,
	}, nil
}

// Members lists the live instances.
func (m *Store) Members(ctx context.Context) ([]store.Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.kept.members), func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// Put stores a document, or removes it.
func (m *Store) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
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
	m.tell(store.News{})
	return nil
}

// All returns the documents of a kind.
func (m *Store) All(ctx context.Context, kind string) (map[string][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	now, all := m.now(), map[string][]byte{}
	for key, d := range m.kept.documents[kind] {
		if !d.over(now) {
			all[key] = slices.Clone(d.value)
		}
	}
	return all, nil
}

// Listen calls heard with news until ctx is done.
func (m *Store) Listen(ctx context.Context, heard func(store.News)) error {
	news := make(chan store.News, 64)
	news <- store.News{Began: true}
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
		case item := <-news:
			heard(item)
		}
	}
}

// tell never waits: a slow listener finds the news with its next Exchange.
func (m *Store) tell(what store.News) {
	for news := range m.listeners {
		select {
		case news <- what:
		default:
		}
	}
}

// Close forgets everything.
func (m *Store) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.kept = true, kept{}
	return nil
}

func (k kept) clone() kept {
	c := kept{
		sites: map[string]*place{}, members: map[string]store.Member{}, documents: map[string]map[string]document{},
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
