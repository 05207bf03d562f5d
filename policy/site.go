package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

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
	return given(when(needRequests(s.Limits), limitsIn(s.Limits)), when(len(s.Backends) > 0, "backends"), when(s.Coalesce, "coalesce"),
		when(s.Robots, "robots"), when(s.Pool != "", "pool"), when(len(s.Headers) > 0, "headers"))
}

func needRequests(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.NeedsRequests() })
}

// limitsIn names the limits in a sentence: "limits other than of bytes" if one of them needs
// to see requests.
func limitsIn(limits []Limit) string {
	if slices.ContainsFunc(limits, func(l Limit) bool { return !l.NeedsRequests() }) {
		return "limits other than of bytes"
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
	return b.Origin() + when(b.Name != b.usualName(), " ("+b.Name+")") + when(b.Weight != 1, fmt.Sprintf(", weight %d", b.Weight))
}

// wordForm is that of a word that can stand in labels and keys.
var wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Header is a header of requests that a rule writes.
type Header struct {
	Name, Value string
	Set         bool // it takes the place of what the client sent; else it is for requests without it
}

// String describes the header.
func (h Header) String() string {
	return "header " + h.Name + ": " + h.Value + when(!h.Set, ", where the client sends none")
}

// forbiddenHeader returns why a rule or a pool may not write a header, "" if it may. Forbidden are
// headers about the transport of a message, which do not reach the site, and abide's own. Some
// servers take _ for -.
func forbiddenHeader(name string) string {
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch {
	case strings.HasPrefix(plain, "abide-"):
		return "but headers that begin with Abide- are between clients and abide, and no site gets them"
	case strings.HasPrefix(plain, "proxy-"):
		return "which is for proxies and does not reach the site; write Authorization"
	}
	switch plain {
	case "host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "http2-settings", "expect", "via":
		return "which is not a header for credentials"
	}
	return ""
}

// credentialHeader matches headers that have a secret. The values of a rule's headers are shown.
var credentialHeader = regexp.MustCompile(`(?i)authorization|cookie|token|secret|password|api[-_]?key`)

// ruleHeader returns the header of a rule, or why a rule may not write it.
func ruleHeader(name, value string) (Header, error) {
	const mostHeader = 4096
	h := Header{Name: textproto.CanonicalMIMEHeaderKey(name), Value: strings.TrimSpace(value)}
	switch {
	case !isHeaderName(name):
		return h, errors.New("is not the name of a header")
	case credentialHeader.MatchString(name):
		return h, errors.New(`is a credential, which headers show; write a pool with put: "` + h.Name + `: {token}"`)
	case forbiddenHeader(name) != "":
		return h, errors.New("is not for a rule to write: the connection or abide decides it")
	case strings.EqualFold(name, "Accept-Encoding"):
		return h, errors.New("is not for a rule to write: the client knows which encodings it reads")
	case h.Value == "":
		return h, errors.New("is empty")
	case strings.ContainsFunc(h.Value, unicode.IsControl):
		return h, errors.New("has a control character")
	case len(h.Value) > mostHeader:
		return h, fmt.Errorf("is longer than %d bytes", mostHeader)
	}
	return h, nil
}

// headersValue reads the headers that a rule sets, and those that it has by default.
func headersValue(d *Decoder, to *[]Header) Value {
	of := func(set bool) Value {
		return NewValue(func(n *yaml.Node, path string) {
			d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
				text, ok := d.Scalar(value, path, PlainText)
				if !ok {
					return
				}
				h, err := ruleHeader(name, text)
				h.Set = set
				switch {
				case err != nil:
					d.Fail(key, path, err)
				case slices.ContainsFunc(*to, func(other Header) bool { return other.Name == h.Name }):
					d.Failf(key, path, "is written twice")
				default:
					*to = append(*to, h)
				}
			})
			slices.SortFunc(*to, func(a, b Header) int { return cmp.Compare(a.Name, b.Name) })
		}, func() Node { return MapNode(HeaderPattern, FilledNode()) })
	}
	fields := []Field{
		Optional("set", "Headers in place of those that the client sends.", of(true)),
		Optional("default", "Headers of requests that the client sends without them.", of(false)),
	}
	return Object(d, fields).into(to)
}

// HeaderPattern matches the names of headers.
const HeaderPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

// isHeaderName tells whether s may be the name of a header.
var isHeaderName = regexp.MustCompile(HeaderPattern).MatchString
