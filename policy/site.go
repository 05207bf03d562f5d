package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

const (
	DefaultPriority = 3
	LowestPriority  = 7
)

// mostWeight of a backend or a client is far more than differs in practice.
const mostWeight = 1000

// Site is a rule of sites: the hosts that it matches, and what holds there.
type Site struct {
	Name  string // empty unless configured
	Hosts []Pattern
	Group string // host | domain | rule: what shares one budget

	Pool     string
	Insecure bool           // the pool's tokens may go over plain http
	Limits   []Limit        // the pool's own stand behind the rule's
	Learn    bool           // limits are learned from what the site answers
	Dialect  *learn.Dialect // the operator's own, nil for none
	Headers  []Header       // of its requests, by name
	Stall    time.Duration  // the longest silence of a stream; 0: that of the time-outs, negative: any
	Priority int
	Robots   bool
	Coalesce bool
	Trace    bool // traceparent, tracestate and baggage go to the site

	Backends []Backend // the servers that answer instead of the host
	Balance  string    // adaptive | round-robin | least-loaded
	Sticky   bool      // a client stays with its backend while that one is healthy
	Outage   string    // share | strict | open; what to do while the store is away

	Line int // in the file

	outage bool // the rule says it
	learn  bool // the rule says learn: true
}

// needsRequests tells whether the rule can only be kept by seeing requests, so
// that intercept: auto opens https there.
func (s *Site) needsRequests() bool { return len(s.needs()) > 0 }

// needs are the keys of the rule that can only be kept by seeing requests.
func (s *Site) needs() []string {
	var keys []string
	for _, one := range []struct {
		key string
		set bool
	}{
		{limitsIn(s.Limits), needRequests(s.Limits)},
		{"backends", len(s.Backends) > 0},
		{"coalesce", s.Coalesce},
		{"robots", s.Robots},
		{"pool", s.Pool != ""},
		{"headers", len(s.Headers) > 0},
	} {
		if one.set {
			keys = append(keys, one.key)
		}
	}
	return keys
}

func needRequests(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.NeedsRequests() })
}

// limitsIn names the limits in a sentence: "limits other than of bytes" if one of them needs
// to see requests.
func limitsIn(limits []Limit) string {
	for _, l := range limits {
		if !l.NeedsRequests() {
			return "limits other than of bytes"
		}
	}
	return "limits"
}

// OutageOf returns the treatment of a limit of the rule while the shared store cannot be
// reached: share, strict or open. A token's limits are always strict: the account's owner
// would rather wait than be blocked. Limits of a day or longer are strict unless the rule
// has an outage of its own, since their excess cannot be made good soon. A nil rule stands
// for sites without a rule.
func (s *Site) OutageOf(l *Limit) string {
	switch {
	case l.By == "token", l.long() && (s == nil || !s.outage):
		return "strict"
	case s == nil:
		return "share"
	}
	return s.Outage
}

// StallOr returns the longest silence of a stream that the rule allows, 0 for any. usual is that
// without a rule, or by a rule that says nothing of it.
func (s *Site) StallOr(usual time.Duration) time.Duration {
	if s == nil || s.Stall == 0 {
		return usual
	}
	return max(s.Stall, 0)
}

// Title is the rule's name, or its first pattern.
func (s *Site) Title() string {
	if s.Name != "" || len(s.Hosts) == 0 {
		return s.Name
	}
	return s.Hosts[0].String()
}

// MaySign tells whether a token of the rule's pool may go to a target that the rule
// matches: to https on port 443, to any other port that the rule names, and to
// plain http (port 80) where the rule says insecure.
func (s *Site) MaySign(t Target) bool {
	switch {
	case s.Pool == "" || t.Scheme != "https" && (t.Scheme != "http" || !s.Insecure):
		return false
	case t.UsualPort():
		return true
	}
	return slices.ContainsFunc(s.Hosts, func(pattern Pattern) bool { return pattern.Port == t.Port && pattern.matches(t.Host, t.Port) })
}

// Backend is a server that answers instead of a rule's hosts.
type Backend struct {
	Target

	Name   string // what status, metrics and pages show
	Weight int    // its share of the requests beside the others, from 1
	// Limits hold there instead of the rule's, if Own; else each backend has the rule's
	// for itself.
	Limits []Limit
	Own    bool
}

// usualName is the name of a backend that has none of its own: its origin, of which
// https goes without saying.
func (b *Backend) usualName() string { return strings.TrimPrefix(b.Origin(), "https://") }

// String is the backend as it is described: https://a.example (snscrape), weight 2.
func (b *Backend) String() string {
	text := b.Origin()
	if b.Name != b.usualName() {
		text += " (" + b.Name + ")"
	}
	if b.Weight != 1 {
		text += fmt.Sprintf(", weight %d", b.Weight)
	}
	return text
}

// backendName is a word that can stand in labels and keys.
var backendName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
