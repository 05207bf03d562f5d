package proxy

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

const (
	bookShards = 16
	mostBooks  = 256 // sites of a shard
)

// books are what is known of the routes of sites. Those used least recently leave, and
// are brought back by the next request to their site.
type books struct {
	seed   maphash.Seed
	recall func(site string, r *ledger.Routes) // what was known before a restart; nil: nothing
	keep   func(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter
	shards [bookShards]bookShard
}

type bookShard struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, *book] // :: site →
	past  uint64                        // the largest version of those that have left
	left  leftBooks
}

func newBooks() *books { return &books{seed: maphash.MakeSeed()} }

// of is the book of a site. Without make, it is nil for one that has none.
func (b *books) of(site string, make bool) *book {
	sh := &b.shards[maphash.String(b.seed, site)%bookShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.known == nil {
		sh.known, _ = simplelru.NewLRU(mostBooks, func(site string, left *book) { // fails for sizes below 1 only
			sh.past = max(sh.past, left.version())
			sh.left.keep(site, left)
		})
	}
	one, ok := sh.known.Get(site)
	if !ok && !make {
		return nil
	}
	if !ok {
		one = &book{routes: ledger.NewRoutes(), since: sh.past, keep: b.keep}
		if !sh.left.bring(site, one.routes) && b.recall != nil {
			b.recall(site, one.routes)
		}
		sh.known.Add(strings.Clone(site), one)
	}
	return one
}

// each visits all books.
func (b *books) each(visit func(site string, one *book)) {
	for i := range b.shards {
		sh := &b.shards[i]
		sh.mu.Lock()
		all := map[string]*book{}
		if sh.known != nil {
			for _, site := range sh.known.Keys() {
				all[site], _ = sh.known.Peek(site)
			}
		}
		sh.mu.Unlock()
		for site, one := range all {
			visit(site, one)
		}
	}
}

// book is what is known of one site's routes, and of refusals there that nothing
// announced has explained.
type book struct {
	keep     func(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter // of its ledgers; nil: none is kept
	since    uint64                                                                        // versions begin after it: the queue knows those of a book that has left
	mu       sync.Mutex
	routes   *ledger.Routes
	kept     uint64                    // the version that is written down
	pace     meterOf                   // of what succeeds
	passed   uint64                    // answers that were no refusals
	paces    map[string]float64        // :: ID of a hidden limit → what had succeeded when it was found
	found    map[string]ledger.Finding // :: name and budget of a hidden limit → what was told of it last
	refusals map[string]refusal        // :: route → the last one
	episodes map[string]episode        // :: template of routes, or "" for the whole site → unexplained ones
	titles   learnedTitles
}

// refusal is one that a route has met.
type refusal struct {
	budget string
	at     time.Time
}

// episode is how often something was refused for no reason that was announced, with
// successes between.
type episode struct {
	n     int
	sent  time.Time // what was sent before belongs to the last one
	first time.Time
}

// class is what a request's route is under, and the version of what is known.
func (b *book) class(method, host, path string, apart int) (*ledger.Class, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes.Class(method, host, path, apart), b.since + b.routes.Version()
}

// learn hears what an answer says.
func (b *book) learn(now time.Time, c *ledger.Class, budget string, sent time.Time, l *learn.Lesson) ledger.Learned {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !l.Throttled {
		b.pace.count(now)
		b.passed++
	}
	return b.routes.Learn(now, c, budget, sent, l)
}

// fresh tells whether the site has never answered.
func (b *book) fresh() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes.Fresh()
}

// name is what people call a limit of the site: by what the site calls it, or by
// its routes.
func (b *book) name(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return routeOf(b.routes, id)
}

// title names a limit of the site, in the one way in which everything that shows limits
// does. Other is for a limit that the book does not have.
func (b *book) title(id, other string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.titles.of(b.routes, id, other)
}

func routeOf(all *ledger.Routes, id string) string {
	bucket, routes := all.Under(id)
	switch {
	case bucket != "":
		return bucket
	case len(routes) == 0:
		return id
	case len(routes) > 1:
		return fmt.Sprintf("%s and %d more", routes[0], len(routes)-1)
	}
	return routes[0]
}

// identity is the limit's name among instances.
func (b *book) identity(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes.Identity(id)
}

// identified are the limits of the site that have a name among instances.
func (b *book) identified(name string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(b.routes.IDs(), func(id string) bool { return b.routes.Identity(id) != name })
}

// heard hears what the ledgers have made of it.
func (b *book) heard(now time.Time, c *ledger.Class, budget, id string, sent time.Time, n ledger.News) (changed bool, twins [2]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes.Heard(now, c, budget, id, sent, n)
}

// version is that of the newest classes.
func (b *book) version() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since + b.routes.Version()
}

