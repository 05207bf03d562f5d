// Package bandwidth enforces byte limits on the connections to sites.
//
//	all := bandwidth.New(bandwidth.Options{Gate: gate, Rules: rules, …})
//	b := all.Acquire(bandwidth.Owner{Site: site, Target: target}, meter)
//	defer all.Release(b)
//	n, err := b.Credit(done, &since, 64<<10, nil) // before up to n bytes are read or written
//
// A connection takes credit from the SiteBudget of its site before it reads or writes, and
// pauses while there is none. A small part of each limit is reserved for connections that have
// paused for long: this trickle keeps servers from closing them. A connection that
// has paused for longer than the stall of its limits ends. Under limits so large that all
// receive buffers are a small part of them, bytes are only counted.
//
// SiteBudget has the methods of upstream.ByteLimiter. The limits themselves, and the order in
// which connections get what there is, are the queue's.
package bandwidth

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

const (
	// unusedFor is the time for which an unused budget is kept: longer than an idle connection, which
	// still refers to it, stays open.
	unusedFor = time.Minute
	// maxBudgets is the number of budgets above which unused budgets are removed early.
	maxBudgets = 10_000
)

// Options are the dependencies of Budgets. All functions may be called at any time from any
// goroutine.
type Options struct {
	Gate *queue.Gate
	// Rules returns the configured rules for an owner's bytes.
	Rules func(Owner) Rules
	// Closed is called when a connection has paused for longer than its stall. limits are
	// the titles of the limits that paused it.
	Closed func(o Owner, limits string)
	// Cut counts a body or a tunnel that ended early because of a byte limit.
	Cut func()
	// TrickleEvery is the time between two trickles of a paused connection.
	TrickleEvery time.Duration
}

// Owner identifies a budget: all that its limits depend on.
type Owner struct {
	Site         string
	Target       policy.Target
	Client       string // set if a limit is by client
	Key          string // of a token or a backend, if any
	Method, Path string // set if a limit is for some requests only
	Tunnel       bool   // abide does not see the requests
}

// Rules are the configured rules for an owner's bytes.
type Rules struct {
	Limits  []queue.Limit // without the parts for the trickle
	Trickle []queue.Limit // the parts for the trickle
	Enforce bool          // there is a limit, and it is enforced
	Stall   time.Duration // how long a connection may pause
	Made    uint64        // generation of the limits, in the queue
}

// of are the limits of a byte source, that of the trickle or the other.
func (r *Rules) of(trickle bool) []queue.Limit {
	if trickle {
		return r.Trickle
	}
	return r.Limits
}

// Budgets are the byte budgets of all sites. Make them with New; they are safe for
// concurrent use.
type Budgets struct {
	Sizes Sizes
	deps  Options
	began time.Time // zero of the times in budgets

	mu       sync.Mutex
	known    map[Owner]*SiteBudget
	searched time.Time // when unused ones were searched because there were too many
}

// New makes budgets.
func New(o Options) *Budgets {
	sizes, _ := simplelru.NewLRU[string, float64](maxSizes, nil) // fails for sizes below 1 only
	return &Budgets{deps: o, began: time.Now(), known: map[Owner]*SiteBudget{}, Sizes: Sizes{known: sizes}}
}

// Acquire finds or makes the budget of an owner. Release must follow. The meter counts
// passing bytes.
func (a *Budgets) Acquire(o Owner, meter *metrics.Site) *SiteBudget {
	if a.full() {
		a.Tidy(3*a.deps.TrickleEvery - unusedFor) // paused connections have a budget, too
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.known[o]
	if b == nil {
		b = &SiteBudget{Site: meter, owner: o, all: a}
		b.limits, b.trickle = b.source(false), b.source(true)
		b.refresh()
		a.known[o] = b
	}
	b.users++
	b.touch()
	return b
}

// Release ends one use of a budget, which may be nil.
func (a *Budgets) Release(b *SiteBudget) {
	if b == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b.users--
	b.touch()
}

// full tells whether unused budgets are searched now because there are too many.
func (a *Budgets) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) < maxBudgets || time.Since(a.searched) < time.Second {
		return false
	}
	a.searched = time.Now()
	return true
}

// Tidy closes budgets unused for longer than a connection may be idle.
func (a *Budgets) Tidy(idle time.Duration) {
	for _, b := range a.takeUnused(idle + unusedFor) {
		b.counted.setLimits(b, nil)
		b.limits.Close()
		b.trickle.Close()
	}
}

// TidyAll closes all unused budgets.
func (a *Budgets) TidyAll() { a.Tidy(-unusedFor) }

func (a *Budgets) takeUnused(since time.Duration) (unused []*SiteBudget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Since(a.began)
	for o, b := range a.known {
		if b.users == 0 && now-time.Duration(b.used.Load()) > since {
			delete(a.known, o)
			unused = append(unused, b)
		}
	}
	return unused
}

// Len is the number of budgets.
func (a *Budgets) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.known)
}

// Reload applies the new configuration to all budgets.
func (a *Budgets) Reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.known {
		b.refresh()
	}
}

const (
	// firstSize is the assumed size of answers of a site without answers; minSize and
	// maxSize bound the sizes of others. All are logarithms to base 2 of bytes.
	firstSize, minSize, maxSize = 14, 10, 16
	// sizeStep is the distance by which an answer moves the median.
	sizeStep = 1.0 / 16
	// maxSizes bounds the sites that are remembered.
	maxSizes = 10_000
)

