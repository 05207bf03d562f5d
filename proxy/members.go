package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// patienceOfPulse is how long one pulse may take.
	patienceOfPulse = 3 * time.Second
	// listening is how long after a failure the store is listened to again.
	listening = time.Second
	// longAway is for how long the store has to fail until others are expected to have
	// lent something: more than one pulse.
	longAway = 2 * time.Second
	// listedFor is how long a list of the members is used again.
	listedFor = 5 * time.Second
)

var (
	errShort   = errors.New("the store has not answered everything")
	errUnheard = errors.New("the store has not been heard yet")
)

// pulse tells the store that this instance is there, and hears who else is, until ctx
// is done. Whatever a new life of the store has lost is said again.
func (d *desk) pulse(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		d.beatOnce(ctx)
		d.inspect(ctx)
		// Instances that were started together do not stay together.
		timer.Reset(time.Duration((0.9 + 0.2*rand.Float64()) * float64(store.Beat(d.size()))))
	}
}

func (d *desk) beatOnce(ctx context.Context) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, patienceOfPulse)
	defer cancel()
	p, err := d.store.Pulse(within, store.Member{ID: d.instance, Name: d.name, Lifetime: store.Lifetime(d.size())})
	if ctx.Err() != nil {
		return
	}
	d.measure("pulse", err == nil, time.Since(began))
	d.heardOf(err, time.Since(began))
	if err != nil {
		return
	}
	old := d.members.Swap(&p)
	if old == nil || old.Documents != p.Documents {
		d.changed()
	}
	if old != nil && old.Generation == p.Generation {
		return
	}
	d.mu.Lock()
	d.settled = began.Add(max(store.Settling-p.Since, 0))
	d.generation = p.Generation
	all := make([]*account, 0, len(d.accounts))
	for _, a := range d.accounts {
		all = append(all, a)
	}
	d.mu.Unlock()
	if old != nil {
		d.lostAll(began)
		d.log.Warnf("the store has lost what was written down, or may have: it was flushed, was started again, or is another one; what is held is said again, and nothing is asked of it for %v", store.Settling)
	}
	if old == nil && p.Since >= store.Settling {
		return // those who use it have long said what they hold
	}
	for _, a := range all {
		d.renew(a, p.Generation)
	}
}

func (d *desk) renew(a *account, generation string) {
	d.gate.With(a.site, func(now time.Time) { a.Renew(now, generation) })
}

// listen hears of news as soon as somebody publishes them.
func (d *desk) listen(ctx context.Context) {
	l, ok := d.store.(store.Listener)
	if !ok {
		return
	}
	for {
		_ = l.Listen(ctx, func(news store.News) { d.hear(ctx, news) })
		d.strange.listens.Store(nil)
		select {
		case <-ctx.Done():
			return
		case <-time.After(listening):
		}
	}
}

// hear takes in one piece of news. What is not told is found by the next exchange.
func (d *desk) hear(ctx context.Context, news store.News) {
	site := news.Site
	switch {
	case news.Began:
		now := time.Now()
		d.strange.listens.Store(&now)
		return
	case site == "" && news.Lost:
		d.beatOnce(ctx)
		return
	case site == "":
		d.count(ctx)
		d.changed()
		return
	}
	if news.Lost {
		d.lostSite(time.Now(), site)
	}
	d.mu.Lock()
	a := d.accounts[site]
	d.mu.Unlock()
	switch {
	case a == nil && len(news.Notes) > 0:
		d.toldOfStrange(site, news.Notes)
	case a == nil:
	case news.Lost:
		d.gate.With(site, a.Repeat)
	case len(news.Notes) > 0:
		if !d.told(a, news.Notes) {
			d.toldOfStrange(site, news.Notes)
		}
	default:
		d.gate.With(site, a.Poke)
	}
}

// storeHealth is how exchanges with the store go.
type storeHealth struct {
	measure func() // an outage has begun; nil: nobody counts

	mu sync.Mutex
	downtimes
	done   uint64
	failed uint64
	took   time.Duration

	returned atomic.Pointer[time.Time] // when it answered again after it had been away for long
}

// lastReturned is when the store answered again after it had been away; zero: it never was.
func (h *storeHealth) lastReturned() time.Time {
	if at := h.returned.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// failing is for how long the store has failed until now.
func (h *storeHealth) failing() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return 0
	}
	return time.Since(h.since)
}

// StoreStatus is how the store is, for people and for /readyz.
type StoreStatus struct {
	Kind       string // "none", "local" or "shared"
	Instance   string
	Since      time.Time // of failures that go on; zero: it answers
	Err        string
	Answered   bool   // Err is what the store itself says
	Outages    uint64 // times that it began to fail
	Losses     Losses
	Warnings   []string // what is to be changed about it
	Operations uint64
	Failures   uint64
	Took       time.Duration // all operations together
	Generation string
	Members    int // instances that use it

	// Clock is by how much the store's clock was ahead of this machine's when it answered
	// last; nil: it has not said.
	Clock *time.Duration

	// Granted is what the store has granted in windows that are over, and Spent what
	// was used of it.
	Granted, Spent int64
}

func (d *desk) status() StoreStatus {
	if d == nil {
		return StoreStatus{Kind: "none"}
	}
	one := StoreStatus{Kind: "local", Instance: d.instance}
	if d.shared {
		one.Kind = "shared"
	}
	if p := d.members.Load(); p != nil {
		one.Generation, one.Members = p.Generation, p.Members
	}
	one.Clock = d.clock.Load()
	one.Granted, one.Spent = d.granted.Load(), d.spent.Load()
	one.Losses = d.losses.now()
	one.Warnings = d.settings.now()
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	one.Since, one.Operations, one.Failures, one.Took = h.since, h.done, h.failed, h.took
	one.Outages = h.count
	if h.err != nil {
		one.Err, one.Answered = h.err.Error(), store.Answered(h.err)
	}
	return one
}

// memberList is the members of a store as they were listed last.
type memberList struct {
	all []store.Member
	at  time.Time
}

// instances are those that use the store, as many as it lists. While it does not answer,
// they are those that it named last.
func (d *desk) instances(ctx context.Context) []store.Member {
	if d == nil {
		return nil
	}
	old := d.listed.Load()
	if old != nil && time.Since(old.at) < listedFor {
		return old.all
	}
	within, cancel := context.WithTimeout(ctx, patienceOfPulse)
	defer cancel()
	list := &memberList{at: time.Now()}
	all, err := d.store.Members(within)
	if err == nil {
		list.all = all
	} else if old != nil {
		list.all = old.all
	}
	d.listed.Store(list)
	return list.all
}
