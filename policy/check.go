package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/abide-proxy/abide/internal/lists"
)

// check looks at what single keys cannot know: settings that contradict each
// other, and those that would leave the door open.
func (l *loading) check(p *Policy) {
	l.placeOpenListener(p)
	l.checkListeners(p)
	l.checkAccess(p)
	l.checkSites(p)
	order(l, p, "bounds.idle_per_host", "bounds.idle", &p.Bounds.IdlePerHost, p.Bounds.Idle)
	if p.Bounds.Connections > 0 && p.Bounds.PerClient > 0 {
		order(l, p, "bounds.per_client", "bounds.connections", &p.Bounds.PerClient, p.Bounds.Connections)
	}
	order(l, p, "queue.per_site", "queue.max", &p.Queue.PerSite, p.Queue.Max)
	order(l, p, "retry.base", "retry.max", &p.Retry.Base, p.Retry.Max)
	order(l, p, "retry.body", "retry.memory", &p.Retry.Body, p.Retry.Memory)
	order(l, p, "timeouts.tunnel_idle", "timeouts.tunnel_life", &p.Timeouts.TunnelIdle, p.Timeouts.TunnelLife)
	l.checkShard(p)
	l.pair("ca.cert", "ca.key", p.CA)
	l.pair("listen_cert", "listen_key", p.TLS)
	l.pair("admin.cert", "admin.key", p.Admin.TLS)
	if _, set := l.places["strict_state"]; set && p.StrictState && p.Data == "none" {
		l.contradict("strict_state", "is about what is kept in data, which is none; name a directory there, or leave strict_state out")
	}
}

// checkShard wants all of a shard, wherever its parts are set: a fleet may have one
// file and each of its members a variable.
func (l *loading) checkShard(p *Policy) {
	_, index := l.places["shard.index"]
	_, of := l.places["shard.of"]
	_, by := l.places["shard.by"]
	switch {
	case of && !index:
		l.contradict("shard.of", "needs shard.index, which part of them is ours; a fleet with one file sets ABIDE_SHARD_INDEX in each of its members")
	case index && !of:
		l.contradict("shard.index", "needs shard.of, how many parts there are")
	case by && !of:
		l.contradict("shard.by", "needs shard.index and shard.of")
	case p.Shard.Of > 0 && p.Shard.Index >= p.Shard.Of:
		l.contradict("shard.index", "%d is not below shard.of, which is %d; the first part is 0", p.Shard.Index, p.Shard.Of)
	}
}

// order has one setting never above another. A default yields to what was
// written.
func order[T ~int | ~int64](l *loading, p *Policy, less, more string, a *T, b T) {
	if *a <= b {
		return
	}
	if _, set := l.places[less]; !set {
		*a = b
		return
	}
	place, show := l.places[less], p.Settings()
	place.Text = fmt.Sprintf("%s is more than %s, which is %s", show[less], more, show[more])
	l.fail(place)
}

func (l *loading) checkListeners(p *Policy) {
	_, token := l.places["admin.token"]
	off := p.Admin.Listen == ""
	if off && token {
		l.contradict("admin.token", "is for a listener that is off")
	}
	if off && p.Admin.TLS.Given() {
		l.contradict("admin.cert", "is for a listener that is off")
	}
	if !off && !isLoopback(p.Admin.Listen) && !token {
		l.contradict("admin.listen", "%s is reachable from elsewhere, so admin.token must be set", Quote(p.Admin.Listen))
	}
	listeners := []struct{ key, address string }{{"listen", p.Listen}, {"admin.listen", p.Admin.Listen}, {"listen_open", when(!p.Open.Default, p.Open.Listen)}}
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if a.address != "" && collide(a.address, b.address) {
				l.contradict(a.key, "%s is the address of %s already", Quote(a.address), b.key)
			}
		}
	}
	listens := func(address string) bool {
		return address == p.Listen || address == p.Admin.Listen || address == p.Open.Listen && address != ""
	}
	for i := range p.Sites {
		for j, one := range p.Sites[i].Backends {
			if listens(one.HostPort()) {
				l.fail(Fault{Source: l.name, Line: p.Sites[i].Line, Key: fmt.Sprintf("sites[%d].backends[%d]", i, j), Text: "is this proxy itself"})
			}
		}
	}
	if hop := p.Egress.Proxy; hop != nil && listens(hop.Host) {
		l.contradict("egress.proxy", "is this proxy itself")
	}
}

