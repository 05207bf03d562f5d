package proxy

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/tokens"
)

// Memory is where what was learned is kept.
type Memory interface {
	store.Shelf
	// PutAll puts many documents of a kind in one go.
	PutAll(ctx context.Context, kind string, all map[string]store.Document) error
}

// The kinds of what is remembered.
const (
	kindOfLedger   = "ledger"
	kindOfRoutes   = "routes"
	kindOfCooldown = "cooldown"
	kindOfToken    = "token"
	// kindOfRefusedHost is a host whose https a client does not let abide open.
	kindOfRefusedHost = "refused-host"
)

const (
	// rememberEvery is how often what was learned is written down, and rememberPart the
	// least time between two times as a multiple of what one took. What should not wait
	// is written after a rest of that multiple.
	rememberEvery = 2 * time.Second
	rememberPart  = 200
	rememberRest  = 10 * time.Millisecond
	// worthFor is how long something is remembered that does not say itself for how
	// long it counts. It is written again when half of that is over.
	worthFor = 30 * 24 * time.Hour
	// mostRecalled is how many limits, how many sites' routes and how many cooldowns are
	// kept, and recalled after a restart. What is known of others is learned again.
	mostRecalled = 50_000
)

// MostKept is how many documents of a kind a Memory should keep, those that count for
// longest: what is learned of sites would have no bound otherwise.
func MostKept() map[string]int {
	return map[string]int{kindOfLedger: mostRecalled, kindOfRoutes: mostRecalled, kindOfCooldown: mostRecalled}
}

// memories are what is remembered across restarts beside budgets.
type memories struct {
	to   Memory
	seed maphash.Seed
	hot  ring // something was learned that should not wait

	mu       sync.Mutex
	recalled map[string]map[string][]byte // :: kind → key → what was read and not used yet

	saved   map[string]map[string]savedOne // :: kind → key →; of the goroutine that writes
	cooling map[string]cooldown            // :: slot → as it was written
	renewed time.Time                      // when routes that had not changed were written last
}

// savedOne is what was written down last.
type savedOne struct {
	hash  uint64
	until time.Time
}

func newMemories(to Memory) *memories {
	if to == nil {
		return nil
	}
	return &memories{
		to: to, seed: maphash.MakeSeed(), hot: make(ring, 1),
		recalled: map[string]map[string][]byte{}, saved: map[string]map[string]savedOne{}, cooling: map[string]cooldown{},
	}
}

// read reads all that is remembered.
func (m *memories) read(ctx context.Context) error {
	for _, kind := range []string{kindOfLedger, kindOfRoutes, kindOfCooldown, kindOfToken, kindOfRefusedHost} {
		all, err := m.to.All(ctx, kind)
		if err != nil {
			return err
		}
		if kind == kindOfLedger || kind == kindOfRoutes {
			for key := range all {
				if len(all) <= mostRecalled {
					break
				}
				delete(all, key)
			}
		}
		m.recalled[kind] = all
	}
	return nil
}

// recall is what is remembered of a key, once.
func (m *memories) recall(kind, key string) []byte {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.recalled[kind][key]
	delete(m.recalled[kind], key)
	return value
}

// recallAll is all that is remembered of a kind, once.
func (m *memories) recallAll(kind string) map[string][]byte {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.recalled[kind]
	delete(m.recalled, kind)
	return all
}

// findings are all that is worth writing down: kind → key →. Of routes these are only
// the ones that have changed.
type findings map[string]map[string]store.Document

func (f findings) add(kind, key string, value []byte, until time.Time) {
	if len(value) == 0 {
		return
	}
	if f[kind] == nil {
		f[kind] = map[string]store.Document{}
	}
	f[kind][key] = store.Document{Value: value, Until: until}
}

// save writes down what has changed, and answers whether that was anything. Cooldowns
// and refused hosts that are not there any more are removed.
func (m *memories) save(ctx context.Context, now time.Time, all findings) (wrote bool, err error) {
	for kind, documents := range all {
		fresh := make(map[string]savedOne, len(documents))
		for key, d := range documents {
			one := savedOne{maphash.Bytes(m.seed, d.Value), d.Until}
			if old, known := m.saved[kind][key]; known && old.hash == one.hash && old.until.Sub(now) > one.until.Sub(now)/2 {
				one = old
				delete(documents, key)
			}
			fresh[key] = one
		}
		for key, old := range m.saved[kind] {
			switch _, there := fresh[key]; {
			case there || !old.until.After(now):
			case kind == kindOfCooldown || kind == kindOfRefusedHost:
				documents[key] = store.Document{}
			case kind == kindOfToken:
				fresh[key] = old // of a pool that may come back
			}
		}
		if len(documents) == 0 {
			m.saved[kind] = fresh
			continue
		}
		if err := m.to.PutAll(ctx, kind, documents); err != nil {
			return true, err
		}
		m.saved[kind], wrote = fresh, true
	}
	return wrote, nil
}

// learnedSome says that something was learned which should not wait to be written.
func (s *Server) learnedSome() {
	if s.memory != nil {
		s.memory.hot.ring()
	}
}

// remember writes down what is learned, now and then and at the end.
func (s *Server) remember(ctx context.Context) {
	next := time.Now().Add(rememberEvery)
	timer := time.NewTimer(rememberEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-timer.C:
		case <-s.memory.hot:
		}
		began := time.Now()
		whole := !began.Before(next)
		s.rememberNow(ctx, began, whole)
		took := time.Since(began)
		if whole {
			next = began.Add(max(rememberEvery, rememberPart*took))
		}
		timer.Reset(min(max(rememberRest, rememberPart*took), rememberEvery)) // many in a row are written together
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Reset(max(time.Until(next), 0))
	}
	s.rememberNow(ctx, time.Now(), true)
}

