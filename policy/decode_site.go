package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/learn"
)

// readSites reads the rules, of which the first that matches counts, and so finds
// those that never would.
func readSites(d *Decoder, n *yaml.Node, path string) {
	var (
		covered index
		owner   []int // pattern number → rule
		listed  []Pattern
		names   = map[string]int{}
	)
	if IsScalar(n) {
		refuseRuleAlone(d, n, path, "takes a list of rules, not a single value")
		return
	}
	d.Sequence(n, path, func(i int, n *yaml.Node, path string) {
		if IsScalar(n) {
			refuseRuleAlone(d, n, path, "is a single value where a rule belongs")
			return
		}
		s := Site{Group: "host", Priority: DefaultPriority, Line: n.Line}
		host := func(n *yaml.Node, path string) {
			text, ok := d.Scalar(n, path, PlainText)
			if !ok {
				return
			}
			pattern, err := parsePattern(text)
			if err != nil {
				d.Fail(n, path, err)
				return
			}
			switch by := covered.first(pattern); {
			case by == none:
			case owner[by] == i && listed[by] == pattern:
				d.Failf(n, path, "%s is listed twice", pattern)
			case owner[by] != i:
				d.Failf(n, path, "%s never comes to this rule: %s in line %d comes first",
					pattern, listed[by], d.policy.Sites[owner[by]].Line)
			}
			covered.add(pattern, len(listed))
			listed, owner = append(listed, pattern), append(owner, i)
			s.Hosts = append(s.Hosts, pattern)
		}
		readSite(&siteReading{d: d, site: &s, host: host, names: names}, n, path)
		d.policy.Sites = append(d.policy.Sites, s)
	})
}

// refuseRuleAlone refuses a value where a rule belongs, and says what to write. Of the value it
// repeats a name of a host and nothing else.
func refuseRuleAlone(d *Decoder, n *yaml.Node, path, text string) {
	value, ok := d.Scalar(n, path, PlainText)
	if !ok {
		return
	}
	write := "{host: example.com}"
	if pattern, err := parsePattern(value); err == nil {
		write = fmt.Sprintf("{host: %q}", pattern)
	}
	d.Failf(n, path, "%s; write %s", text, write)
}

// siteReading is a rule that is being read.
type siteReading struct {
	d      *Decoder
	site   *Site
	host   Reader         // of one host
	names  map[string]int // of the rules before, with their lines
	limits *yaml.Node     // read last, since the pool says which make sense
	show   func(Limit) string
}

var groups = map[string]string{"host": "each host is a site", "rule": "all of them are one site", "domain": "each registrable domain is a site"}