const (
	// together is how close two tokens are refused on one route, if it is not the
	// tokens that are limited.
	together = 10 * time.Second
	// episodic is how long an unexplained refusal is remembered. A second one within
	// it makes a limit.
	episodic = 10 * time.Minute
	// mostRefusals bounds what is remembered of routes, whose names strangers choose.
	mostRefusals = 256
)

// shared notes that a route was refused with a budget, and tells whether another
// budget has been a moment ago: then the limit is not the token's.
func (b *book) shared(now time.Time, route, budget string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.refusals[route]
	if b.refusals == nil || len(b.refusals) >= mostRefusals {
		b.refusals = map[string]refusal{}
	}
	b.refusals[route] = refusal{budget, now}
	return ok && last.budget != budget && now.Sub(last.at) <= together
}

// unexplained notes a refusal that nothing announced explains. The second one makes
// a hidden limit: of the route, or of the whole site where nothing is announced at
// all. It answers the limit's ID, "" if there is none yet.
func (b *book) unexplained(now time.Time, c *ledger.Class, sent time.Time) (id string, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wide := b.routes.Silent()
	what := c.Template
	if wide {
		what = ""
	}
	e := b.episodes[what]
	switch {
	case e.n > 0 && !sent.After(e.sent): // one of a crowd
		if e.n == 1 {
			return "", false
		}
	case e.n == 0 || now.Sub(e.first) > episodic && e.n == 1:
		e = episode{n: 1, sent: now, first: now}
	default:
		e.n, e.sent = e.n+1, now
	}
	if b.episodes == nil || len(b.episodes) >= mostRefusals && e.n == 1 {
		b.episodes = map[string]episode{}
	}
	b.episodes[what] = e
	if e.n < 2 {
		return "", false
	}
	id, changed = b.routes.Hide(c, wide)
	if _, known := b.paces[id]; !known {
		if b.paces == nil {
			b.paces = map[string]float64{}
		}
		b.paces[id] = b.pace.perSecond(now)
	}
	return id, changed
}

// passes is how many answers were no refusals.
func (b *book) passes() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.passed
}

// hidden is what had succeeded per second when a hidden limit was found.
func (b *book) hidden(id string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paces[id]
}

// meterOf counts successes in slots of a second, to tell how fast they come.
type meterOf struct {
	slots [16]int32
	last  int64 // the second of the newest
}

func (m *meterOf) count(now time.Time) {
	m.advance(now.Unix())
	m.slots[m.last%int64(len(m.slots))]++
}

func (m *meterOf) advance(second int64) {
	for n := min(second-m.last, int64(len(m.slots))); n > 0; n-- {
		m.slots[(second-n+1)%int64(len(m.slots))] = 0
	}
	m.last = max(m.last, second)
}

// perSecond is the mean over the last seconds that are over, from the first with
// any.
func (m *meterOf) perSecond(now time.Time) float64 {
	m.advance(now.Unix())
	n := int64(len(m.slots))
	var sum, over int64
	for back := n - 1; back >= 1; back-- {
		c := int64(m.slots[(m.last-back+n)%n])
		if sum += c; sum > 0 {
			over++
		}
	}
	if over == 0 {
		return float64(m.slots[m.last%n])
	}
	return float64(sum) / float64(over)
}
