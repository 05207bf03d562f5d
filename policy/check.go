package policy

import (
	"fmt"
	"slices"
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
	place, show := l.places[less], map[string]string{}
	for _, s := range l.table {
		show[s.Name] = s.show(p)
	}
	place.Text = fmt.Sprintf("%s is more than %s, which is %s", show[less], more, show[more])
	l.fail(place)
}

func (l *loading) checkListeners(p *Policy) {
	if p.Admin.Listen == "" {
		if _, set := l.places["admin.token"]; set {
			l.contradict("admin.token", "is for a listener that is off")
		}
		if p.Admin.TLS.Given() {
			l.contradict("admin.cert", "is for a listener that is off")
		}
	} else {
		if collide(p.Listen, p.Admin.Listen) {
			l.contradict("admin.listen", "%s is the proxy's own address (listen: %s)", Quote(p.Admin.Listen), p.Listen)
		}
		if !isLoopback(p.Admin.Listen) && p.Admin.Token.Empty() {
			l.contradict("admin.listen", "%s is reachable from elsewhere, so admin.token must be set", Quote(p.Admin.Listen))
		}
	}
	if !p.Open.Default && p.Open.Listen != "" {
		for _, other := range []struct{ key, address string }{{"listen", p.Listen}, {"admin.listen", p.Admin.Listen}} {
			if other.address != "" && collide(p.Open.Listen, other.address) {
				l.contradict("listen_open", "%s is the address of %s already", Quote(p.Open.Listen), other.key)
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

// placeOpenListener gives the open listener the port after that of listen where
// listen_open is not written. With intercept: none no https is to be opened, so there
// is no such listener unless listen_open asks for it.
func (l *loading) placeOpenListener(p *Policy) {
	if _, written := l.places["listen_open"]; written {
		return
	}
	p.Open = OpenListener{Default: true, Off: p.Intercept.Mode == "none"}
	if !p.Open.Off {
		p.Open.Listen = portAfter(p.Listen)
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

// checkSites checks rules together with the rest of the configuration.
func (l *loading) checkSites(p *Policy) {
	var opened cover
	for i, one := range p.Intercept.Patterns {
		opened.add(one, i)
	}
	for i := range p.Sites {
		s := &p.Sites[i]
		key := fmt.Sprintf("sites[%d].", i)
		if _, said := l.places[key+"learn"]; !said {
			s.Learn = p.Defaults.Learn
		}
		if s.Dialect != nil && !s.Learn {
			l.contradict(key+"dialect", "says how to read limits, but none are learned here; write learn: true in the rule, or leave the dialect out")
		}
		if pool := p.Pool(s.Pool); pool != nil && slices.ContainsFunc(s.Headers, func(h Header) bool { return h.Name == pool.Put.Name && pool.Put.Where == "header" }) {
			l.contradict(key+"pool", "puts its tokens into %s, which headers writes, too", pool.Put.Name)
		}
		if s.Pool != "" && len(s.Hosts) > 0 && len(s.Backends) == 0 {
			l.checkPooled(p, s, &opened, key+"pool")
		}
	}
}

// checkPooled refuses a pool whose tokens could not go anywhere: the https in
// which the requests are is not opened, or there is no https.
func (l *loading) checkPooled(p *Policy, s *Site, opened *cover, key string) {
	if i := slices.IndexFunc(s.Hosts, p.plain); i >= 0 && !s.Insecure {
		l.contradict(key, "puts its tokens into requests, but none goes over plain http, by which alone %s can be reached; write insecure: true if everybody on the way may read them, or name another port%s", s.Hosts[i], p.openable(s.Hosts[i]))
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
			if tls.Port == 0 {
				tls.Port = 443 // tokens are only sent to named ports
			}
			if _, ok := opened.by(tls); !ok {
				l.contradict(key, "puts its tokens into requests, which nobody sees inside of https to %s; add it to intercept, or write intercept: auto", one)
				return
			}
		}
	}
}

// complete gives rules the limits of their pools.
func (l *loading) complete(p *Policy) {
	for i := range p.Sites {
		s := &p.Sites[i]
		pool := p.Pool(s.Pool)
		if pool == nil {
			continue
		}
		for j := range pool.Limits {
			shared := &pool.Limits[j]
			if !slices.ContainsFunc(s.Limits, func(written Limit) bool { return written.Title() == shared.Title() }) {
				s.Limits = append(s.Limits, *shared)
			}
		}
	}
}

// openable returns the remedy that would let https go to the port of a pattern, "" for port 80.
func (p *Policy) openable(pattern Pattern) string {
	if pattern.Port == 80 {
		return ""
	}
	return fmt.Sprintf(", or add %d to egress.ports", pattern.Port)
}
