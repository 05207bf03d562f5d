package policy

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit/learn"
)

// readSites reads the rules, of which the first that matches counts, and so finds
// those that never would.
func readSites(d *decoder, n *yaml.Node, path string) {
	var (
		covered cover
		owner   []int // pattern number → rule
		listed  []Pattern
		names   = map[string]int{}
	)
	if isScalar(n) {
		refuseRuleAlone(d, n, path, "takes a list of rules, not a single value")
		return
	}
	d.sequence(n, path, func(i int, n *yaml.Node, path string) {
		if isScalar(n) {
			refuseRuleAlone(d, n, path, "is a single value where a rule belongs")
			return
		}
		s := Site{Group: "host", Priority: defaultPriority, Line: n.Line}
		host := func(n *yaml.Node, path string) {
			text, ok := d.scalar(n, path, plainText)
			if !ok {
				return
			}
			pattern, err := parsePattern(text)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			by, ok := covered.by(pattern)
			switch {
			case ok && owner[by] == i && listed[by] == pattern:
				d.failf(n, path, "%s is listed twice", pattern)
			case ok && owner[by] != i:
				d.failf(n, path, "%s never comes to this rule: %s in line %d comes first",
					pattern, listed[by], d.policy.Sites[owner[by]].Line)
			}
			covered.add(pattern, len(listed))
			listed, owner = append(listed, pattern), append(owner, i)
			s.Hosts = append(s.Hosts, pattern)
		}
		readSite(&siteReading{decoder: d, site: &s, host: host, names: names}, n, path)
		d.policy.Sites = append(d.policy.Sites, s)
	})
}

// sitesNode is the schema of sites.
func sitesNode(d *decoder) node {
	return sequenceNode(objectNode((&siteReading{decoder: d, site: &Site{}}).fields()), 0)
}

// refuseRuleAlone refuses a value where a rule belongs, and says what to write. Of the value it
// repeats a name of a host and nothing else.
func refuseRuleAlone(d *decoder, n *yaml.Node, path, text string) {
	value, ok := d.scalar(n, path, plainText)
	if !ok {
		return
	}
	write := "{host: example.com}"
	if pattern, err := parsePattern(value); err == nil {
		write = fmt.Sprintf("{host: %s}", hostText(pattern.String()))
	}
	d.failf(n, path, "%s; write %s", text, write)
}

// hostText is a pattern as YAML has it inside of braces.
func hostText(pattern string) string {
	if strings.ContainsAny(pattern, "*:[]") {
		return strconv.Quote(pattern)
	}
	return pattern
}

// siteReading is a rule that is being read.
type siteReading struct {
	*decoder
	site   *Site
	host   reader         // of one host
	names  map[string]int // of the rules before, with their lines
	limits *yaml.Node     // read last, since the pool says which make sense
	origin []place        // of the backends
}