// fields returns the keys of a rule, in the order in which they are described.
func (r *siteReading) fields() []Field {
	s := r.site
	return []Field{
		Required("host", "The hosts that the rule is about.", NewValue(r.hosts, func() Node { return hostsNode().suchAs("api.example.com", "*.example.com") }).into(&s.Hosts)).saying(someOf(texts(s.Hosts))),
		Optional("name", "What the site is called, with group: rule.", r.d.unlike(r.names, &s.Name, Parsed(r.d, &s.Name, parseSiteName, FilledNode))).saying(when(s.Name != "", "called "+s.Name)),
		Optional("group", "What is counted together: each host, each registrable domain, or all that the rule matches.", Word(r.d, &s.Group, "host", "domain", "rule")).saying(groups[s.Group]),
		Optional("pool", "The pool of the tokens of these requests.", r.d.noted("", r.d.reference(&s.Pool, &r.d.pooled))).saying(when(s.Pool != "", "pool "+s.Pool) + when(s.Insecure, ", over plain http too")),
		Optional("insecure", "Whether the tokens may go over plain http.", r.d.Truth(&s.Insecure)),
		Optional("learn", "Whether limits are learned from the site's answers.", r.d.noted("", r.d.Truth(&s.Learn).into(both{&s.Learn, &s.learn}))),
		Optional("backends", "Servers that answer instead of the host.", Listed(r.d, &s.Backends, isEmpty, func(b *Backend) Value { return backendValue(r.d, b) })).
			saying(when(len(s.Backends) > 0, "backends "+s.backendsText())).saying(r.ownLimits()...),
		Optional("limits", "What a request takes before it is sent, or waits for.", NewValue(func(n *yaml.Node, _ string) { r.limits = n }, limitsNode).into(&s.Limits)).
			saying(lists.Map(s.Limits, r.show)...).saying(s.bytesText()),
		Optional("dialect", "How the site speaks of its limits, where abide cannot read it by itself.", r.d.noted("", NewValue(func(n *yaml.Node, path string) { s.Dialect = readDialect(r.d, n, path) }, func() Node {
			n := ObjectNode(dialectFields(r.d, &learn.Dialect{}))
			n["minProperties"] = 1
			return n
		}).into(&s.Dialect))).saying(s.dialectText()),
		Optional("headers", "Headers of the requests: set in any case, or by default.", headersValue(r.d, &s.Headers)).saying(texts(s.Headers)...),
		Optional("stall", "The longest silence of an answer, a websocket or a tunnel, off for any.", Parsed(r.d, &s.Stall, parseSilence, func() Node { return EitherNode(WordNode("off"), DurationNode()) })).
			saying(when(s.Stall < 0, "a stream may be silent for as long as it likes"), when(s.Stall > 0, "a stream that is silent for "+formatDuration(s.Stall)+" is cut")),
		Optional("priority", "Of requests that ask for no other: 0, the most urgent, to 7; 3 is usual.", r.d.Number(&s.Priority, 0, LowestPriority)).
			saying(when(s.Priority != DefaultPriority, fmt.Sprint("priority ", s.Priority))),
		Optional("robots", "Whether the Crawl-delay of the site's robots.txt is kept.", r.d.Truth(&s.Robots)).saying(when(s.Robots, "keeps to the Crawl-delay of robots.txt")),
		Optional("coalesce", "Whether identical requests in flight share one answer.", r.d.Truth(&s.Coalesce)).saying(when(s.Coalesce, "identical requests in flight share one answer")),
		Optional("trace", "Whether the headers traceparent, tracestate and baggage of requests go to the site.", r.d.Truth(&s.Trace)).saying(when(s.Trace, "trace headers go to the site")),
		Optional("balance", "Which of the backends is next.", Word(r.d, &s.Balance, "adaptive", "round-robin", "least-loaded")),
		Optional("sticky", "Whether a client stays at its backend while the backend works.", r.d.Truth(&s.Sticky)),
		Optional("outage", "What holds while a shared store is away: a share of the limits, what was leased and no more, or all of the limits.", Word(r.d, &s.Outage, "share", "strict", "open").into(both{&s.Outage, &s.outage})),
	}
}

// ownLimits describes the limits of the backends' own.
func (r *siteReading) ownLimits() (all []string) {
	for i := range r.site.Backends {
		b := &r.site.Backends[i]
		all = append(all, lists.Map(b.Limits, func(l Limit) string { return "at " + b.Name + ": " + r.show(l) })...)
	}
	return all
}

func (r *siteReading) hosts(n *yaml.Node, path string) {
	if IsEmptyList(n) {
		r.d.Failf(n, path, "is empty")
	}
	r.d.List(n, path, func(_ int, n *yaml.Node, path string) { r.host(n, path) })
}

// parseSiteName reads a name that is none of those of the limits of clients.
func parseSiteName(s string) (string, error) {
	name, err := parseLabel(s)
	if strings.HasPrefix(s, ClientSite) {
		err = fmt.Errorf("begins with %q, as the limits of clients are called; choose another name", ClientSite)
	}
	return name, err
}

