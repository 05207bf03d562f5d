package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/abide-proxy/abide/status"
)

// Site has the counters of one site. It counts bytes for package upstream. It is safe for
// concurrent use, also after the site was replaced: then it counts as "other".
type Site struct {
	name      string
	of        *sites
	counts    tally[series]
	denials   tally[denial]
	times     atomic.Pointer[times]
	idleSum   atomic.Uint64 // sum of all counters when a scrape found the last change
	idleSince atomic.Int64  // time of that scrape in nanoseconds since 1970; 0: no scrape yet
	replaced  atomic.Bool
	labelled  atomic.Bool       // it has series of its own
	folded    map[series]uint64 // what it had counted when it got its label; sites.mu guards it
	used      atomic.Uint64     // sites.age at the last use
	again     atomic.Int64      // Unix second of the last use but the first; 0: there was one
}

// series names a counter of a site.
type series struct {
	group uint8
	word  uint8  // index in the words of the group
	code  uint16 // of requests; 0: not a valid one
}

// denial is an answer that says why waiting does not help. Its reason is a word of a dialect.
type denial struct {
	code   int
	reason string
}

// The groups of counters of a site.
const (
	requests = iota
	bytes
	replays
	refusals
	unread
)

// group is a metric of counters of sites, with a label of fixed words. The last word counts
// all others, because clients and sites choose some of them.
type group struct {
	desc  *prometheus.Desc
	words []string
	pairs []*dto.LabelPair // of the words
}

func newGroup(desc *prometheus.Desc, label string, words ...string) *group {
	g := &group{desc: desc, words: words}
	for _, word := range words {
		g.pairs = append(g.pairs, pairOf(label, word))
	}
	return g
}

// Labels are shared by many counters, so that a scrape of many sites formats few.
var (
	groups = [...]*group{
		requests: newGroup(requestsDesc, "method", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", other),
		bytes:    newGroup(bytesDesc, "direction", "in", "out"),
		replays:  newGroup(replaysDesc, "reason", "refused", "unavailable", "connection", "gateway", "verified", other),
		refusals: newGroup(refusalsDesc, "scope", "site", "route", "backend", other),
		unread:   newGroup(unreadDesc, "reason", "auto", "unlisted", "none", "excluded", "refused", "constrained", other),
	}
	codePairs = func() (all [600]*dto.LabelPair) {
		all[0] = pairOf("code", other)
		for code := 1; code < len(all); code++ {
			all[code] = pairOf("code", strconv.Itoa(code))
		}
		return all
	}()
)

func pairOf(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: new(name), Value: new(value)}
}

// at is the series of a word, which may be any.
func at(of uint8, word string) series {
	words := groups[of].words
	if i := slices.Index(words, word); i >= 0 {
		return series{group: of, word: uint8(i)}
	}
	return series{group: of, word: uint8(len(words) - 1)}
}

// labels are sorted by name.
func (c series) labels(site *dto.LabelPair) []*dto.LabelPair {
	word := groups[c.group].pairs[c.word]
	if c.group == requests {
		return []*dto.LabelPair{codePairs[c.code], word, site}
	}
	return []*dto.LabelPair{word, site}
}

// counterSnapshot is a prometheus.Metric: a counter at one time.
type counterSnapshot struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

func (c *counterSnapshot) Desc() *prometheus.Desc { return c.desc }

func (c *counterSnapshot) Write(to *dto.Metric) error {
	to.Label, to.Counter = c.labels, &dto.Counter{Value: &c.value}
	return nil
}

// count adds n. The check afterwards sees a replacement that did not see the new counter.
func (s *Site) count(c series, n uint64) {
	s.counts.at(c).Add(n)
	if s.replaced.Load() {
		s.moveOn()
	}
}

// moveOn moves all counts of a replaced site to "other".
func (s *Site) moveOn() {
	s.counts.moveTo(&s.of.other.counts)
	s.denials.moveTo(&s.of.other.denials)
}

