package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// kindOfLimits is the kind of documents that are limits which were set at run time.
const kindOfLimits = "limits"

// patienceOfShelf is how long a document may take to be read or written.
const patienceOfShelf = 5 * time.Second

// ErrNoSuchSite is for a name that no request can have as its site.
var ErrNoSuchSite = errors.New("a site is a host, host:port, domain or rule's name, in lower case")

// mostOverrides is how many sites may have limits of their own at once.
const mostOverrides = 10_000

// ErrManyOverrides is for one more than there may be.
var ErrManyOverrides = errors.New("as many sites have limits that were set at run time as there may be; remove some first")

// ErrNoTokens is for limits by token where there are none.
var ErrNoTokens = errors.New("limits by token need a rule with a pool for the site")

// SetLimits has a site keep other limits than its rule says, until ClearLimits: over
// restarts, and with a shared store everywhere. The body is JSON, as in the
// configuration: {"limits": [{"requests": 10, "per": "1s"}]}.
func (s *Server) SetLimits(ctx context.Context, site string, body []byte) ([]policy.Limit, error) {
	if !s.canBe(site) {
		return nil, ErrNoSuchSite
	}
	if _, set := s.Overrides()[site]; !set && len(s.Overrides()) >= mostOverrides {
		return nil, ErrManyOverrides
	}
	limits, err := policy.ParseLimits(body)
	if err != nil {
		return nil, err
	}
	if rule := s.ruleOf(site); slices.ContainsFunc(limits, func(l policy.Limit) bool { return l.By == "token" }) && (rule == nil || rule.Pool == "") {
		return nil, ErrNoTokens
	}
	text, err := policy.FormatLimits(limits)
	if err != nil {
		return nil, err
	}
	if err := s.override(site, limits, text); err != nil {
		return nil, err
	}
	s.log.Infof("the limits of %s were set by the operator: %s", site, titlesOf(limits))
	return limits, s.shelve(ctx, site)
}

// ClearLimits gives a site the limits of its rule again. It is false if it had them.
func (s *Server) ClearLimits(ctx context.Context, site string) (bool, error) {
	if _, set := s.Overrides()[site]; !set {
		return false, nil
	}
	if err := s.override(site, nil, nil); err != nil {
		return true, err
	}
	s.log.Infof("the limits of %s are those of the configuration again", site)
	return true, s.shelve(ctx, site)
}

// Overrides are the limits that were set at run time, by site.
func (s *Server) Overrides() map[string][]policy.Limit {
	if known := s.overrides.Load(); known != nil {
		return *known
	}
	return nil
}

// canBe tells whether requests can have a name as their site: that of a rule which
// makes one of all its hosts, or else a host as requests name it.
func (s *Server) canBe(site string) bool {
	p := s.policy()
	for i := range p.Sites {
		if p.Sites[i].Group == "rule" && p.Sites[i].Title() == site {
			return true
		}
	}
	if strings.ContainsAny(site, "*{}%") {
		return false
	}
	for _, host := range []string{site, "[" + site + "]"} {
		for _, scheme := range []string{"https", "http"} {
			if t, err := policy.ParseTarget(scheme, host); err == nil && p.Match(t).Site == site {
				return true
			}
		}
	}
	return false
}

func titlesOf(limits []policy.Limit) string {
	if len(limits) == 0 {
		return "none"
	}
	titles := make([]string, len(limits))
	for i := range limits {
		titles[i] = limits[i].Title()
	}
	return strings.Join(titles, ", ")
}

// shelve keeps what was set for a site. Without anything to keep it in, it lasts as
// long as the process; what cannot be kept now is tried again.
func (s *Server) shelve(ctx context.Context, site string) error {
	if s.shelf == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patienceOfShelf)
	defer cancel()
	if err := s.desk.unkept.write(within, s.shelf); err != nil && s.desk.unkept.has(site) {
		s.rereads.ring()
		return fmt.Errorf("it holds in this process, and is not kept yet: %w", err)
	}
	return nil
}

// override sets the limits of a site in this process; nil are those of its rule. text
// is the same to be kept.
func (s *Server) override(site string, limits []policy.Limit, text []byte) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if limits != nil {
		st := s.state.Load()
		if _, err := s.planWith(st.policy, st.policy.RuleOf(site), limits, st.pools); err != nil {
			return fmt.Errorf("the limits of %s: %w", site, err)
		}
	}
	next := maps.Clone(s.Overrides())
	if next == nil {
		next = map[string][]policy.Limit{}
	}
	if limits == nil {
		delete(next, site)
	} else {
		next[site] = limits
	}
	if s.shelf != nil {
		s.desk.unkept.put(site, text)
	}
	return s.overrideAll(next)
}