func (l *loading) checkAccess(p *Policy) {
	if p.Local() {
		return
	}
	if _, set := l.places["access.from"]; !set {
		p.Access.From = From{Loopback: true, Private: true}
		return
	}
	if len(p.Access.Clients) > 0 {
		return
	}
	if p.Access.From.Any {
		l.contradict("access.from", "lets everybody use the proxy at %s, so access.clients must be set", p.Listen)
	} else if public := p.Access.From.public(); len(public) > 0 {
		l.contradict("access.from", "lets %s, which is public, use the proxy at %s, so access.clients must be set", public[0], p.Listen)
	}
}

// placeOpenListener gives the open listener the port after that of listen, or the next
// where admin.listen has that one, where listen_open is not written. With intercept: none no https is to be opened, so there
// is no such listener unless listen_open asks for it.
func (l *loading) placeOpenListener(p *Policy) {
	if _, written := l.places["listen_open"]; written {
		return
	}
	p.Open = OpenListener{Default: true, Off: p.Intercept.Mode == "none"}
	if p.Open.Off {
		return
	}
	p.Open.Listen = portAfter(p.Listen)
	_, port, _ := cutLast(p.Open.Listen, ":")
	if _, admin, _ := cutLast(p.Admin.Listen, ":"); port == admin && port != "0" {
		p.Open.Listen = portAfter(p.Open.Listen)
	}
}

// pair wants a certificate and its key, or neither.
func (l *loading) pair(cert, key string, files KeyPair) {
	switch {
	case files.Cert != "" && files.Key == "":
		l.contradict(cert, "needs %s, the file with the key of this certificate", key)
	case files.Key != "" && files.Cert == "":
		l.contradict(key, "needs %s, the file with the certificate of this key", cert)
	}
}

// checkSites checks rules together with the rest of the configuration, and gives them the limits of their pools.
func (l *loading) checkSites(p *Policy) {
	opened := indexOf(p.Intercept.Patterns)
	for i := range p.Sites {
		s := &p.Sites[i]
		key := fmt.Sprintf("sites[%d].", i)
		if _, said := l.places[key+"learn"]; !said {
			s.Learn = p.Defaults.Learn
		}
		if s.Dialect != nil && !s.Learn {
			l.contradict(key+"dialect", "says how to read limits, but none are learned here; write learn: true in the rule, or leave the dialect out")
		}
		if pool := p.Pool(s.Pool); pool != nil {
			if slices.ContainsFunc(s.Headers, func(h Header) bool { return h.Name == pool.Put.Name && pool.Put.Where == "header" }) {
				l.contradict(key+"pool", "puts its tokens into %s, which headers writes, too", pool.Put.Name)
			}
			for _, shared := range pool.Limits {
				if !slices.ContainsFunc(s.Limits, func(written Limit) bool { return written.Title() == shared.Title() }) {
					s.Limits = append(s.Limits, shared)
				}
			}
		}
		if s.Pool != "" && len(s.Hosts) > 0 && len(s.Backends) == 0 {
			l.checkPooled(p, s, opened, key+"pool")
		}
	}
}

