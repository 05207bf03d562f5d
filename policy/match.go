package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/abide-proxy/abide/internal/lists"
)

// Match is the result of the rules for a target. Site is the name of the shared budget;
// Rule is nil if no rule matches. Learn tells whether limits are learned there.
type Match struct {
	Site  string
	Rule  *Site
	Learn bool
}

// Match finds the first rule that matches. It costs one map access per label of
// the host however many rules there are, and does not allocate unless the port
// is unusual.
func (r *Rules) Match(t Target) Match {
	i := r.index.find(t.Host, t.Port)
	if i == none {
		return Match{Site: hostSite(t), Learn: r.Defaults.Learn}
	}
	rule := &r.Sites[i]
	switch rule.Group {
	case "rule":
		return Match{Site: rule.Title(), Rule: rule, Learn: rule.Learn}
	case "domain":
		if strings.IndexByte(t.Host, ':') < 0 && !endsInNumber(t.Host) {
			if domain, err := publicsuffix.EffectiveTLDPlusOne(t.Host); err == nil {
				return Match{Site: domain, Rule: rule, Learn: rule.Learn}
			}
		}
		// An address, or a public suffix itself, has no domain above it.
	}
	return Match{Site: hostSite(t), Rule: rule, Learn: rule.Learn}
}

func hostSite(t Target) string {
	if t.Port == 80 || t.Port == 443 {
		return t.Host
	}
	return t.HostPort()
}

// Pool is the pool with a name, or nil.
func (r *Rules) Pool(name string) *Pool {
	return lists.Find(r.Pools, func(p *Pool) bool { return p.Name == name })
}

// RuleOf is the rule that a site's name comes from, nil if there is none.
func (r *Rules) RuleOf(site string) *Site {
	if rule := lists.Find(r.Sites, func(s *Site) bool { return s.Group == "rule" && s.Title() == site }); rule != nil {
		return rule
	}
	t, err := ParseTarget("https", site)
	if err != nil {
		return nil
	}
	return r.Match(t).Rule
}

// browserHosts lists the hosts that Chromium, Edge and Firefox ask by themselves, whatever page they show. A dot in
// front stands for all hosts below.
var browserHosts = []string{
	"accounts.google.com", "android.clients.google.com", "clients1.google.com", "clients2.google.com", "clients4.google.com",
	"clients2.googleusercontent.com", "clientservices.googleapis.com", "connectivitycheck.gstatic.com",
	"content-autofill.googleapis.com", "mtalk.google.com", "ohttp-relay-safebrowsing-chrome.google.fastly-edge.com",
	"optimizationguide-pa.googleapis.com", "passwordsleakcheck-pa.googleapis.com", "safebrowsing.googleapis.com",
	"safebrowsingohttpgateway.googleapis.com", "sb-ssl.google.com", "update.googleapis.com", ".gvt1.com",
	"config.edge.skype.com", "edge.microsoft.com",
	"aus5.mozilla.org", "detectportal.firefox.com", ".cdn.mozilla.net", ".services.mozilla.com", ".telemetry.mozilla.org",
}

// OfBrowser reports whether browsers ask a site by themselves, on any port, and no rule is about it.
func (r *Rules) OfBrowser(site string) bool {
	name, _, _ := strings.Cut(site, ":")
	return slices.ContainsFunc(browserHosts, func(host string) bool {
		return name == host || host[0] == '.' && strings.HasSuffix(name, host)
	}) && r.RuleOf(site) == nil
}

// DialectOf returns the dialect that the operator wrote for a site as JSON, "" for none.
func (r *Rules) DialectOf(site string) string {
	if rule := r.RuleOf(site); rule != nil && rule.Dialect != nil {
		text, _ := json.Marshal(rule.Dialect) // each of its fields has a form in JSON
		return string(text)
	}
	return ""
}

// SiteNames are the sites that rules name exactly, in the order of the rules, at most
// so many: a host without *, or a rule whose hosts are one site.
func (r *Rules) SiteNames(most int) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] && len(names) < most {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range r.Sites {
		s := &r.Sites[i]
		if s.Group == "rule" {
			add(s.Title())
			continue
		}
		for _, one := range s.Hosts {
			if one.All || one.Below {
				continue
			}
			add(r.Match(Target{Scheme: "https", Host: one.Host, Port: cmp.Or(one.Port, 443)}).Site)
		}
	}
	return names
}

// index finds the first rule that matches a host and port, in one map access per
// label.
type index struct {
	built bool             // the zero value, of a Policy that was not loaded, has no rules
	exact map[string]ports // canonical host → its rules
	below map[string]ports // what follows "*." → its rules
	all   ports
}

func newIndex(sites []Site) index {
	var x index
	for i := range sites {
		for _, p := range sites[i].Hosts {
			x.add(p, int32(i))
		}
	}
	return x
}

func (x *index) add(p Pattern, rule int32) {
	if !x.built {
		x.built, x.all.any = true, none
	}
	if p.All {
		x.all = x.all.add(p.Port, rule)
		return
	}
	m := &x.exact
	if p.Below {
		m = &x.below
	}
	if *m == nil {
		*m = map[string]ports{}
	}
	entry, ok := (*m)[p.Host]
	if !ok {
		entry.any = none
	}
	(*m)[p.Host] = entry.add(p.Port, rule)
}