// overrideAll has exactly these sites keep limits of their own. s.reloading is held.
func (s *Server) overrideAll(all map[string][]policy.Limit) (err error) {
	s.overrides.Store(&all)
	next := *s.state.Load()
	if next.own, err = s.overridden(&next); err != nil {
		return err
	}
	s.publish(&next)
	return nil
}

// overridden are the plans of the sites whose limits were set at run time. Limits that
// the configuration has no room for any more are not a reason to have none at all.
func (s *Server) overridden(st *state) (map[string]*plan, error) {
	own := map[string]*plan{}
	for site, limits := range s.Overrides() {
		p, err := s.planWith(st.policy, st.policy.RuleOf(site), limits, st.pools)
		if err != nil {
			s.log.Warnf("the limits that were set for %s at run time do not fit the configuration, whose own hold: %v", site, err)
			continue
		}
		own[site] = p
	}
	return own, nil
}

// publish makes a state the one that holds, and gives everything that waits its
// limits. s.reloading is held.
func (s *Server) publish(next *state) {
	next.made = s.gate.Generation() + 1
	began, old := time.Now(), s.state.Load()
	if old != nil {
		s.gate.Succeed(time.Time{}, func(site string) (_, _ []queue.Limit) { return succession(old, next, site) })
	}
	s.state.Store(next)
	s.gate.Reload(boundsOf(next.policy), s.replan)
	if old != nil {
		s.gate.Succeed(began, func(site string) (_, _ []queue.Limit) { return succession(old, next, site) })
	}
	s.purses.reload(next)
}

// readOverrides takes over what was set by others, or before a restart.
func (s *Server) readOverrides(ctx context.Context) error {
	for {
		set := s.desk.unkept.changes()
		all, err := s.keptOverrides(ctx)
		if err != nil {
			return err
		}
		if done, err := s.takeOverrides(set, all); done || err != nil {
			return err
		}
	}
}

// takeOverrides has the limits hold that were read, unless others were set meanwhile.
func (s *Server) takeOverrides(set uint64, all map[string][]policy.Limit) (done bool, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if set != s.desk.unkept.changes() {
		return false, nil
	}
	if maps.EqualFunc(all, s.Overrides(), sameLimits) {
		return true, nil
	}
	s.tellOverrides(all)
	return true, s.overrideAll(all)
}

// keptOverrides are the limits that were set at run time, as they are kept or are to be.
func (s *Server) keptOverrides(ctx context.Context) (map[string][]policy.Limit, error) {
	within, cancel := context.WithTimeout(ctx, patienceOfShelf)
	defer cancel()
	kept, err := s.shelf.All(within, kindOfLimits)
	if err != nil {
		return nil, err
	}
	s.desk.unkept.over(kept)
	all := map[string][]policy.Limit{}
	for site, text := range kept {
		limits, err := policy.ParseLimits(text)
		if err != nil {
			s.log.Warnf("the limits that were set for %s at run time are not understood, so those of the configuration hold: %v", site, err)
			continue
		}
		all[site] = limits
	}
	return all, nil
}

func (s *Server) tellOverrides(all map[string][]policy.Limit) {
	for site, limits := range all {
		if old, there := s.Overrides()[site]; !there || !sameLimits(old, limits) {
			s.log.Infof("the limits of %s are those that were set at run time: %s", site, titlesOf(limits))
		}
	}
}

func sameLimits(a, b []policy.Limit) bool {
	one, err := policy.FormatLimits(a)
	if err != nil {
		return false
	}
	other, err := policy.FormatLimits(b)
	return err == nil && string(one) == string(other)
}

// unkept are the limits of sites that were set and are not written down yet.
type unkept struct {
	turn chan struct{} // of who writes
	mu   sync.Mutex
	set  map[string][]byte // :: site → what is to be written; nil: nothing
	n    uint64            // how often something was set
}

func newUnkept() *unkept { return &unkept{turn: make(chan struct{}, 1), set: map[string][]byte{}} }

func (u *unkept) put(site string, text []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set[site] = text
	u.n++
}

func (u *unkept) has(site string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, is := u.set[site]
	return is
}

func (u *unkept) changes() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// over puts what is to be written in the place of what is.
func (u *unkept) over(kept map[string][]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for site, text := range u.set {
		if text == nil {
			delete(kept, site)
		} else {
			kept[site] = text
		}
	}
}

// write writes all down. What is set meanwhile is left to who has set it.
func (u *unkept) write(ctx context.Context, to store.Shelf) error {
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.turn }()
	u.mu.Lock()
	set, n := maps.Clone(u.set), u.n
	u.mu.Unlock()
	for site, text := range set {
		if err := to.Put(ctx, kindOfLimits, site, text, time.Time{}); err != nil {
			return err
		}
		u.mu.Lock()
		if u.n == n || string(u.set[site]) == string(text) && (u.set[site] == nil) == (text == nil) {
			delete(u.set, site)
		}
		u.mu.Unlock()
	}
	return nil
}
