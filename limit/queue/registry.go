package queue

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// mostResources is the largest number of clients and routes of a site with their own meters, where
	// requests do not have as many alternatives.
	mostResources = 10_000
	// resourcesEach is the largest number of resources for each alternative of a request.
	resourcesEach = 4
	// sweepPause is the least time between two searches of a site for resources to forget, longer where requests have
	// many alternatives: the next request that could go with any of many tokens brings back all that were forgotten.
	sweepPause = time.Second
	// overflowKey is the key of all that come after.
	overflowKey = "other"
)

// registry finds and makes the resources that the limits of a request take from. The lock of
// its site guards it.
type registry struct {
	name              string // of the site
	sched             *scheduler
	whole             *resource // the whole site, for its cooldowns
	byScope           map[Scope]*limitResource
	unlimited         [][]need // what a request needs that has no limits
	found             map[foundKey]found
	foundAlternatives int       // of all that is in found
	alternatives      int       // the largest number of alternatives of a request
	sweptTo           int       // number of resources after the last sweep
	numShared         int       // about how many of them are shared
	nextSweep         time.Time // when the next sweep may be
}

// limitResource is a limit's resource and what it was made from.
type limitResource struct {
	resource  *resource
	at        Scope // by which it is found
	spec      *limit.Spec
	subject   *Subject  // of the limit that it was made for last; nil: of none
	until     time.Time // when that was in force last, if it is not any more
	made      bool      // by MeterSource.NewMeter
	onlyCools bool      // only cools, and nobody has needed it yet
	shared    bool      // by all keys of the limit that have none of their own
}

// resourceFor is the resource of a limit for a request; it is made or changed if need be.
func (s *registry) resourceFor(now time.Time, l *Limit, r *Request) (*resource, error) {
	at := l.scope(r)
	e := s.entry(at)
	if e != nil && !e.outdated(l) {
		e.spec = l.Spec // is found to be the same at once the next time
		if e.made && e.resource.title != l.title() {
			s.rename(e, l) // more is known of it now
		}
		return e.resource, nil
	}
	m, fresh, err := l.meter()
	if err != nil {
		return nil, err
	}
	if e == nil {
		e = s.newEntry(l, at)
	}
	s.update(now, e, l, m, fresh)
	return e.resource, nil
}

// outdated tells whether the resource has another meter than a limit with its name says.
func (e *limitResource) outdated(l *Limit) bool {
	return e.onlyCools || e.made != l.made() || e.spec != l.Spec && (e.spec == nil || l.Spec == nil || *e.spec != *l.Spec)
}

// update gives the resource of a limit the meter that was made for the limit, with what was taken from the one before.
func (s *registry) update(now time.Time, e *limitResource, l *Limit, m limit.Meter, fresh func() limit.Meter) {
	used, both := !e.onlyCools, e.spec != nil && l.Spec != nil
	if changing, can := e.resource.meter.(Changing); used && can && e.resource.external && l.Source != nil && l.Spec != nil && changing.Change(now, *l.Spec, m) {
		e.resource.fresh, e.resource.pace = fresh, pace{}
		e.resource.markDirty()
	} else {
		if used && both {
			m, _ = limit.Move(now, e.resource.meter, *l.Spec) // the spec has made m
		}
		if used && (!both || e.resource.external) { // the meter before has what is in flight
			e.resource.changed = now
		}
		m, external := l.externalMeter(s.name, e.at, m)
		e.resource.setMeter(now, m, fresh, external)
		e.resource.resume(now, l.made())
	}
	if used {
		s.forgetFound() // others may know it by the limits from before
	}
	e.onlyCools, e.spec, e.subject, e.made = false, l.Spec, l.Subject, l.made()
	s.rename(e, l)
}

// newEntry makes the resource of a limit, which only cools, and keeps it where entry will find it.
func (s *registry) newEntry(l *Limit, at Scope) *limitResource {
	full := at.Key != "" && len(s.byScope) >= s.mostResources()
	if full {
		at.Key = overflowKey
		s.numShared++
	}
	if e := s.byScope[at]; e != nil { // the key is somebody's
		e.shared = true
		return e
	}
	if s.byScope == nil {
		s.byScope = map[Scope]*limitResource{}
	}
	e := &limitResource{resource: s.sched.newResource("", nil, nil), at: at, onlyCools: true, shared: full}
	s.byScope[at] = e
	s.rename(e, l)
	return e
}

