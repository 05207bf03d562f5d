package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// ClientSite begins the name of what has the limits of a client, where limits are named by their
// sites: "client news".
const ClientSite = "client "

// Client is one name that may authenticate, and what it may do.
type Client struct {
	Name     string
	Secret   Secret
	Weight   int  // its share beside other clients
	Priority int  // 0 most urgent … 7
	Capped   bool // the operator gave Priority: no header makes a request more urgent
	OpensAll bool // intercept: all, so all https of this client is opened

	Hosts  []Pattern // that it may reach; nil: all
	Sites  []string  // names or hosts of the rules that it may use; nil: all, and hosts without a rule
	Pools  []string  // whose tokens it may use; nil: all
	Limits []Limit   // of all its requests together

	rules []*Site // that Sites names
}

// Client returns the client of a name; nil if no entry of access.clients has that name.
func (p *Policy) Client(name string) *Client {
	return lists.Find(p.Access.Clients, func(c *Client) bool { return c.Name == name })
}

// Forbids returns the reason why a client may not send requests to a target, and what the operator
// can change; "" if it may. c is nil for requests without a name.
func (p *Policy) Forbids(c *Client, t Target) string {
	not := func(why, key string) string {
		return fmt.Sprintf("not for the client %s: %s; the operator can change %s of that client in access.clients", c.Name, why, key)
	}
	switch rule := p.Match(t).Rule; {
	case !allow(p.Egress.Hosts, t):
		return fmt.Sprintf("egress.hosts does not list %s; the operator can add it there", t.HostPort())
	case c == nil:
		return ""
	case !allow(c.Hosts, t):
		return not("its hosts do not list "+t.HostPort(), "hosts")
	case c.Sites != nil && rule == nil:
		return not("no rule names "+t.HostPort()+", and it may use those of its sites alone", "sites")
	case c.Sites != nil && !slices.Contains(c.rules, rule):
		return not("its sites do not list the rule "+rule.Title(), "sites")
	case rule != nil && rule.Pool != "" && c.Pools != nil && !slices.Contains(c.Pools, rule.Pool):
		return not("requests there go with a token of the pool "+rule.Pool+", which its pools do not list", "pools")
	}
	return ""
}

// allow reports whether a list of hosts has a target. No list has all.
func allow(hosts []Pattern, t Target) bool {
	return hosts == nil || slices.ContainsFunc(hosts, func(pattern Pattern) bool { return pattern.matches(t.Host, t.Port) })
}

// clientsValue reads access.clients.
func clientsValue(d *Decoder) Value {
	first := map[string]int{}
	return Sequence(d, &d.policy.Access.Clients, "is empty; leave it out to ask nobody for a secret", func(c *Client) Value {
		fields := clientFields(d, c, first)
		return NewValue(func(n *yaml.Node, path string) {
			c.Weight, c.Priority = 1, DefaultPriority
			c.Capped = d.Mapping(n, path, fields...)["priority"] != nil
		}, func() Node { return ObjectNode(fields) })
	})
}

// clientFields are the keys of a client. first has the names of those before, with their lines.
func clientFields(d *Decoder, c *Client, first map[string]int) []Field {
	return []Field{
		Required("name", "The name in Proxy-Authorization.", d.unlike(first, &c.Name, Parsed(d, &c.Name, parseClientName, func() Node { return textNode("^[^:]+$") }))),
		Required("secret", "The secret in Proxy-Authorization; ${NAME} takes the variable NAME.", d.Secret(&c.Secret)),
		Optional("weight", "The share of the client beside others that wait for the same site.", d.Number(&c.Weight, 1, mostWeight)),
		Optional("priority", "Of its requests: 0, the most urgent, to 7; 3 is usual. Where it is written, Abide-Priority makes a request less urgent, and not more.", d.Number(&c.Priority, 0, LowestPriority).into(both{&c.Priority, &c.Capped})),
		Optional("intercept", "Whether all https of the client is opened. It has to trust abide's CA then.", d.scalar(PlainText, func(word string) error {
			if c.OpensAll = word == "all"; !c.OpensAll {
				return fmt.Errorf("%s is not all, the only value that it has for a client; leave it out for what intercept says", Quote(word))
			}
			return nil
		}, func() Node { return WordNode("all") }).into(&c.OpensAll)),
		Optional("hosts", "The hosts that it may reach, as in egress.hosts; all if left out.", together(d, &c.Hosts, readHosts, hostsNode)).
			saying(when(c.Hosts != nil, "reaches "+someOf(texts(c.Hosts))+", nothing else")),
		Optional("sites", "The rules that it may use, by their names or hosts; all, and hosts without a rule, if left out.", referring(d, &c.Sites, &d.ruled, "is empty, so it could do nothing; leave it out for all")).
			saying(when(c.Sites != nil, "uses the rules "+someOf(c.Sites)+", nothing else")),
		Optional("pools", "The pools whose tokens it may use; all if left out, none if the list is empty.", referring(d, &c.Pools, &d.pooled, "")).
			saying(when(len(c.Pools) > 0, "gets tokens of the pools "+someOf(c.Pools)+" alone"), when(c.Pools != nil && len(c.Pools) == 0, "gets no token")),
		Optional("limits", "What all its requests together take before they are sent, whatever their sites, or wait for.", limitsValue(d, &c.Limits, ofClient)).saying(lists.Map(c.Limits, Limit.ofClient)...),
	}
}

