package sites

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
)

// Documents is the store of what was learned.
type Documents interface {
	store.Documents
	// PutAll saves many documents of a kind at once.
	PutAll(ctx context.Context, kind string, all map[string]store.Document) error
}

// The kinds of documents about sites.
const (
	kindOfLedger   = "ledger"
	kindOfRoutes   = "routes"
	kindOfCooldown = "cooldown"
)

const (
	// writeEvery is the least time between two times that everything is written, and
	// restPart the least rest after writing as a multiple of how long that took. What is
	// urgent is written after a rest of that multiple, of at least urgentRest.
	writeEvery = 2 * time.Second
	restPart   = 200
	urgentRest = 10 * time.Millisecond
	// patience is the longest time of reading or writing all documents. A slow disk takes long.
	patience = time.Minute
	// lasting is the time for which a document stays stored that does not say itself for how
	// long it counts. It is written again when half of that time is over.
	lasting = 30 * 24 * time.Hour
	// mostStored bounds the limits, the sites' routes and the cooldowns that are stored. Others
	// are learned again after a restart.
	mostStored = 50_000
)

// MostKept returns the maximum number of documents per kind. Those that expire last stay.
func MostKept() map[string]int {
	return map[string]int{kindOfLedger: mostStored, kindOfRoutes: mostStored, kindOfCooldown: mostStored}
}

// Found are the documents of a kind to save, by key.
type Found map[string]store.Document

// Add adds a document that is valid until a time. An empty one is ignored.
func (f Found) Add(key string, value []byte, until time.Time) {
	if len(value) > 0 {
		f[key] = store.Document{Value: value, Until: until}
	}
}

// Source is a kind of documents with the functions that provide them.
type Source struct {
	Kind string
	// Urgent kinds are written soon after Persistence.Urge.
	Urgent bool
	// Remove means that Find adds all documents, and others are removed. Otherwise
	// documents stay until they expire.
	Remove bool
	// Find adds the documents.
	Find func(now time.Time, to Found)
	// Unwritten is called with the key of each document that could not be written, so that
	// Find adds it again; nil: Find adds all each time.
	Unwritten func(key string)
}

// Persistence saves what was learned across restarts. nil saves nothing. Make it with
// NewPersistence; it is safe for concurrent use, except for Add.
type Persistence struct {
	to      Documents
	written func(err error)
	seed    maphash.Seed
	urgent  signal.Signal // buffered: an urgent kind has changed
	sources []Source

	mu   sync.Mutex
	read map[string]*unread // :: kind →

	writing chan struct{}                       // has room for the one that writes
	saved   map[string]map[string]savedDocument // :: kind → key →; of the one that writes
}

// unread are the documents of a kind that were read and not taken yet.
type unread struct {
	all  map[string]*document // :: key →
	keys []string             // in order; some may have been taken
}

// document is a document that was read. restored has what was made of it to show it, until it is taken.
type document struct {
	value    []byte
	restored any
}

// savedDocument is the last written state of a document.
type savedDocument struct {
	hash  uint64
	until time.Time
}

// NewPersistence saves in documents; nil returns no Persistence. written is called after
// each write.
func NewPersistence(to Documents, written func(err error)) *Persistence {
	if to == nil {
		return nil
	}
	return &Persistence{
		to: to, written: written, seed: maphash.MakeSeed(), urgent: signal.New(),
		read: map[string]*unread{}, writing: make(chan struct{}, 1), saved: map[string]map[string]savedDocument{},
	}
}

// Add registers a source. Call it before Run.
func (p *Persistence) Add(s Source) {
	if p != nil {
		p.sources = append(p.sources, s)
	}
}

// Read reads all documents about sites, and those of other kinds. Call it once, before
// Take.
func (p *Persistence) Read(ctx context.Context, others ...string) error {
	if p == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, kind := range append([]string{kindOfLedger, kindOfRoutes, kindOfCooldown}, others...) {
		all, err := p.to.All(within, kind)
		if err != nil {
			return err
		}
		if kind == kindOfLedger || kind == kindOfRoutes {
			for key := range all {
				if len(all) <= mostStored {
					break
				}
				delete(all, key)
			}
		}
		u := &unread{all: make(map[string]*document, len(all)), keys: slices.Sorted(maps.Keys(all))}
		for key, value := range all {
			u.all[key] = &document{value: value}
		}
		p.read[kind] = u
	}
	return nil
}

// Take returns the read document of a key, once; nil: none.
func (p *Persistence) Take(kind, key string) []byte {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.read[kind].of(key)
	if d == nil {
		return nil
	}
	delete(p.read[kind].all, key)
	return d.value
}

// TakeAll returns all read documents of a kind, once.
func (p *Persistence) TakeAll(kind string) map[string][]byte {
	all := map[string][]byte{}
	if p == nil {
		return all
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.read[kind]; u != nil {
		for key, d := range u.all {
			all[key] = d.value
		}
	}
	delete(p.read, kind)
	return all
}

// of returns the document of a key; nil: there is none.
func (u *unread) of(key string) *document {
	if u == nil {
		return nil
	}
	return u.all[key]
}

// look returns the read document of a key that was not taken yet; nil: there is none.
func (p *Persistence) look(kind, key string) *document {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read[kind].of(key)
}

// keys returns the keys of read documents that were not taken yet, the first so many.
func (p *Persistence) keys(kind string, most int) []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.read[kind]
	if u == nil {
		return nil
	}
	if len(u.keys) > len(u.all) {
		u.keys = slices.DeleteFunc(u.keys, func(key string) bool { return u.all[key] == nil })
	}
	return slices.Clone(u.keys[:min(len(u.keys), most)])
}

