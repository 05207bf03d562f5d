package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// Keeping is what outlives this process, and what is shared with others.
type Keeping struct {
	// Store has the budgets; nil: they are this process's own and end with it. Shared
	// says that other instances use it too.
	Store  store.Store
	Shared bool
	// Instance names this life of the process, Name is for people.
	Instance, Name string
	// Shelf has the limits that were set at run time.
	Shelf store.Shelf
	// Memory has what this machine has learned; nil: nothing is remembered.
	Memory Memory
	// Budgets are those that Store had when it was opened.
	Budgets []store.Kept
}

// keepWith takes what is kept from before. It comes before the first plan is made.
func (s *Server) keepWith(k Keeping, strict bool) error {
	s.memory = newMemories(k.Memory)
	if k.Store != nil {
		s.shelf = k.Shelf
		s.desk = newDesk(k.Store, k.Shared, k.Instance, k.Name, s.log)
		s.desk.recall(k.Budgets)
		s.desk.changed = func() { s.rereads.ring() }
		s.desk.owns = func(site string) bool {
			state := s.state.Load()
			return state != nil && ownedSite(state.policy, site)
		}
		s.desk.heard = s.heardNews
		s.desk.measure = s.metrics.StoreOperation
		s.desk.lending.measure = s.metrics.StoreLent
		s.desk.losses.measure = s.metrics.StoreLost
		s.desk.health.measure = s.metrics.StoreAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfShelf)
	defer cancel()
	if s.memory != nil {
		if err := s.memory.read(ctx); err != nil {
			s.log.Warnf("what was learned before the restart cannot be read, so it is learned again: %v", err)
		}
	}
	if s.shelf != nil && !k.Shared { // what others keep is not waited for
		all, err := s.keptOverrides(ctx)
		if err != nil && strict {
			return fmt.Errorf("the limits that were set at run time: %w", err)
		}
		if err != nil {
			s.log.Warnf("the limits that were set at run time cannot be read, so those of the configuration hold until they can be: %v", err)
			return nil
		}
		s.tellOverrides(all)
		s.overrides.Store(&all)
	}
	return nil
}

// runKeeping keeps and shares until ctx is done, and once more then.
func (s *Server) runKeeping(ctx context.Context) {
	var running sync.WaitGroup
	if s.shelf != nil {
		running.Go(func() { s.reread(ctx) })
	}
	if s.memory != nil {
		running.Go(func() { s.remember(ctx) })
	}
	if s.desk != nil && (s.desk.shared || s.desk.local()) {
		running.Go(func() { s.tell(ctx) })
	}
	if s.desk != nil {
		running.Go(func() { s.desk.run(ctx) })
	}
	s.housekeeping(ctx)
	running.Wait()
}

// tidyParts is how many parts of the sites are looked at in each sampleEvery, for those
// that have nothing to remember any more.
const tidyParts = 8

// partsAfter is how many parts are looked at when the last time was so long ago: the more
// sites there are, the more seldom it is done, and they leave as soon.
func partsAfter(since time.Duration) int {
	return min(tidyParts*max(int(since/sampleEvery), 1), queue.Parts)
}

// housekeeping does what is done now and then, until ctx is done. It sleeps while
// nothing is asked for.
func (s *Server) housekeeping(ctx context.Context) {
	timer := time.NewTimer(sampleEvery)
	timer.Stop()
	awake, idle, tidied, looked, part := false, time.Duration(0), time.Now(), time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			s.purses.tidy(-restOfPurse) // all that nobody has
			return
		case <-s.replans:
			s.replanAll()
			continue
		case <-s.stirs:
			if idle = 0; !awake {
				awake = true
				timer.Reset(sampleEvery)
			}
			continue
		case <-timer.C:
		}
		began := time.Now()
		s.sampleOnce()
		if began.Sub(tidied) >= restOfPurse {
			tidied = began
			s.purses.tidy(s.policy().Timeouts.Idle)
		}
		for range partsAfter(began.Sub(looked)) {
			s.gate.Tidy(began, part%queue.Parts)
			part++
		}
		looked = began
		next := max(sampleEvery, rememberPart*time.Since(began))
		s.stirred.Store(false)
		if idle += next; idle > lately {
			awake = false
			continue
		}
		timer.Reset(next)
	}
}

// stir keeps the housekeeper awake.
func (s *Server) stir() {
	if !s.stirred.Load() {
		s.stirred.Store(true)
		s.stirs.ring()
	}
}

// keeperOf makes the meters of a limit survive, or shared, if they can and need to be.
func (s *Server) keeperOf(rule *policy.Site, l *policy.Limit, spec *limit.Spec) func(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter {
	switch {
	case s.desk == nil, spec.As == limit.Concurrency, spec.As == limit.Adaptive:
		return nil // ends with what is in flight, or is found again
	case s.desk.shared && !lease.Shareable(*spec):
		return nil
	}
	return s.desk.keeper(outages[rule.OutageOf(l)], s.stable, s.holds)
}

// outages are the rules for when a store is away, by their words in the configuration.
var outages = map[string]lease.Outage{"share": lease.Share, "strict": lease.Strict, "open": lease.Open}

// reread reads the limits that were set at run time again whenever others may have
// changed them, and after a while in any case. What could not be kept is tried again.
func (s *Server) reread(ctx context.Context) {
	if s.shelf == nil {
		return
	}
	unread := !s.desk.shared && s.overrides.Load() == nil // the file could not be read at the start
	for {
		wait := time.Minute
		if err := s.keepUnkept(ctx); err != nil {
			wait = patienceOfShelf
		}
		read := unread && s.readOverrides(ctx) == nil
		if unread = unread && !read; unread {
			wait = patienceOfShelf
		}
		if read || s.desk.together() {
			s.rereadNow(ctx)
		}
		select {
		case <-ctx.Done():
			_ = s.keepUnkept(context.WithoutCancel(ctx)) // who set them was told that they are not
			return
		case <-s.rereads:
		case <-time.After(wait):
		}
	}
}

func (s *Server) keepUnkept(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, patienceOfShelf)
	defer cancel()
	return s.desk.unkept.write(within, s.shelf)
}

func (s *Server) rereadNow(ctx context.Context) {
	if err := s.readOverrides(ctx); err != nil && ctx.Err() == nil {
		s.log.Warnf("the limits that were set at run time cannot be read: %v", err)
	}
	if err := s.hearSwitches(ctx); err != nil && ctx.Err() == nil {
		s.log.Warnf("the tokens that the operator has disabled in other instances cannot be read: %v", err)
	}
	if err := s.hearQuarantines(ctx); err != nil && ctx.Err() == nil {
		s.log.Warnf("the tokens that other instances have put away cannot be read: %v", err)
	}
}

// ring is a bell that rings once, however often it was pulled.
type ring chan struct{}

func (r ring) ring() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// Store is how the store is.
func (s *Server) Store() StoreStatus { return s.desk.status() }

// Instances are those that use the store, this one included, as many as it lists.
func (s *Server) Instances(ctx context.Context) []store.Member { return s.desk.instances(ctx) }
