package metrics

import (
	"sync/atomic"
	"time"
)

// Site is where one site is counted. It is an upstream.Meter. It is safe for
// concurrent use, and stays so after the site made room for another one:
// whatever is counted then is counted as "other".
type Site struct {
	name string
	in   atomic.Uint64 // bytes from the site
	out  atomic.Uint64 // bytes to it

	requests requestCounts
	recent   recent // requests
	times    atomic.Pointer[times]
	places   *places
	quiet    quiet
	replays  wordCounts // by replayReasons
	refusals wordCounts // by refusalScopes
	unread   wordCounts // by unreadReasons

	// successor is nil until the site makes room. Whoever counts looks at it
	// after counting; whoever sets it moves everything after setting. So in
	// whatever order the two come, one of them moves what was counted.
	successor atomic.Pointer[Site]
	used      atomic.Uint64 // the age of sites when this one was last asked for
}

func newSite(name string, p *places) *Site { return &Site{name: name, places: p} }

// SiteCount is a site in numbers.
type SiteCount struct {
	Name              string
	Requests, In, Out uint64
	Unread            UnreadCount
}

// UnreadCount are the https connections that passed unread, by why.
type UnreadCount [len(words{}) + 1]uint64

// Each calls do for every reason that there was.
func (c UnreadCount) Each(do func(reason string, connections uint64)) {
	for i, n := range c {
		reason := other
		if i < len(unreadReasons) {
			reason = unreadReasons[i]
		}
		if n > 0 {
			do(reason, n)
		}
	}
}

// Read counts bytes that came from the site.
func (s *Site) Read(n int) {
	if n <= 0 {
		return
	}
	s.in.Add(uint64(n))
	if to := s.successor.Load(); to != nil {
		move(&s.in, &to.in)
	}
}

// Wrote counts bytes that went to it.
func (s *Site) Wrote(n int) {
	if n <= 0 {
		return
	}
	s.out.Add(uint64(n))
	if to := s.successor.Load(); to != nil {
		move(&s.out, &to.out)
	}
}

// Request counts an answered request, whoever answered it. took is how long
// the site took to answer; 0 is a request that it was not asked.
func (s *Site) Request(method string, code int, took time.Duration) {
	s.requests.at(method, code).Add(1)
	s.recent.add(time.Now())
	if to := s.successor.Load(); to != nil {
		s.requests.moveTo(&to.requests)
	}
	if took > 0 {
		t := s.timed()
		t.took.observe(took)
		s.places.settle(t)
	}
}

// Waited records how long a request was held before it could go, in all.
func (s *Site) Waited(d time.Duration) {
	t := s.timed()
	t.waited.observe(d)
	s.places.settle(t)
}

// Replayed counts a request that is sent once more: the site refused it
// ("refused") or was "unavailable", there was no "connection", or a "gateway"
// failed.
func (s *Site) Replayed(reason string) {
	s.replays.at(&replayReasons, reason).Add(1)
	if to := s.successor.Load(); to != nil {
		s.replays.moveTo(&to.replays)
	}
}

// RefusedBy counts an answer of the site that says "too much", by what it is
// about: the whole "site", or a "route" of it.
func (s *Site) RefusedBy(scope string) {
	s.refusals.at(&refusalScopes, scope).Add(1)
	if to := s.successor.Load(); to != nil {
		s.refusals.moveTo(&to.refusals)
	}
}

// Unread counts an https connection whose requests nobody read, by why: it is one of
// unreadReasons.
func (s *Site) Unread(why string) {
	s.unread.at(&unreadReasons, why).Add(1)
	if to := s.successor.Load(); to != nil {
		s.unread.moveTo(&to.unread)
	}
}

// makeRoom has everything that was and will be counted here counted there.
func (s *Site) makeRoom(to *Site) {
	s.successor.Store(to)
	move(&s.in, &to.in)
	move(&s.out, &to.out)
	s.requests.moveTo(&to.requests)
	s.giveUpTimes()
	s.replays.moveTo(&to.replays)
	s.refusals.moveTo(&to.refusals)
	s.unread.moveTo(&to.unread)
}

func (s *Site) count() SiteCount {
	c := SiteCount{Name: s.name, Requests: s.requests.sum(), In: s.in.Load(), Out: s.out.Load()}
	for i := range s.unread {
		c.Unread[i] = s.unread[i].Load()
	}
	return c
}