// Urge requests a write of the urgent kinds soon.
func (p *Persistence) Urge() {
	if p != nil {
		p.urgent.Send()
	}
}

// Run writes changes until ctx is done, and once more then.
func (p *Persistence) Run(ctx context.Context) {
	if p == nil {
		return
	}
	next := time.Now().Add(writeEvery)
	for {
		select {
		case <-ctx.Done():
			_ = p.Save(context.WithoutCancel(ctx), patience, true) // written tells of its error
			return
		case <-time.After(time.Until(next)):
		case <-p.urgent:
		}
		began := time.Now()
		all := !began.Before(next)
		_ = p.Save(context.WithoutCancel(ctx), patience, all)
		took := time.Since(began)
		if all {
			next = began.Add(max(writeEvery, restPart*took))
		}
		_ = clock.Sleep(ctx, min(max(urgentRest, restPart*took), writeEvery)) // what changes meanwhile is written together
	}
}

// Save writes the changes of urgent kinds, or of all, and returns when they are on the disk, or after a time.
func (p *Persistence) Save(ctx context.Context, patience time.Duration, all bool) error {
	if p == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
		return p.write(within, time.Now(), all)
	case <-within.Done():
		return within.Err()
	}
}

// write is Save for the one that writes, at a time.
func (p *Persistence) write(ctx context.Context, now time.Time, all bool) error {
	wrote, err := false, error(nil)
	for i := range p.sources {
		s := &p.sources[i]
		if err != nil || !all && !s.Urgent {
			continue
		}
		found := Found{}
		s.Find(now, found)
		fresh := p.changed(now, s, found)
		if len(found) > 0 {
			wrote = true
			err = p.to.PutAll(ctx, s.Kind, found)
		}
		if err == nil {
			p.saved[s.Kind] = fresh
			continue
		}
		for key := range found {
			if s.Unwritten != nil {
				s.Unwritten(key)
			}
		}
	}
	if wrote {
		p.written(err)
	}
	return err
}

// changed reduces found to the changed documents, and adds those to remove. It returns what
// is saved after the write.
func (p *Persistence) changed(now time.Time, s *Source, found Found) map[string]savedDocument {
	fresh := make(map[string]savedDocument, len(found))
	for key, d := range found {
		document := savedDocument{maphash.Bytes(p.seed, d.Value), d.Until}
		if old, known := p.saved[s.Kind][key]; known && old.hash == document.hash && old.until.Sub(now) > document.until.Sub(now)/2 {
			document = old
			delete(found, key)
		}
		fresh[key] = document
	}
	if s.Remove {
		for key, old := range p.saved[s.Kind] {
			if _, there := fresh[key]; !there && old.until.After(now) {
				found[key] = store.Document{}
			}
		}
	}
	return fresh
}

// cooldown is the stored form of a cooldown. It is stored as JSON: do not change the keys.
type cooldown struct {
	Site  string    `json:"site"`
	Limit string    `json:"limit,omitempty"`
	Key   string    `json:"key,omitempty"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at,omitzero"` // when it was first written
}

// cooldowns persists the cooldowns of a gate. It is not safe for concurrent use.
type cooldowns struct {
	gate    *queue.Gate
	names   store.Names
	written map[string]cooldown // :: key of the document → last written
}

// find adds the cooldowns that last longest.
func (c *cooldowns) find(now time.Time, to Found) {
	var all []cooldown
	c.gate.VisitCooldowns(func(site string, at queue.Scope, until time.Time, why string) {
		if c.names.Lasting(at.Key) {
			all = append(all, cooldown{site, at.Limit, at.Key, until, why, now})
		}
	})
	slices.SortFunc(all, func(a, b cooldown) int { return b.Until.Compare(a.Until) })
	written := make(map[string]cooldown, min(len(all), mostStored))
	for _, one := range all[:min(len(all), mostStored)] {
		key := resourceKey(c.names, one.Site, queue.Scope{Limit: one.Limit, Key: one.Key})
		one.Key = c.names.Stable(one.Site, one.Key)
		if old, known := c.written[key]; known && old.Until.Equal(one.Until) {
			one.At = old.At
		}
		written[key] = one
	}
	c.written = written
	for key, one := range written {
		if value, err := json.Marshal(one); err == nil {
			to.Add(key, value, one.Until)
		}
	}
}

// restore applies the cooldowns of before a restart. If the clock was set back meanwhile, a
// cooldown keeps its original length. That of a credential in quarantine ends at once, with a slow start:
// its pool tells whether it may be tried.
func (c *cooldowns) restore(now time.Time, all map[string][]byte) {
	for _, value := range all {
		var item cooldown
		if json.Unmarshal(value, &item) != nil {
			continue
		}
		item.Until = item.Until.Add(min(now.Sub(item.At), 0))
		if item.Why == queue.Quarantine && item.Until.After(now) {
			item.Until = now.Add(time.Millisecond)
		}
		if item.Until.After(now) {
			for _, key := range c.names.Local(item.Site, item.Limit, item.Key) {
				c.gate.Cool(item.Site, queue.Scope{Limit: item.Limit, Key: key}, item.Until, item.Why)
			}
		}
	}
}

// resourceKey returns the name of a queue resource, the same in every process.
func resourceKey(names store.Names, site string, at queue.Scope) string {
	return site + store.Separator + store.BudgetKey(at.Limit, names.Stable(site, at.Key))
}
