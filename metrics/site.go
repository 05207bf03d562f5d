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
	took     histogram

	// successor is nil until the site makes room. Whoever counts looks at it
	// after counting; whoever sets it moves everything after setting. So in
	// whatever order the two come, one of them moves what was counted.
	successor atomic.Pointer[Site]
	used      atomic.Uint64 // the age of sites when this one was last asked for
}

// SiteCount is a site in numbers.
type SiteCount struct {
	Name              string
	Requests, In, Out uint64
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
	if took > 0 {
		s.took.observe(took)
	}
	if to := s.successor.Load(); to != nil {
		s.requests.moveTo(&to.requests)
		s.took.moveTo(&to.took)
	}
}

// makeRoom has everything that was and will be counted here counted there.
func (s *Site) makeRoom(to *Site) {
	s.successor.Store(to)
	move(&s.in, &to.in)
	move(&s.out, &to.out)
	s.requests.moveTo(&to.requests)
	s.took.moveTo(&to.took)
}

func (s *Site) count() SiteCount {
	return SiteCount{Name: s.name, Requests: s.requests.sum(), In: s.in.Load(), Out: s.out.Load()}
}
