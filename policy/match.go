package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// Match finds the first rule that matches. It costs a map access per label of
// the host, two where a rule is of a single port, however many rules there are, and does not allocate unless the port
// is unusual.
func (r *Rules) Match(t Target) Match {
	m := Match{Rule: r.rule(t.Host, t.Port), Learn: r.Defaults.Learn}
	if m.Rule != nil {
		m.Learn = m.Rule.Learn
		switch m.Rule.Group {
		case "rule":
			m.Site = m.Rule.Title()
			return m
		case "domain":
			if strings.IndexByte(t.Host, ':') < 0 && !endsInNumber(t.Host) {
				m.Site, _ = publicsuffix.EffectiveTLDPlusOne(t.Host)
			}
			// An address, or a public suffix itself, has no domain above it.
		}
	}
	switch {
	case m.Site != "":
	case t.Port == 80 || t.Port == 443:
		m.Site = t.Host
	default:
		m.Site = t.HostPort()
	}
	return m
}

// rule is the first rule that matches, nil if none does.
func (r *Rules) rule(host string, port uint16) *Site {
	if i := r.index.first(Pattern{Host: host, Port: port}); i != none {
		return &r.Sites[i]
	}
	return nil
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

// index has the number of each pattern: of its first rule, or its place in a list.
type index struct {
	numbers map[Pattern]int
	ported  bool // there are patterns of single ports
}

// none is the number of what is not there.
const none = math.MaxInt

func indexOfRules(sites []Site) (x index) {
	for i := range sites {
		for _, p := range sites[i].Hosts {
			x.add(p, i)
		}
	}
	return x
}

func indexOf(patterns []Pattern) (x index) {
	for i, p := range patterns {
		x.add(p, i)
	}
	return x
}

func (x *index) add(p Pattern, number int) {
	if x.numbers == nil {
		x.numbers = map[Pattern]int{}
	}
	if _, earlier := x.numbers[p]; !earlier {
		x.numbers[p] = number
	}
	x.ported = x.ported || p.Port != 0
}

// first returns the least number of a pattern that matches all that p matches. Patterns of single
// ports do not add up to one of every port.
func (x *index) first(p Pattern) int {
	least, ports := none, []uint16{0, p.Port}
	if !x.ported {
		ports = ports[:1]
	}
	for more := true; more; p, more = p.wider() {
		for _, port := range ports {
			if number, ok := x.numbers[Pattern{p.Host, port, p.Below, p.All}]; ok {
				least = min(least, number)
			}
		}
	}
	return least
}

// wider returns the pattern of the hosts below the next dot of p, or else that of every host.
func (p Pattern) wider() (wider Pattern, ok bool) {
	_, above, dot := strings.Cut(p.Host, ".")
	return Pattern{Host: above, Port: p.Port, Below: dot, All: !dot}, !p.All
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
	switch {
	case strings.Contains(s, "://"):
		return p, errors.New("has a scheme; write the host alone")
	case strings.Contains(s, "/"):
		return p, errors.New("has a slash; a pattern names hosts, write paths in limits")
	}
	whole, every := strings.CutSuffix(s, ":*")
	host, port, err := splitHostPort(whole, 0)
	switch _, bad := netip.ParseAddr(s); {
	case bad == nil, errors.Is(err, errPortMissing) && !strings.HasSuffix(whole, ":"): // a bare IPv6 address has colons but no port
		host = whole
	case err != nil:
		return p, err
	case every:
		return p, errPortBad
	}
	p.Port = port
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
func hostNode() Node { return textNode(`^[^/]+$`) }