// fields are the keys of a rule.
func (r *siteReading) fields() []field {
	s := r.site
	return []field{
		required("host", "The hosts that the rule is about.", value{r.hosts, func() node {
			return eitherNode(hostNode(), sequenceNode(hostNode(), 1)).suchAs("api.example.com", "*.example.com")
		}}),
		optional("name", "What the site is called, with group: rule.", value{r.name, filledNode}),
		optional("group", "What is counted together: each host, each registrable domain, or all that the rule matches.", r.word(&s.Group, "host", "domain", "rule")),
		optional("pool", "The pool of the tokens of these requests.", value{r.pool, filledNode}),
		optional("insecure", "Whether the tokens may go over plain http.", r.truth(&s.Insecure)),
		optional("learn", "Whether limits are learned from the site's answers.", value{r.learn, switchNode}),
		optional("dialect", "How the site speaks of its limits, where abide cannot read it by itself.", value{r.dialect, func() node {
			n := objectNode((&dialecting{decoder: r.decoder}).fields(&learn.Dialect{}))
			n["minProperties"] = 1
			return n
		}}),
		optional("limits", "What a request takes before it is sent, or waits for.", value{func(n *yaml.Node, _ string) { r.limits = n }, limitsNode}),
		optional("priority", "Of requests that ask for no other: 0, the most urgent, to 7; 3 is usual.", r.number(&s.Priority, 0, lowestPriority)),
		optional("robots", "Whether the Crawl-delay of the site's robots.txt is kept.", r.truth(&s.Robots)),
		optional("coalesce", "Whether identical requests in flight share one answer.", r.truth(&s.Coalesce)),
		optional("backends", "Servers that answer instead of the host.", value{func(n *yaml.Node, path string) { s.Backends, r.origin = readBackends(r.decoder, n, path) }, backendsNode}),
		optional("balance", "Which of the backends is next.", r.word(&s.Balance, "adaptive", "round-robin", "least-loaded")),
		optional("sticky", "Whether a client stays at its backend while the backend works.", r.truth(&s.Sticky)),
		optional("outage", "What holds while a shared store is away: a share of the limits, what was leased and no more, or all of the limits.", r.word(&s.Outage, "share", "strict", "open")),
	}
}

func (r *siteReading) hosts(n *yaml.Node, path string) {
	if isEmpty(n) {
		r.failf(n, path, "is empty")
	}
	r.list(n, path, func(_ int, n *yaml.Node, path string) { r.host(n, path) })
}

func (r *siteReading) name(n *yaml.Node, path string) {
	r.label(&r.site.Name).read(n, path)
	if line, twice := r.names[r.site.Name]; twice && r.site.Name != "" {
		r.failf(n, path, "%s is the name of line %d already", quote(r.site.Name), line)
		return
	}
	r.names[r.site.Name] = n.Line
}

func (r *siteReading) pool(n *yaml.Node, path string) {
	r.label(&r.site.Pool).read(n, path)
	r.pooled = append(r.pooled, reference{r.site.Pool, n, path})
	r.places[path] = Fault{Source: r.source, Line: n.Line, Key: path}
}

func (r *siteReading) learn(n *yaml.Node, path string) {
	r.truth(&r.site.Learn).read(n, path)
	r.site.learn = r.site.Learn
	r.places[path] = Fault{Source: r.source, Line: n.Line, Key: path}
}

func (r *siteReading) dialect(n *yaml.Node, path string) {
	r.site.Dialect = readDialect(r.decoder, n, path)
	r.places[path] = Fault{Source: r.source, Line: n.Line, Key: path}
}