// referring is the value of a list of names, which are checked when all is read. empty refuses an empty
// list; "": it is allowed.
func referring(d *Decoder, to *[]string, references *[]reference, empty string) Value {
	return Listed(d, to, empty, func(name *string) Value { return d.reference(name, references) })
}

// parseClientName refuses what Basic credentials cannot carry.
func parseClientName(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("is empty")
	case strings.Contains(s, ":"):
		return "", fmt.Errorf("%s has a colon, which ends the name in Proxy-Authorization", Quote(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", fmt.Errorf("%s has a control character", Quote(s))
	}
	return s, nil
}

// bind checks the pools that rules and clients name, and finds the rules that clients name.
func bind(d *Decoder) {
	p := d.policy
	pools := lists.Map(p.Pools, func(p Pool) string { return p.Name })
	for _, r := range d.pooled {
		if r.name != "" && !slices.Contains(pools, r.name) {
			d.Failf(r.node, r.path, "%s is not a pool%s", Quote(r.name), DidYouMean(r.name, pools))
		}
	}
	called := map[string][]*Site{}
	var known []string
	for i := range p.Sites {
		s := &p.Sites[i]
		for _, name := range append(texts(s.Hosts), s.Name) {
			if name != "" {
				known, called[name] = append(known, name), append(called[name], s)
			}
		}
	}
	find := func(name string) []*Site {
		if pattern, err := parsePattern(name); called[name] == nil && err == nil {
			name = pattern.String()
		}
		return called[name]
	}
	for i := range p.Access.Clients {
		c := &p.Access.Clients[i]
		for _, name := range c.Sites {
			c.rules = append(c.rules, find(name)...)
		}
	}
	for _, r := range d.ruled {
		if r.name != "" && find(r.name) == nil {
			d.Failf(r.node, r.path, "%s is neither the name nor a host of a rule in sites%s", Quote(r.name), DidYouMean(r.name, known))
		}
	}
}

// readHosts reads a list of hosts that may be reached.
func readHosts(in *input) (hosts []Pattern) {
	if len(in.items) == 0 {
		in.fail(-1, errors.New("is an empty list, so nothing could be reached; leave it out for all hosts"))
	}
	if len(in.items) == 1 && in.items[0] == "*" {
		return nil
	}
	return readPatterns(in)
}

// readPatterns reads patterns of hosts, of which none covers another that comes later.
func readPatterns(in *input) (hosts []Pattern) {
	var covered index
	for i, s := range in.items {
		pattern, err := parsePattern(s)
		if by := covered.first(pattern); err == nil && by != none {
			err = fmt.Errorf("%s is covered by %s already", pattern, hosts[by])
		}
		if err != nil {
			in.fail(i, err)
			continue
		}
		covered.add(pattern, len(hosts))
		hosts = append(hosts, pattern)
	}
	return hosts
}

// hostsNode is the schema of a list of hosts.
func hostsNode() Node { return ListNode(hostNode(), 1) }

// Access is the addresses and the clients that may use the proxy. If any client is
// listed, requests need Proxy-Authorization.
type Access struct {
	From    From
	Clients []Client
}

// From is a set of client addresses. The zero value holds none.
type From struct {
	Any      bool
	Loopback bool
	Private  bool // RFC 1918, fc00::/7 and link-local
	Prefixes []netip.Prefix
}

// Contains tells whether a client at a may connect.
func (f From) Contains(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return false
	case f.Any,
		f.Loopback && a.IsLoopback(),
		f.Private && (a.IsPrivate() || a.IsLinkLocalUnicast()):
		return true
	}
	return slices.ContainsFunc(f.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// readFrom reads access.from.
func readFrom(in *input) (from From) {
	words := map[string]*bool{"any": &from.Any, "loopback": &from.Loopback, "private": &from.Private}
	distinct(in, "", func(s string) (any, error) {
		if word, ok := words[s]; ok {
			*word = true
			return s, nil
		}
		prefix, err := parsePrefix(s, "any", "loopback", "private")
		if err == nil {
			from.Prefixes = append(from.Prefixes, prefix)
		}
		return prefix, err
	})
	switch {
	case len(in.items) == 0:
		in.fail(-1, errors.New("is empty, so nobody could connect"))
	case from.Any && len(in.items) > 1:
		in.fail(-1, errors.New("any is everybody; leave the others out"))
	}
	return from
}

// String is the set as it would be written.
func (f From) String() string {
	return strings.Join(given(when(f.Any, "any"), when(f.Loopback, "loopback"), when(f.Private, "private"), prefixes(f.Prefixes)), ", ")
}

// public are the networks of f that strangers on the internet may be in.
func (f From) public() []netip.Prefix {
	return lists.Only(f.Prefixes, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(ownNetworks, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) })
	})
}