// checkPooled refuses a pool whose tokens could not go anywhere: the https in
// which the requests are is not opened, or there is no https.
func (l *loading) checkPooled(p *Policy, s *Site, opened index, key string) {
	if i := slices.IndexFunc(s.Hosts, p.plain); i >= 0 && !s.Insecure {
		l.contradict(key, "puts its tokens into requests, but none goes over plain http, by which alone %s can be reached; write insecure: true if everybody on the way may read them, or name another port%s", s.Hosts[i], when(s.Hosts[i].Port != 80, fmt.Sprintf(", or add %d to egress.ports", s.Hosts[i].Port)))
		return
	}
	switch p.Intercept.Mode {
	case "none":
		if !s.plainOnly(p) {
			l.contradict(key, "puts its tokens into requests, which nobody sees inside of https with intercept: none; write intercept: auto, or a list that has %s", s.Hosts[0])
		}
	case "listed":
		for _, one := range s.Hosts {
			if one.All || p.plain(one) {
				continue
			}
			tls := one
			tls.Port = cmp.Or(tls.Port, 443) // tokens are only sent to named ports
			if opened.first(tls) == none {
				l.contradict(key, "puts its tokens into requests, which nobody sees inside of https to %s; add it to intercept, or write intercept: auto", one)
				return
			}
		}
	}
}

// Warnings are things that are legal but doubtful, none of them a secret.
func (p *Policy) Warnings() []string {
	all := slices.Clone(p.notes)
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	local := p.Local()
	if local && p.Access.From.Any {
		warn("access.from: any changes nothing, %s is reachable from this machine alone", p.Listen)
	}
	if !local && len(p.Access.Clients) == 0 {
		at := p.Listen
		if isLoopback(at) {
			at = p.Open.Listen
		}
		warn("access.clients is empty: whoever reaches %s from %s may use the proxy", at, p.Access.From)
	}
	const leastToken = 16
	if n := len(p.Admin.Token.Reveal()); n > 0 && n < leastToken && !isLoopback(p.Admin.Listen) {
		warn("admin.token has fewer than %d characters, so who reaches %s can guess it: openssl rand -hex 16 makes one", leastToken, p.Admin.Listen)
	}
	for _, one := range p.Egress.Allow {
		switch {
		case one.Bits() == 0:
			warn("egress.allow: %s lets clients reach every internal address", one)
		case slices.ContainsFunc(metadata, one.Overlaps):
			warn("egress.allow: %s covers addresses of cloud metadata, which stay refused", one)
		}
	}
	if p.Egress.Ports.Any && !local {
		warn("egress.ports: any lets clients tunnel to mail servers and whatever else listens")
	}
	if p.Egress.Proxy != nil && p.Egress.Proxy.Scheme == "http" && !p.Egress.ProxyPassword.Empty() && !localHost(p.Egress.Proxy.Hostname()) {
		warn("egress.proxy sends its password in the clear, https:// would not")
	}
	if p.Log.Level == "debug" || p.Log.Level == "trace" {
		warn("log.level: %s writes several lines per request", p.Log.Level)
	}
	if len(p.beaten) > 0 {
		warn("the environment beats %s: %s; unset a variable, or take the key out of the file", p.File, strings.Join(p.beaten, "; "))
	}
	if s := &p.Store; s.Shared() && !s.TLS && !s.Password.Empty() && !s.local() {
		warn("store sends its password in the clear to %s, %s:// would not", someOf(s.Hosts), strings.Replace(s.Kind, "redis", "rediss", 1))
	}
	opened, used := indexOf(p.Intercept.Patterns), map[string]bool{}
	for i := range p.Sites {
		used[p.Sites[i].Pool] = true
		p.warnOfRule(&p.Sites[i], opened, func(format string, args ...any) { warn("sites[%d]: %s", i, fmt.Sprintf(format, args...)) })
	}
	for _, pool := range p.Pools {
		if !used[pool.Name] {
			warn("pools.%s: no rule uses it; name it with pool: %s", pool.Name, pool.Name)
		}
	}
	p.warnOfUnread(opened, warn)
	const most = 50
	if n := len(all); n > most {
		all = append(all[:most], fmt.Sprintf("and %d more of the kind", n-most))
	}
	return all
}

