package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/status"
)

// Site has the counters of one site. It counts bytes for package upstream. It is safe for
// concurrent use, also after the site was replaced: then it counts as "other".
type Site struct {
	name string
	in   atomic.Uint64 // bytes from the site
	out  atomic.Uint64 // bytes to it

	requests requestCounts
	recent   recent // requests
	times    atomic.Pointer[times]
	slots    *histogramSlots
	idle     idleState
	replays  wordCounts // by replayReasons
	refusals wordCounts // by refusalScopes
	unread   wordCounts // by unreadReasons

	// nil until the site is replaced
	successor atomic.Pointer[Site]
	used      atomic.Uint64 // sites.age at the last use
}

func newSite(name string, p *histogramSlots) *Site { return &Site{name: name, slots: p} }

// SiteCount is a snapshot of a site's counters.
type SiteCount struct {
	Name              string
	Requests, In, Out uint64
	Refusals          uint64 // answers that refused a request because of a limit
	Unread            UnreadCount
}

// failed lists the answers from status 400 on, by status.
func (s *Site) failed() (list []status.CodeCount) {
	sums := map[int]uint64{}
	s.requests.each(func(_, hundred, rest int, n *atomic.Uint64) {
		if hundred >= 4 {
			sums[hundred*100+rest] += n.Load()
		}
	})
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, status.CodeCount{Code: code, Answers: sums[code]})
	}
	return list
}

// UnreadCount counts the https connections that were not intercepted, by reason.
type UnreadCount [len(words{}) + 1]uint64

// Each calls do for every reason with a count.
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

// Read counts bytes received from the site.
func (s *Site) Read(n int) {
	if n <= 0 {
		return
	}
	s.in.Add(uint64(n))
	if to := s.successor.Load(); to != nil {
		move(&s.in, &to.in)
	}
}

// Wrote counts bytes sent to the site.
func (s *Site) Wrote(n int) {
	if n <= 0 {
		return
	}
	s.out.Add(uint64(n))
	if to := s.successor.Load(); to != nil {
		move(&s.out, &to.out)
	}
}

// Request counts an answered request, whoever answered it. took is the time of the site's
// answer; 0 if it was not asked.
func (s *Site) Request(method string, code int, took time.Duration) {
	s.requests.at(method, code).Add(1)
	s.recent.add(time.Now())
	if to := s.successor.Load(); to != nil {
		s.requests.moveTo(&to.requests)
	}
	if took > 0 {
		observe(s.timesOf().took, took)
	}
}

// Waited records how long a request was held in all.
func (s *Site) Waited(d time.Duration) {
	observe(s.timesOf().waited, d)
}

// Replayed counts a request that is sent again, by reason: the site refused it ("refused")
// or was "unavailable", the "connection" failed, or a "gateway" failed.
func (s *Site) Replayed(reason string) {
	s.replays.at(&replayReasons, reason).Add(1)
	if to := s.successor.Load(); to != nil {
		s.replays.moveTo(&to.replays)
	}
}

// RefusedBy counts a refusal because of a limit, by scope: "site", "route" or "backend".
func (s *Site) RefusedBy(scope string) {
	s.refusals.at(&refusalScopes, scope).Add(1)
	if to := s.successor.Load(); to != nil {
		s.refusals.moveTo(&to.refusals)
	}
}

// Unread counts an https connection that was not intercepted, by reason: one of
// unreadReasons.
func (s *Site) Unread(why string) {
	s.unread.at(&unreadReasons, why).Add(1)
	if to := s.successor.Load(); to != nil {
		s.unread.moveTo(&to.unread)
	}
}

// moveTo moves all present and future counts to another site. The histograms of s end.
func (s *Site) moveTo(to *Site) {
	s.successor.Store(to)
	move(&s.in, &to.in)
	move(&s.out, &to.out)
	s.requests.moveTo(&to.requests)
	s.releaseTimes()
	s.replays.moveTo(&to.replays)
	s.refusals.moveTo(&to.refusals)
	s.unread.moveTo(&to.unread)
}

func (s *Site) count() SiteCount {
	c := SiteCount{Name: s.name, Requests: s.requests.sum(), In: s.in.Load(), Out: s.out.Load()}
	s.refusals.each(&refusalScopes, func(_ string, n uint64) { c.Refusals += n })
	for i := range s.unread {
		c.Unread[i] = s.unread[i].Load()
	}
	return c
}

// methods have labels of their own; all others are "other", because clients choose them.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", other}

func methodIndex(method string) int {
	if at := slices.Index(methods[:], cmp.Or(method, "GET")); at >= 0 {
		return at
	}
	return len(methods) - 1
}

// requestCounts are a site's counters by method and status. Few are ever used, so a block
// of a hundred is allocated at first use. The zero value is empty.
type requestCounts struct {
	blocks [len(methods)][6]atomic.Pointer[block]
}

// block is the counters of codes with the same first digit. Invalid codes are in the first
// block as 0.
type block [100]atomic.Uint64

func (r *requestCounts) at(method string, code int) *atomic.Uint64 {
	if code < 100 || code > 599 {
		code = 0
	}
	where := &r.blocks[methodIndex(method)][code/100]
	b := where.Load()
	if b == nil {
		b = new(block)
		if !where.CompareAndSwap(nil, b) {
			b = where.Load()
		}
	}
	return &b[code%100]
}

// each calls do for every used counter.
func (r *requestCounts) each(do func(method, hundred, rest int, n *atomic.Uint64)) {
	for m := range r.blocks {
		for h := range r.blocks[m] {
			b := r.blocks[m][h].Load()
			if b == nil {
				continue
			}
			for i := range b {
				if b[i].Load() > 0 {
					do(m, h, i, &b[i])
				}
			}
		}
	}
}

func (r *requestCounts) moveTo(to *requestCounts) {
	r.each(func(method, hundred, rest int, n *atomic.Uint64) {
		move(n, to.at(methods[method], hundred*100+rest))
	})
}

func (r *requestCounts) sum() uint64 {
	var sum uint64
	r.each(func(_, _, _ int, n *atomic.Uint64) { sum += n.Load() })
	return sum
}

// codeLabel is a status as a label.
func codeLabel(hundred, rest int) string {
	if hundred == 0 {
		return other
	}
	return strconv.Itoa(hundred*100 + rest)
}