// SiteCount is a snapshot of a site's counters.
type SiteCount struct {
	status.Counts
	Refusals uint64 // answers that refused a request because of a limit
	Own      uint64 // of Requests, those that abide refused itself
	Left     uint64 // of Requests, those that clients gave up
	Unread   UnreadCount
}

// failed lists the answers from status 400 on, by status and reason.
func (s *Site) failed() []status.CodeCount {
	sums := status.Failures{}
	for at, n := range s.denials.all() {
		sums.Add("", status.FailureOf(at.code, at.reason), int64(n.Load()))
		sums.Add("", status.FailureOf(at.code, ""), -int64(n.Load()))
	}
	for at, n := range s.counts.all() {
		if at.group == requests && at.code >= 400 {
			sums.Add("", status.FailureOf(int(at.code), ""), int64(n.Load()))
		}
	}
	return status.TimeOuts(slices.DeleteFunc(sums.Codes[""], func(c status.CodeCount) bool { return int64(c.Answers) <= 0 }))
}

// UnreadCount counts the https connections that were not intercepted, by reason; the last is
// "other".
type UnreadCount [7]uint64

// Each calls do for every reason with a count.
func (c UnreadCount) Each(do func(reason string, connections uint64)) {
	for i, n := range c {
		if n > 0 {
			do(groups[unread].words[i], n)
		}
	}
}

// Read counts bytes received from the site.
func (s *Site) Read(n int) {
	if n > 0 {
		s.count(series{group: bytes}, uint64(n))
	}
}

// Wrote counts bytes sent to the site.
func (s *Site) Wrote(n int) {
	if n > 0 {
		s.count(series{group: bytes, word: 1}, uint64(n))
	}
}

// Request counts an answered request, whoever answered it. took is the time of the site's
// answer; 0 if it was not asked.
func (s *Site) Request(method string, code int, took time.Duration) {
	c := at(requests, cmp.Or(method, "GET"))
	if code >= 100 && code < len(codePairs) {
		c.code = uint16(code)
	}
	s.count(c, 1)
	if took > 0 {
		observe(s.timesOf().took, took)
	}
}

// Denied tells of a request that is counted why waiting does not help: the reason that its answer says.
func (s *Site) Denied(code int, reason string) {
	if s.denials.at(denial{code, reason}).Add(1); s.replaced.Load() {
		s.moveOn()
	}
}

// Waited records how long a request was held in all.
func (s *Site) Waited(d time.Duration) {
	observe(s.timesOf().waited, d)
}

// Replayed counts a request that is sent again, by reason: the site refused it ("refused")
// or was "unavailable", the "connection" failed, or a "gateway" failed.
func (s *Site) Replayed(reason string) {
	s.count(at(replays, reason), 1)
}

// RefusedBy counts a refusal because of a limit, by scope: "site", "route" or "backend".
func (s *Site) RefusedBy(scope string) {
	s.count(at(refusals, scope), 1)
}

// Unread counts an https connection that was not intercepted, by reason: one of
// the words of its group.
func (s *Site) Unread(why string) {
	s.count(at(unread, why), 1)
}

func (s *Site) snapshot() SiteCount {
	c := SiteCount{Counts: status.Counts{Name: s.name}}
	for at, n := range s.denials.all() {
		if strings.HasPrefix(at.reason, status.ByAbide) {
			c.Own += n.Load()
		}
	}
	for at, n := range s.counts.all() {
		switch n := n.Load(); {
		case at.group == requests:
			if c.Requests += n; at.code == status.ClientLeft {
				c.Left += n
			}
		case at.group == refusals:
			c.Refusals += n
		case at.group == unread:
			c.Unread[at.word] = n
		case at == (series{group: bytes}):
			c.In = n
		case at.group == bytes:
			c.Out = n
		}
	}
	return c
}