// rename gives the resource of a limit the limit's name.
func (s *registry) rename(e *limitResource, l *Limit) {
	e.resource.setName(l.label(e.at.Key), l.title())
}

// externalMeter is the meter that a limit's resource has in place of the one that was made for it,
// and whether Gate.UpdateExternal may change it.
func (l *Limit) externalMeter(site string, at Scope, m limit.Meter) (limit.Meter, bool) {
	if l.Source == nil {
		return m, false
	}
	var spec limit.Spec
	if l.Spec != nil {
		spec = *l.Spec
	}
	if meter := l.Source.External(site, at, spec, m); meter != nil {
		return meter, l.Spec != nil
	}
	return m, false
}

// entry is the resource of a scope, or nil. When a site has as many as it may,
// all that are new share one resource of their limit, for as long as it remembers
// anything: so each gets less than the limit allows, and never more.
func (s *registry) entry(at Scope) *limitResource {
	if e := s.byScope[at]; e != nil {
		return e
	}
	if e := s.byScope[Scope{at.Limit, overflowKey}]; e != nil && e.shared && at.Key != "" {
		return e
	}
	return nil
}

// mostResources returns the largest number of resources of the site: its tokens are the operator's.
func (s *registry) mostResources() int { return max(mostResources, resourcesEach*s.alternatives) }

// sweep forgets resources that are not in use any more, when there are twice as many as the last time, as many as
// there may be, or shared ones. A resource that was looked up must be taken from before the next sweep: plan begins with it.
func (s *registry) sweep(now time.Time) {
	if s.numShared == 0 && len(s.byScope) < min(max(16, 2*s.sweptTo), s.mostResources()) || now.Before(s.nextSweep) {
		return
	}
	s.nextSweep = now.Add(time.Duration(1+s.alternatives/100) * sweepPause)
	s.numShared = 0
	for at, e := range s.byScope {
		if s.sched.forget(now, e.resource) {
			delete(s.byScope, at)
			s.forgetFound()
		} else if e.shared {
			s.numShared++
		}
	}
	s.sweptTo = len(s.byScope)
}

// resourceAt is the resource of a scope, which is made if it does not exist; nil if the site
// has mostResources already.
func (s *registry) resourceAt(at Scope) *resource {
	if at == (Scope{}) {
		return s.whole
	}
	if !isBoundKey(at.Key) {
		at.Key = boundKey(at.Key)
	}
	if e := s.entry(at); e != nil {
		return e.resource
	}
	if len(s.byScope) >= s.mostResources() {
		return nil
	}
	return s.newEntry(&Limit{Name: at.Limit}, at).resource
}

// find is the resource of a scope, and the resource that all keys of its limit without an own
// resource share. Each is nil if it does not exist.
func (s *registry) find(at Scope) (ours, shared *resource) {
	if at == (Scope{}) {
		return s.whole, nil
	}
	switch e := s.entry(Scope{at.Limit, boundKey(at.Key)}); {
	case e == nil:
		return nil, nil
	case e.shared:
		return nil, e.resource
	default:
		return e.resource, nil
	}
}

// resourceOf is the resource of a scope that a permit needs. If the permit does not need the
// scope any more, because its limits have changed, a cooldown of the scope would block no
// request: then it is the resource of the whole site, unless the permit still has other keys
// of that limit, such as other tokens of a pool.
func (s *registry) resourceOf(r *Request, needs [][]need, at Scope) *resource {
	ours, shared := s.find(at)
	for _, alternative := range needs {
		for _, n := range alternative {
			if n.resource == ours || n.resource == shared {
				return n.resource
			}
		}
	}
	if res := cmp.Or(ours, shared); res != nil && at.Key != "" {
		for _, alternative := range r.Limits {
			for i := range alternative {
				if alternative[i].Name == at.Limit {
					return res
				}
			}
		}
	}
	return s.whole
}
