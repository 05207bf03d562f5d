package queue

import (
	"slices"
	"time"
)

// findResources gives an account the resources of the newest limits of its request. If a
// limit makes no sense, the account keeps the resources that it has. The site's lock is held.
func (s *site) findResources(now time.Time, a *byteAccount) {
	a.generation, a.version = s.gate.latest.Load().number, s.version
	s.sweep(now)
	s.renew(&a.request)
	limits := a.request.Limits
	var list []Limit
	if len(limits) > 0 {
		list = limits[a.choice(len(limits))]
	}
	var resources []*resource
	for i := range list {
		if list[i].Of != Bytes {
			continue
		}
		res, err := s.resourceFor(now, &list[i], &a.request)
		if err != nil {
			return
		}
		if !slices.Contains(resources, res) {
			resources = append(resources, res)
		}
	}
	a.release(now) // what was taken of the old resources counts there
	a.resources = resources
	for _, res := range resources {
		res.users++
	}
}

// updateByteRequests gives the accounts of the byte requests that wait their resources anew,
// if the limits may have changed since these were found. The site's lock is held.
func (s *site) updateByteRequests(now time.Time) {
	for _, b := range s.sched.byteRequests {
		if a := b.source; a.generation != s.gate.latest.Load().number || a.version != s.version {
			s.findResources(now, a)
			s.sched.bytesChanged = true
		}
	}
}
