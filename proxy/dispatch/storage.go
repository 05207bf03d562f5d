package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/shard"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/broadcast"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget"
	"github.com/abide-proxy/abide/store/budget/overrides"
	"github.com/abide-proxy/abide/tokens"
)

// documentPatience bounds the time of reading documents, and of storing a change of the operator, and readSoon that
// of reading at the start of the process.
const (
	documentPatience = overrides.Patience
	readSoon         = 2 * time.Second
)

// Keeping says what outlives this process, and what it shares with other instances.
type Keeping struct {
	// Store has the budgets; nil: they are this process's own and end with it. Shared
	// says that other instances use it too.
	Store  store.Store
	Shared bool
	// Instance names this life of the process, Name is the one that is shown.
	Instance, Name string
	// Documents has the limits that were set at run time.
	Documents store.Documents
	// Memory has what this machine has learned; nil: nothing is remembered.
	Memory sites.Documents
	// Budgets are the budgets that Store had when it was opened.
	Budgets []store.SavedBudget
}

// storage connects the dispatcher with what outlives this process or is shared with others.
type storage struct {
	gate        *queue.Gate
	sites       siteBudgets
	documents   store.Documents // nil: there are none
	persistence *sites.Persistence
	learned     *sites.Sites
	budgets     *budget.Keeper // nil: nothing is stored, and nothing shared
	tokens      *sharedTokens
	broadcasts  *broadcast.Broadcasts
	overrides   *overrides.Overrides
	log         *logrus.Logger
}

// newStorage makes a storage. It reads and starts nothing yet.
func newStorage(k Keeping, c *configuration, m *metrics.Metrics) *storage {
	s := &storage{gate: c.gate, sites: siteBudgets{&c.current}, log: c.log}
	s.persistence = sites.NewPersistence(k.Memory, func(err error) { s.budgets.Saved(err) })
	about := sites.Options{Persistence: s.persistence, Names: s.sites, Dialect: func(site string) string { return s.sites.current.Load().policy.DialectOf(site) }}
	if k.Store != nil {
		about.Share = func(site string, at queue.Scope, m limit.Meter, restored bool) {
			s.broadcasts.Share(site, at, m, restored, budget.OutageOf(s.sites.current.Load().policy.RuleOf(site)))
		}
	}
	s.learned = sites.New(about)
	if k.Store != nil {
		s.documents = k.Documents
		s.budgets = budget.New(budget.Options{
			Store: k.Store, Shared: k.Shared, Self: store.Member{ID: k.Instance, Name: k.Name}, Restored: k.Budgets,
			Gate: s.gate, Names: s.sites, Sites: s.sites, Changed: func() { s.overrides.Changed() }, Metrics: m, Log: s.log,
		})
	}
	s.tokens = &sharedTokens{
		documents: s.documents, config: c, gate: s.gate, persistence: s.persistence, log: s.log, published: map[string]uint64{},
	}
	s.broadcasts = broadcast.New(broadcast.Options{
		Keeper: s.budgets, Gate: s.gate, Names: s.sites, Learned: s.learned, Tokens: s.tokens.publish,
	})
	s.overrides = overrides.New(overrides.Options{
		Documents: s.documents, Shared: k.Shared, Plans: overridePlans{c}, Others: s.tokens.read, Together: s.budgets.Together, Log: s.log,
	})
	return s
}

// read reads what an earlier process has stored: tokens, documents of further kinds, and limits
// that were set at run time. It is called before the first plan is made. If strict, it fails
// where limits that were set at run time cannot be read.
func (s *storage) read(strict, shared bool, kinds []string) error {
	s.warn(s.persistence.Read(context.Background(), append(kinds, kindOfToken)...), "what was learned before the restart cannot be read, so it is learned again")
	if s.documents == nil || shared { // a start does not wait for a store that is shared
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), documentPatience)
	defer cancel()
	err := s.overrides.Restore(ctx)
	if err != nil && strict {
		return fmt.Errorf("the limits that were set at run time: %w", err)
	}
	s.warn(err, "the limits that were set at run time cannot be read, so those of the configuration hold until they can be")
	return nil
}

// warn logs an error that the state file has not logged itself.
func (s *storage) warn(err error, text string) {
	if err != nil && !store.IsTold(err) {
		s.log.WithField("reason", err).Warnf("%s: %v", text, err)
	}
}

// begin loads what an earlier process has stored into the queue, once there is a snapshot.
func (s *storage) begin() {
	s.learned.KeepFrom(s.gate)
	s.persistence.Add(sites.Source{Kind: kindOfToken, Urgent: true, Find: func(now time.Time, to sites.Found) { s.tokens.pools().find(now, to) }})
	if s.documents != nil {
		soon, cancel := context.WithTimeout(context.Background(), readSoon)
		defer cancel()
		s.warn(s.overrides.Read(soon), "the limits that were set at run time cannot be read yet")
	}
	s.preloadAll()
}

