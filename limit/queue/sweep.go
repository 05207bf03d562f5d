package queue

import (
	"time"
)

const (
	// mostResources is how many clients and routes of a site have their own meters, where
	// requests do not have as many alternatives.
	mostResources = 10_000
	// resourcesEach is how many resources there may be for each alternative of a request.
	resourcesEach = 4
	// sweepPause is how often a site that has so many looks for some to forget, and how
	// often any site does for those that are nobody's own. The next request that could
	// go with any of many tokens brings back all that were forgotten.
	sweepPause = time.Second
	// overflowKey is the key of all that come after.
	overflowKey = "other"
)

// mostResources is how many resources the site may have: its tokens are the operator's.
func (s *registry) mostResources() int { return max(mostResources, resourcesEach*s.alternatives) }

// entry is the resource of a scope, or nil. When a site has as many as it may,
// all that are new share one resource of their limit, for as long as it remembers
// anything: so each gets less than the limit allows, and never more.
func (s *registry) entry(at Scope) *limitResource {
	if e := s.byScope[at]; e != nil {
		return e
	}
	if at.Key != "" {
		return s.overflow[at.Limit]
	}
	return nil
}

// remember keeps a limit's new resource where entry will find it, and answers its scope.
func (s *registry) remember(l *Limit, at Scope, e *limitResource) Scope {
	if at.Key != "" && len(s.byScope) >= s.mostResources() {
		e.resource.setName(l.label(overflowKey), l.title())
		if s.overflow == nil {
			s.overflow = map[string]*limitResource{}
		}
		s.overflow[l.Name] = e
		return Scope{l.Name, overflowKey}
	}
	if s.byScope == nil {
		s.byScope = map[Scope]*limitResource{}
	}
	s.byScope[at] = e
	return at
}

// sweep forgets resources of clients and routes that are not seen any more, when there are
// twice as many as the last time, or as many as there may be. A resource that was looked
// up must be taken from before the next sweep: plan begins with it.
func (s *registry) sweep(now time.Time) {
	// One for each limit, and a server may have named thousands.
	if len(s.overflow) > 0 && (len(s.overflow) <= 16 || !now.Before(s.nextOverflowSweep)) {
		s.nextOverflowSweep = now.Add(sweepPause)
		for name, e := range s.overflow {
			if s.sched.forget(now, e.resource) {
				delete(s.overflow, name)
				s.forgetPatterns()
			}
		}
	}
	if len(s.byScope) < min(max(16, 2*s.sweptTo), s.mostResources()) || now.Before(s.nextSweep) {
		return
	}
	lasting := !now.Before(s.nextSharedSweep)
	if lasting {
		s.nextSharedSweep = now.Add(time.Duration(1+s.alternatives/100) * sweepPause)
	}
	for at, e := range s.byScope {
		if (e.perKey || lasting) && s.sched.forget(now, e.resource) {
			delete(s.byScope, at)
			s.forgetPatterns()
		}
	}
	s.sweptTo = len(s.byScope)
	if s.sweptTo > mostResources/2 {
		s.nextSweep = now.Add(sweepPause)
	}
}
