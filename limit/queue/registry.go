package queue

import (
	"cmp"
	"time"
)

// registry finds and makes the resources that the limits of a request take from. The lock of
// its site guards it.
type registry struct {
	name              string // of the site
	sched             *scheduler
	whole             *resource // the whole site, for its cooldowns
	byScope           map[Scope]*limitResource
	overflow          map[string]*limitResource // :: limit's name → resource of the keys that have none of their own
	unlimited         [][]need                  // what a request needs that has no limits
	patterns          map[*[]Limit]*pattern
	choices           *choices  // of the needs that plan has returned last; nil: no other request has these needs
	alternatives      int       // the largest number of alternatives of a request
	sweptTo           int       // number of resources after the last sweep
	nextSweep         time.Time // when the next sweep may be
	nextSharedSweep   time.Time // when the next sweep of resources without a key may be
	nextOverflowSweep time.Time // when the next sweep of overflow may be
}

func newRegistry(name string, sched *scheduler) registry {
	all := sched.newResource(name, nil, nil)
	all.title = cooldownLimit
	return registry{name: name, sched: sched, whole: all, unlimited: [][]need{{{resource: all}}}}
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
	l := Limit{Name: at.Limit}
	e := &limitResource{resource: s.sched.newResource(l.label(at.Key), nil, nil), perKey: true, onlyCools: true}
	e.resource.title = at.Limit
	s.remember(&l, at, e)
	return e.resource
}

// scopeOf is the scope by which others find a resource that was looked up for a scope.
func (s *registry) scopeOf(res *resource, at Scope) Scope {
	if res == s.whole {
		return Scope{}
	}
	return Scope{at.Limit, boundKey(at.Key)}
}

// find is the resource of a scope, and the resource that all keys of its limit without an own
// resource share. Each is nil if it does not exist.
func (s *registry) find(at Scope) (ours, shared *resource) {
	if at == (Scope{}) {
		return s.whole, nil
	}
	if e := s.byScope[Scope{at.Limit, boundKey(at.Key)}]; e != nil {
		ours = e.resource
	}
	if e := s.overflow[at.Limit]; e != nil && at.Key != "" {
		shared = e.resource
	}
	return ours, shared
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