// run stores and shares until ctx is done, and once more then.
func (s *storage) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.overrides.Run(ctx) })
	running.Go(func() { s.persistence.Run(ctx) })
	if s.budgets.Joinable() {
		running.Go(func() { s.broadcasts.Run(ctx) })
	}
	if s.budgets != nil {
		running.Go(func() { s.budgets.Run(ctx, s.broadcasts) })
	}
	running.Wait()
}

// cooled is called with each cooldown that begins here. Those of breakers and of first
// requests are each instance's own.
func (s *storage) cooled(site string, at queue.Scope, until time.Time, why string) {
	s.persistence.Urge()
	if why != sitelog.SiteFailed && at.Limit != sites.FirstRequest {
		s.broadcasts.Cooled(site, at, until, why)
	}
}

// preloadAll makes the meters of stored budgets of which something is used.
func (s *storage) preloadAll() {
	st, known := s.sites.current.Load(), map[string]*plans.Plan{}
	s.budgets.Preload(func(site, name string) *queue.Limit {
		p, looked := known[site]
		if !looked {
			p = st.planOf(site, st.policy.RuleOf(site))
			known[site] = p
		}
		return p.Called(name)
	}, func(r queue.Request) {
		r.Generation = st.made
		s.preload(r)
	})
}

// preload makes the meters of a request's limits that are known from before.
func (s *storage) preload(r queue.Request) {
	s.gate.Preload(r, func(at queue.Scope) bool {
		if _, learned := s.learned.ID(at.Limit); learned {
			return s.learned.HasMeter(r.Site, at)
		}
		return s.budgets.Has(r.Site, at)
	})
}

// stablePrefix begins the names of tokens' budgets that mean the same in every process.
const stablePrefix = "#"

// siteBudgets tells package budget what the present configuration says of the budgets of sites.
type siteBudgets struct{ current *atomic.Pointer[Snapshot] }

// HasLimit reports whether a site has a limit of that name now.
func (s siteBudgets) HasLimit(site, name string) bool {
	st := s.current.Load()
	return st.planOf(site, st.policy.RuleOf(site)).Called(name) != nil
}

// Owned reports whether all of a site is this instance's, as shard in the configuration says.
func (s siteBudgets) Owned(site string) bool {
	st := s.current.Load()
	return st != nil && shard.OwnsSite(st.policy, site)
}

// Lasting reports whether a key means anything to another process. Those of clients' own
// credentials are made anew in each, so that no name leads back to a credential.
func (siteBudgets) Lasting(key string) bool { return !strings.HasPrefix(key, ownPrefix) }

// Stable returns the name of a slot's key in every process.
func (s siteBudgets) Stable(site, key string) string {
	if pool := s.pool(site); pool != nil && key != "" {
		if name := pool.Stable(key); name != "" {
			return stablePrefix + name
		}
	}
	return key
}

// Local is the reverse of Stable: it returns the keys that a name has in this process, for the
// slots of a limit. There are none for a token that this process does not have.
func (s siteBudgets) Local(site, limit, name string) []string {
	token, ok := strings.CutPrefix(name, stablePrefix)
	if !ok {
		return []string{name}
	}
	pool := s.pool(site)
	if pool == nil {
		return nil
	}
	var keys []string
	for _, t := range pool.Set().Tokens() {
		switch {
		case pool.Stable(t.Budget()) != token:
		case limit == plans.TokenLimit:
			keys = append(keys, t.Key())
		default:
			return []string{t.Budget()}
		}
	}
	return keys
}

// OfFleet returns the stable name of a slot's key, and whether all instances of a fleet have a
// learned limit of that key together.
//
// Without a token a site counts by address, of which each machine has its own unless
// egress.shared says otherwise.
func (s siteBudgets) OfFleet(site, key string) (whose string, ok bool) {
	whose = s.Stable(site, key)
	if strings.HasPrefix(whose, stablePrefix) {
		return whose, true
	}
	byAddress := key == "" || s.pool(site) == nil
	return whose, byAddress && s.current.Load().policy.Egress.Shared
}

// pool returns the pool of a site, nil if it has none.
func (s siteBudgets) pool(site string) *tokens.Pool {
	st := s.current.Load()
	if len(st.pools) == 0 {
		return nil
	}
	rule := st.policy.RuleOf(site)
	if rule == nil {
		return nil
	}
	return st.pools[rule.Pool]
}