func readSite(r *siteReading, n *yaml.Node, path string) {
	d, s := r.decoder, r.site
	set := d.mapping(n, path, r.fields()...)
	if r.limits != nil {
		of := ofRule
		if set["pool"] != nil {
			of = ofPooled
		}
		s.Limits = readLimits(d, r.limits, join(path, "limits"), of)
	}
	if set["insecure"] != nil && set["pool"] == nil {
		d.failf(set["insecure"], join(path, "insecure"), "is about the tokens of a pool, and there is none")
	}
	for _, key := range []string{"balance", "sticky"} {
		if set[key] != nil && set["backends"] == nil {
			d.failf(set[key], join(path, key), "is about backends, and there are none")
		}
	}
	if set["backends"] != nil && s.Balance == "" {
		s.Balance = "adaptive"
	}
	checkBackends(d, s, r.origin)
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

// checkPooledSite refuses rules that would send secrets to hosts that are not named.
func checkPooledSite(d *decoder, n *yaml.Node, path string, s *Site) {
	if len(s.Backends) > 0 {
		d.failf(n, path, "goes with no backends: tokens are for the hosts that the rule names, and backends are other ones; write a rule with the pool for the backends' hosts, and leave the pool out here")
	}
	for _, one := range s.Hosts {
		if one.All {
			d.failf(n, path, "would send its secrets to every host; name the hosts")
			return
		}
		if one.Below && icann(one.Host) {
			d.failf(n, path, "would send its secrets to everybody's hosts below %s; name the domain", one.Host)
			return
		}
	}
}

// icann tells whether a name is a public suffix below which domains are registered.
func icann(name string) bool {
	suffix, managed := publicsuffix.PublicSuffix(name)
	return managed && suffix == name
}

// checkReferences checks what needs the whole file.
func checkReferences(d *decoder) {
	var names []string
	for _, p := range d.policy.Pools {
		names = append(names, p.Name)
	}
	for _, r := range d.pooled {
		known := r.name == ""
		for _, name := range names {
			known = known || name == r.name
		}
		if !known {
			d.failf(r.node, r.path, "%s is not a pool%s", quote(r.name), didYouMean(r.name, names))
		}
	}
}

// place is the position of a value in the file.
type place struct {
	node *yaml.Node
	path string
}

// readBackends reads the servers that answer instead of a rule's hosts, and where each of
// them stands.
func readBackends(d *decoder, n *yaml.Node, path string) (all []Backend, at []place) {
	origins, names := map[Target]bool{}, map[string]bool{}
	d.list(n, path, func(_ int, n *yaml.Node, path string) {
		b, ok := readBackend(d, n, path)
		switch {
		case !ok:
		case origins[b.Target]:
			d.failf(n, path, "%s is listed twice", b.Origin())
		case names[b.Name]:
			d.failf(n, path, "%s is the name of a backend already", quote(b.Name))
		default:
			origins[b.Target], names[b.Name] = true, true
			all, at = append(all, b), append(at, place{n, path})
		}
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty")
	}
	return all, at
}

// readBackend reads an origin, or keys of which url is an origin.
func readBackend(d *decoder, n *yaml.Node, path string) (b Backend, ok bool) {
	before := d.count()
	b.Weight = 1
	if isMapping(n) {
		d.mapping(n, path, backendFields(d, &b)...)
	} else {
		parsed(d, &b.Target, parseOrigin, originNode).read(n, path)
	}
	if b.Target != (Target{}) && b.Name == "" {
		b.Name = b.usualName()
	}
	return b, d.count() == before && b.Target != (Target{})
}

// backendFields are the keys of a backend.
func backendFields(d *decoder, b *Backend) []field {
	return []field{
		required("url", "The origin of the server.", parsed(d, &b.Target, parseOrigin, originNode)),
		optional("name", "What the backend is called.", value{func(n *yaml.Node, path string) {
			if s, ok := d.scalar(n, path, plainText); ok {
				if b.Name = s; !backendName.MatchString(s) {
					d.failf(n, path, "is not a name for a backend: letters, digits and . _ - do")
				}
			}
		}, func() node { return patternNode(backendName.String()) }}),
		optional("weight", "Its share beside other backends.", d.number(&b.Weight, 1, mostWeight)),
		optional("limits", "Limits of its own, in place of those of the rule.", value{
			func(n *yaml.Node, path string) { b.Limits, b.Own = readLimits(d, n, path, ofRule), true },
			limitsNode,
		}),
	}
}

// backendsNode is the schema of a rule's backends.
func backendsNode() node {
	item := eitherNode(originNode(), objectNode(backendFields(nil, &Backend{})))
	return eitherNode(item, sequenceNode(item, 1))
}

// checkBackends refuses backends that the rule is about: what goes there would come
// to the rule again.
func checkBackends(d *decoder, s *Site, at []place) {
	if len(at) == 0 {
		return
	}
	rule := newIndex([]Site{*s})
	for i, t := range s.Backends {
		if d.full() || rule.find(t.Host, t.Port) == none {
			continue
		}
		for _, one := range s.Hosts {
			if one.matches(t.Host, t.Port) {
				d.failf(at[i].node, at[i].path, "%s is one of the hosts of this rule (%s), so its requests would come back to the rule", t.Origin(), one)
				break
			}
		}
	}
}