// warnOfRule warns of parts of a rule that have no effect, of one backend with several budgets, and
// where tokens could be seen in transit.
func (p *Policy) warnOfRule(s *Site, opened index, warn func(format string, args ...any)) {
	if s.outage && !p.Store.Shared() {
		warn("outage says what holds while a shared store is away, but store is local; name one with store: redis://…, or leave outage out")
	}
	if s.Insecure {
		warn("insecure sends the tokens of the pool %s over plain http to %s, where everybody on the way can read them", s.Pool, s.Title())
	}
	needs := and(s.needs())
	tunnels := needs != "" && !s.plainOnly(p) // whose requests are not seen, while the rule is about them
	if tunnels && p.Intercept.Mode == "none" {
		warn("%s has %s, but requests cannot be seen in a tunnel: with intercept: none that holds for plain http alone", s.Title(), needs)
	}
	for _, host := range s.Hosts {
		if host.Port != 80 && p.plain(host) {
			warn("%s can be reached by plain http alone, as egress.ports is %s", host, p.Egress.Ports)
		}
		if suffix, _ := publicsuffix.PublicSuffix(host.Host); s.Pool != "" && host.Below && suffix == host.Host && strings.Contains(suffix, ".") {
			warn("anybody can have a host below %s, and would get the tokens of the pool %s", host.Host, s.Pool)
		}
		if tunnels && p.Intercept.Mode == "listed" && opened.first(host) == none && !p.plain(host) {
			warn("%s has %s, but requests cannot be seen in a tunnel: that holds for plain http alone, unless intercept has the host", host, needs)
		}
	}
	for _, b := range s.Backends {
		if rule := p.Match(b.Target).Rule; rule != nil && rule.Pool != "" {
			warn("requests that go to the backend %s get no token of the pool %s: that is for clients that name this host; let the client send the backend's key, or name this host", b.Target.HostPort(), rule.Pool)
		}
	}
	several := len(s.Hosts) > 1 || len(s.Hosts) == 1 && (s.Hosts[0].Below || s.Hosts[0].All)
	if len(s.Backends) > 0 && len(s.Limits) > 0 && several && s.Group != "rule" {
		warn("each of its sites has the limits for itself at every backend; with group: rule they have them together")
	}
}

// metadata lists the addresses at which clouds hand out credentials.
var metadata = lists.Map([]string{"169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128"}, netip.MustParsePrefix)

// localHost tells whether a host is this machine.
func localHost(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// warnOfUnread tells which rules and defaults have no effect on https that passes
// unread: those that need no request to be read by themselves, so that no https is
// opened for them.
func (p *Policy) warnOfUnread(opened index, warn func(format string, args ...any)) {
	if p.Intercept.Mode == "all" || len(p.Access.Clients) > 0 && !slices.ContainsFunc(p.Access.Clients, func(c Client) bool { return !c.OpensAll }) {
		return
	}
	remedy := `start the crawler with "abide run", set its environment with eval "$(abide env)"`
	if p.Open.Off {
		remedy = `start the crawler with "abide run", leave out listen_open: off`
		if p.Intercept.Mode == "none" {
			remedy = "leave out intercept: none"
		}
	}
	var rules []string
	for i := range p.Sites {
		s := &p.Sites[i]
		byRule := s.learn || s.Dialect != nil || s.Priority != DefaultPriority || s.Learn && len(s.Limits) == 0
		passes := func(host Pattern) bool { return opened.first(host) == none && !p.plain(host) }
		if byRule && !s.needsRequests() && slices.ContainsFunc(s.Hosts, passes) {
			rules = append(rules, fmt.Sprintf("sites[%d] (%s)", i, s.Title()))
		}
	}
	if len(rules) > 0 {
		warn("%s: no effect on https that passes unread, as at %s with intercept: %s: nothing is learned or held back there; %s, give rules limits, or write intercept: all", someOf(rules), p.Listen, p.Intercept, remedy)
	}
	if needRequests(p.Defaults.Limits) && !slices.Equal(texts(p.Defaults.Limits), texts(Defaults().Defaults.Limits)) {
		warn("defaults.limits have no effect on https that passes unread, as to hosts without a rule at %s with intercept: %s; %s, or write intercept: all", p.Listen, p.Intercept, remedy)
	}
}