func (x *index) find(host string, port uint16) int32 {
	if !x.built {
		return none
	}
	first := none
	if entry, ok := x.exact[host]; ok {
		first = entry.find(port)
	}
	if len(x.below) > 0 {
		for rest := host; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			rest = rest[dot+1:]
			if entry, ok := x.below[rest]; ok {
				first = min(first, entry.find(port))
			}
		}
	}
	return min(first, x.all.find(port))
}

// ports is the first rule for every port, and the rules for one port each.
type ports struct {
	any int32
	one map[uint16]int32 // port → its first rule
}

const none int32 = 1<<31 - 1

func (p ports) find(port uint16) int32 {
	if rule, ok := p.one[port]; ok {
		return min(p.any, rule)
	}
	return p.any
}

func (p ports) add(port uint16, rule int32) ports {
	if port == 0 {
		p.any = min(p.any, rule)
	} else if p.find(port) > rule {
		if p.one == nil {
			p.one = map[uint16]int32{}
		}
		p.one[port] = rule
	}
	return p
}

// covering finds, for a pattern, the first of the patterns in the index that matches
// everything it matches.
func (x *index) covering(p Pattern) (int, bool) {
	if !x.built {
		return 0, false
	}
	find := func(e ports) int32 {
		if p.Port == 0 {
			return e.any // patterns for single ports do not add up to all of them
		}
		return e.find(p.Port)
	}
	first := find(x.all)
	if !p.All && !p.Below {
		if entry, ok := x.exact[p.Host]; ok {
			first = min(first, find(entry))
		}
	}
	above := p.Host // the part after "*." of patterns that may cover p
	if !p.Below {
		_, above, _ = strings.Cut(above, ".")
	}
	for ; above != ""; _, above, _ = strings.Cut(above, ".") {
		if entry, ok := x.below[above]; ok {
			first = min(first, find(entry))
		}
	}
	return int(first), first != none
}

// Pattern selects the hosts of a rule:
//
//	example.com         this host, on every port
//	example.com:8443    this host on this port (":*" says every port outright)
//	*.example.com       every host below it, at any depth, but not example.com
//	*                   every host
//
// A * matches whole labels: *.example.com does not match evil-example.com.
// Names may be written in any script and case, addresses in any spelling.
type Pattern struct {
	Host string // canonical; what follows "*." when Below
	Port uint16 // 0 is every port
	// Below is *.Host, All is *. Both false is Host alone.
	Below, All bool
}

var errPatternStar = errors.New(`has a * that is not a whole pattern or the first label, as in "*.example.com"`)

// parsePattern reads one pattern.
func parsePattern(s string) (Pattern, error) {
	p, err := splitPattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("host %s %w", Quote(s), err)
	}
	return p, nil
}

func splitPattern(s string) (Pattern, error) {
	var p Pattern
	host := s
	switch {
	case strings.Contains(s, "://"):
		return p, errors.New("has a scheme; write the host alone")
	case strings.Contains(s, "/"):
		return p, errors.New("has a slash; a pattern names hosts, write paths in limits")
	}
	if addr, err := netip.ParseAddr(s); err != nil || addr.Is4() { // a bare IPv6 address has colons but no port
		if colon := strings.LastIndexByte(s, ':'); colon > strings.LastIndexByte(s, ']') {
			port := s[colon+1:]
			host = s[:colon]
			if strings.IndexByte(host, ':') >= 0 && host[0] != '[' {
				return p, errHostIPv6
			}
			if port != "*" {
				n, ok := parsePort(port)
				if !ok {
					return p, errPortBad
				}
				p.Port = n
			}
		}
	}
	if host == "*" {
		p.All = true
		return p, nil
	}
	rest, below := strings.CutPrefix(host, "*.")
	if strings.Contains(rest, "*") {
		return p, errPatternStar
	}
	name, err := CanonicalHost(rest)
	if err != nil {
		return p, err
	}
	if below && (strings.Contains(name, ":") || endsInNumber(name)) {
		return p, errors.New("has a * in front of an address")
	}
	p.Host, p.Below = name, below
	return p, nil
}

// matches tells whether the pattern covers a canonical host and a port.
func (p Pattern) matches(host string, port uint16) bool {
	if p.Port != 0 && p.Port != port {
		return false
	}
	switch {
	case p.All:
		return true
	case p.Below:
		n := len(host) - len(p.Host)
		return n > 1 && host[n-1] == '.' && host[n:] == p.Host
	}
	return host == p.Host
}

// String is the pattern as it would be written.
func (p Pattern) String() string {
	host := p.Host
	switch {
	case p.All:
		host = "*"
	case p.Below:
		host = "*." + host
	case p.Port == 0 && strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	if p.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p.Port)))
}

// hostNode describes the values that parsePattern reads, as far as a pattern of the schema tells. 127.1 and
// true are hosts, too.
func hostNode() Node {
	n := TextNode()
	n["pattern"] = `^[^/]+$`
	return n
}