// rememberNow writes down what should not wait, or the whole.
func (s *Server) rememberNow(ctx context.Context, now time.Time, whole bool) {
	all := findings{kindOfCooldown: {}, kindOfToken: {}, kindOfRefusedHost: {}}
	s.findRejections(now, all)
	s.findCooldowns(now, all)
	s.findTokens(now, all)
	if whole {
		all[kindOfLedger], all[kindOfRoutes] = map[string]store.Document{}, map[string]store.Document{}
		s.findLedgers(now, all)
		s.findRoutes(now, all)
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patienceOfShelf)
	defer cancel()
	wrote, err := s.memory.save(within, now, all)
	if err != nil {
		for site := range all[kindOfRoutes] {
			s.routesUnwritten(site)
		}
	}
	if wrote && s.desk != nil && !s.desk.shared {
		s.desk.heardOf(err, 0)
	}
}

func (s *Server) findLedgers(now time.Time, to findings) {
	s.gate.Slots(func(_ time.Time, at queue.SlotNow) {
		if !strings.HasPrefix(at.At.Limit, learnedPrefix) || passing(at.At.Key) || len(to[kindOfLedger]) >= mostRecalled {
			return
		}
		state := at.State
		if at.Meter != nil {
			state = at.Meter.State()
		}
		to.add(kindOfLedger, s.slotKey(at.Site, at.At), state, now.Add(worthFor))
	})
}

func (s *Server) findCooldowns(now time.Time, to findings) {
	all := longest{most: mostRecalled}
	s.gate.Cooldowns(func(site string, at queue.Scope, until time.Time, why string) {
		if !passing(at.Key) {
			all.add(cooldown{site, at.Limit, at.Key, until, why, now})
		}
	})
	cooling := make(map[string]cooldown, len(all.list))
	for _, c := range all.list {
		key := s.slotKey(c.Site, queue.Scope{Limit: c.Limit, Key: c.Key})
		c.Key = s.stable(c.Site, c.Key)
		if old, known := s.memory.cooling[key]; known && old.Until.Equal(c.Until) {
			c.At = old.At
		}
		cooling[key] = c
	}
	s.memory.cooling = cooling
	for key, c := range cooling {
		if value, err := json.Marshal(c); err == nil {
			to.add(kindOfCooldown, key, value, c.Until)
		}
	}
}

func (s *Server) findRoutes(now time.Time, to findings) {
	again := now.Sub(s.memory.renewed) > worthFor/2
	if again {
		s.memory.renewed = now
	}
	s.books.each(func(site string, b *book) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if v := b.routes.Version(); again && v != 0 || v != b.kept {
			b.kept = v
			to.add(kindOfRoutes, site, b.routes.State(), now.Add(worthFor))
		}
	})
}

// routesUnwritten has what is known of a site's routes written the next time.
func (s *Server) routesUnwritten(site string) {
	if b := s.books.of(site, false); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.kept = 0
	}
}

func (s *Server) findTokens(now time.Time, to findings) {
	for name, pool := range s.state.Load().pools {
		if value, err := json.Marshal(pool.State(now)); err == nil {
			to.add(kindOfToken, name, value, now.Add(worthFor))
		}
	}
}

// passing tells whether a budget's name means nothing in another process: those of
// clients' own credentials are made anew in each, so that no name leads back to one.
func passing(key string) bool { return strings.HasPrefix(key, ownPrefix) }

// slotKey is the name of a slot, the same in every process.
func (s *Server) slotKey(site string, at queue.Scope) string {
	return site + between + budgetKey(at.Limit, s.stable(site, at.Key))
}

// cooldown is one that is remembered.
type cooldown struct {
	Site  string    `json:"site"`
	Limit string    `json:"limit,omitempty"`
	Key   string    `json:"key,omitempty"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at,omitzero"` // when it was written down first
}

// restoreCooldowns has what was cooling before a restart cool on. Of a clock that was
// set back meanwhile it lasts as long as it was to last then.
func (s *Server) restoreCooldowns() {
	now := time.Now()
	for _, value := range s.memory.recallAll(kindOfCooldown) {
		var c cooldown
		if json.Unmarshal(value, &c) != nil {
			continue
		}
		c.Until = c.Until.Add(min(now.Sub(c.At), 0))
		if c.Until.After(now) {
			for _, key := range s.local(c.Site, c.Limit, c.Key) {
				s.gate.Cool(c.Site, queue.Scope{Limit: c.Limit, Key: key}, c.Until, c.Why)
			}
		}
	}
}

// recallLedger brings a new ledger to where it was before a restart. It is called
// under the lock of the site.
func (s *Server) recallLedger(site string, at queue.Scope, _ limit.Spec, m limit.Meter) limit.Meter {
	recalled := false
	if state := s.memory.recall(kindOfLedger, s.slotKey(site, at)); state != nil {
		recalled = m.Restore(time.Now(), state) == nil // one that makes no sense is as good as none
	}
	s.shareLearned(site, at, m, recalled)
	return m
}

// recallRoutes brings what is known of a site's routes to where it was.
func (s *Server) recallRoutes(site string, r *ledger.Routes) {
	if state := s.memory.recall(kindOfRoutes, site); state != nil {
		_ = r.Restore(state) // as above
	}
}

// recallTokens brings a new pool to where it was.
func (s *Server) recallTokens(pool *tokens.Pool, now time.Time) {
	var known []tokens.Memory
	if value := s.memory.recall(kindOfToken, pool.Name()); value != nil && json.Unmarshal(value, &known) == nil {
		pool.Restore(now, known)
	}
}