// Sizes are the usual sizes of the answers of sites: medians, updated step by step. It is
// safe for concurrent use.
type Sizes struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, float64] // site → logarithm of the median
}

// Usual is the median of a site's answers in bytes, rounded up to a power of two.
func (s *Sizes) Usual(site string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	median, ok := s.known.Get(site)
	if !ok {
		median = firstSize
	}
	return 1 << int(math.Ceil(median))
}

// Add updates the median with an answer of n bytes.
func (s *Sizes) Add(site string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	median, ok := s.known.Get(site)
	if !ok {
		median, site = firstSize, strings.Clone(site)
	}
	switch size := math.Log2(float64(max(n, 1))); {
	case size > median:
		median = min(median+sizeStep, maxSize)
	case size < median:
		median = max(median-sizeStep, minSize)
	}
	s.known.Add(site, median)
}

const (
	// tricklePart: 1/tricklePart of a byte limit is reserved for paused connections.
	tricklePart = 100
	// TrickleSuffix ends the names and units of the limits that trickle. Stores have them.
	TrickleSuffix = " trickle"
	// maxTrickle bounds the bytes that a connection gets from the trickle at once.
	maxTrickle = 512
)

// Split divides a byte limit into a small part for the trickle and the rest.
func Split(whole queue.Limit) (rest, trickle queue.Limit) {
	small, large := *whole.Spec, *whole.Spec
	small.Amount = max(whole.Spec.Amount/tricklePart, 1)
	large.Amount -= small.Amount
	if whole.Spec.Burst > 0 {
		small.Burst = max(whole.Spec.Burst/tricklePart, 1)
		large.Burst = max(whole.Spec.Burst-small.Burst, 1)
	}
	rest, trickle = whole, whole
	rest.Spec, trickle.Spec = &large, &small
	trickle.Name, trickle.Title = whole.Name+TrickleSuffix, "trickle of "+whole.Title
	if whole.Subject != nil {
		subject := *whole.Subject
		subject.Unit += TrickleSuffix
		trickle.Subject = &subject
	}
	return rest, trickle
}

// Whole is the amount of a limit whose rest after Split is rest.
func Whole(rest int64) int64 {
	whole := rest + rest/(tricklePart-1)
	for whole-max(whole/tricklePart, 1) < rest {
		whole++
	}
	return whole
}

// minimumTime is the time for which bytes of a bucket accumulate before they are taken.
// Taking each byte separately would cost too much.
const minimumTime = 2 * time.Millisecond

// minimumOf is the minimum number of bytes taken at once: the refill of the slowest bucket
// in minimumTime. Other limits give all at once, or nothing for a long time.
func minimumOf(limits []queue.Limit) int64 {
	least := int64(math.MaxInt64)
	for i := range limits {
		if s := limits[i].Spec; s != nil && s.Traits().Burst && s.Window > 0 {
			least = min(least, int64(float64(s.Amount)/float64(s.Window)*float64(minimumTime)))
		}
	}
	if least == math.MaxInt64 {
		return 1
	}
	return max(least, 1)
}

// atOnce is the number of bytes of a body in virtual time that are asked for at once.
const atOnce = 64 << 10

// passage is a body that passes a budget in virtual time.
type passage struct {
	budget *SiteBudget
	clock  clock.Clock
	left   int64 // bytes
	done   func(whole bool)
	number int             // of times that bytes were asked for
	wait   *queue.ByteWait // nil: no bytes are waited for
	stall  clock.Timer     // ends the wait
}

// Pass has the n bytes of a body pass in virtual time, without a goroutine. It calls done at
// once or later, in the goroutine that steps the clock. whole is false for a body that has
// paused for longer than the stall of its limits. A paused body gets no trickle.
func (b *SiteBudget) Pass(c clock.Clock, n int64, done func(whole bool)) {
	p := &passage{budget: b, clock: c, left: n, done: done}
	p.goOn()
}

// goOn takes what there is.
func (p *passage) goOn() {
	for p.left > 0 && p.budget.Budgeted() {
		p.number++
		number := p.number // of this wait, which ends under the lock of the site
		granted, wait, err := p.budget.limits.Enter(min(p.left, atOnce), max(p.budget.minimum.Load(), 1), func() { p.clock.AfterFunc(0, func() { p.woken(number) }) })
		switch {
		case err != nil:
			p.done(false)
			return
		case wait != nil:
			p.wait = wait
			p.stall = p.clock.AfterFunc(time.Duration(p.budget.stall.Load()), p.stalled)
			return
		}
		p.left -= granted
	}
	p.done(true)
}

// woken continues after the wait with a number.
func (p *passage) woken(number int) {
	if p.wait == nil || p.number != number {
		return // its stall was over at the same moment
	}
	granted, err := p.end()
	if err != nil {
		p.done(false)
		return
	}
	p.left -= granted
	p.goOn()
}

// stalled ends a body that has paused for too long.
func (p *passage) stalled() {
	if granted, err := p.end(); err == nil { // it was woken at the same moment
		p.left -= granted
		p.goOn()
		return
	}
	p.done(false)
}

// end ends the wait.
func (p *passage) end() (granted int64, err error) {
	p.stall.Stop()
	granted, err = p.wait.End()
	p.wait = nil
	return granted, err
}