func readSite(r *siteReading, n *yaml.Node, path string) {
	d, s := r.d, r.site
	set := d.Mapping(n, path, r.fields()...)
	s.learn = s.Learn
	if r.limits != nil {
		of := ofRule
		if set["pool"] != nil {
			of = ofPooled
		}
		s.Limits = readLimits(d, r.limits, join(path, "limits"), of)
	}
	if set["insecure"] != nil && set["pool"] == nil {
		d.Failf(set["insecure"], join(path, "insecure"), "is about the tokens of a pool, and there is none")
	}
	for _, key := range []string{"balance", "sticky"} {
		if set[key] != nil && set["backends"] == nil {
			d.Failf(set[key], join(path, key), "is about backends, and there are none")
		}
	}
	if set["backends"] != nil && s.Balance == "" {
		s.Balance = "adaptive"
	}
	if len(s.Backends) > 0 {
		checkBackends(d, s, set["backends"], join(path, "backends"))
	}
	if s.outage = set["outage"] != nil; !s.outage {
		s.Outage = "share"
	}
	if s.Dialect != nil {
		s.Dialect.Name = s.Title()
	}
	if pool := set["pool"]; pool != nil {
		checkPooledSite(d, pool, join(path, "pool"), s)
	}
}

// parseSilence reads a duration, or off, which is negative.
func parseSilence(s string) (time.Duration, error) {
	if s == "off" {
		return -1, nil
	}
	return parseStall(s)
}

// checkPooledSite refuses rules that would send secrets to hosts that are not named.
func checkPooledSite(d *Decoder, n *yaml.Node, path string, s *Site) {
	if len(s.Backends) > 0 {
		d.Failf(n, path, "goes with no backends: tokens are for the hosts that the rule names, and backends are other ones; leave the pool out, and let the client send the backends' key, or name the backends' hosts in place of this one")
	}
	for _, one := range s.Hosts {
		if one.All {
			d.Failf(n, path, "would send its secrets to every host; name the hosts")
			return
		}
		if suffix, managed := publicsuffix.PublicSuffix(one.Host); one.Below && managed && suffix == one.Host { // below which domains are registered
			d.Failf(n, path, "would send its secrets to everybody's hosts below %s; name the domain", one.Host)
			return
		}
	}
}

// backendValue reads an origin, or keys of which url is an origin.
func backendValue(d *Decoder, b *Backend) Value {
	b.Weight = 1
	origin := Parsed(d, &b.Target, parseOrigin, func() Node {
		return PatternNode("^" + anyCase("http") + `[sS]?://[^/?#@]+/?$`).suchAs("https://a.example")
	})
	return Either(d, origin, func(_ *yaml.Node, _ string, set map[string]*yaml.Node) {
		b.Name, b.Own = cmp.Or(b.Name, b.usualName()), set["limits"] != nil
	},
		Required("url", "The origin of the server.", origin),
		Optional("name", "What the backend is called.", d.Matching(&b.Name, wordForm, "is not a name for a backend: letters, digits and . _ - do")),
		Optional("weight", "Its share beside other backends.", d.Number(&b.Weight, 1, mostWeight)),
		Optional("limits", "Limits of its own, in place of those of the rule.", limitsValue(d, &b.Limits, ofRule)),
	)
}

// checkBackends refuses backends that are listed twice, and those that the rule is about: what goes
// there would come to the rule again.
func checkBackends(d *Decoder, s *Site, n *yaml.Node, path string) {
	origins, names, hosts := map[Target]bool{}, map[string]bool{}, indexOf(s.Hosts)
	d.List(n, path, func(i int, n *yaml.Node, path string) {
		b := &s.Backends[i]
		by := hosts.first(Pattern{Host: b.Host, Port: b.Port})
		switch {
		case b.Target == (Target{}): // is refused already
		case origins[b.Target]:
			d.Failf(n, path, "%s is listed twice", b.Origin())
		case names[b.Name]:
			d.Failf(n, path, "%s is the name of a backend already", Quote(b.Name))
		case by != none:
			d.Failf(n, path, "%s is one of the hosts of this rule (%s), so its requests would come back to the rule", b.Origin(), s.Hosts[by])
		}
		origins[b.Target], names[b.Name] = true, true
	})
}
