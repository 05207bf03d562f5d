package policy

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
	"gopkg.in/yaml.v3"
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
		readSite(d, n, path, &s, host, names)
		d.policy.Sites = append(d.policy.Sites, s)
	})
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

func readSite(d *decoder, n *yaml.Node, path string, s *Site, host reader, names map[string]int) {
	var (
		limits *yaml.Node // read last, since the pool says which make sense
		origin []place    // of the backends
	)
	set := d.mapping(n, path,
		field{"host", func(n *yaml.Node, path string) {
			if isEmpty(n) {
				d.failf(n, path, "is empty")
			}
			d.list(n, path, func(_ int, n *yaml.Node, path string) { host(n, path) })
		}},
		field{"name", func(n *yaml.Node, path string) {
			d.label(&s.Name)(n, path)
			if line, twice := names[s.Name]; twice && s.Name != "" {
				d.failf(n, path, "%s is the name of line %d already", quote(s.Name), line)
				return
			}
			names[s.Name] = n.Line
		}},
		field{"group", d.word(&s.Group, "host", "domain", "rule")},
		field{"pool", func(n *yaml.Node, path string) {
			d.label(&s.Pool)(n, path)
			d.pooled = append(d.pooled, reference{s.Pool, n, path})
			d.places[path] = Fault{Source: d.source, Line: n.Line, Key: path}
		}},
		field{"insecure", d.truth(&s.Insecure)},
		field{"learn", func(n *yaml.Node, path string) {
			d.truth(&s.Learn)(n, path)
			s.learn = s.Learn
			d.places[path] = Fault{Source: d.source, Line: n.Line, Key: path}
		}},
		field{"dialect", func(n *yaml.Node, path string) {
			s.Dialect = readDialect(d, n, path)
			d.places[path] = Fault{Source: d.source, Line: n.Line, Key: path}
		}},
		field{"limits", func(n *yaml.Node, _ string) { limits = n }},
		field{"priority", d.number(&s.Priority, 0, lowestPriority)},
		field{"robots", d.truth(&s.Robots)},
		field{"coalesce", d.truth(&s.Coalesce)},
		field{"backends", func(n *yaml.Node, path string) { s.Backends, origin = readBackends(d, n, path) }},
		field{"balance", d.word(&s.Balance, "adaptive", "round-robin", "least-loaded")},
		field{"sticky", d.truth(&s.Sticky)},
		field{"outage", d.word(&s.Outage, "share", "strict", "open")},
	)
	if limits != nil {
		of := ofRule
		if set["pool"] != nil {
			of = ofPooled
		}
		s.Limits = readLimits(d, limits, join(path, "limits"), of)
	}
	d.need(n, path, set, "host")
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
	checkBackends(d, s, origin)
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
