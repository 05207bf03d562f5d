package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// Keys are the scalar settings in the order of the guide. Lists take commas in a
// variable or a flag, maps too, with = between key and value.
func Keys() []Key {
	return lists.Map(Defaults().settings(), func(s setting) Key {
		s.Secret = s.text != PlainText
		if s.text != SecretText {
			s.Default = s.show()
		}
		return s.Key
	})
}

// settings is the table of every scalar key of a policy.
func settings(d *Decoder) []setting {
	p := d.policy
	open, hop := p.Open.text(), []any{p.Egress.Proxy, p.Egress.ProxyPassword}
	return []setting{
		d.setting("listen", "address", "where the proxy listens", Parsed(d, &p.Listen, parseListen, listenNode)).restarts(),
		d.setting("listen_open", "address", "where the proxy listens for clients that trust its CA and have all https opened, off for none", d.scalar(PlainText, p.Open.read, func() Node { return EitherNode(WordNode("off"), listenNode()) }).into(&open)).
			shown(p.Open.text),
		d.fileSetting("listen_cert", "the certificate in PEM with which the proxy's listeners speak TLS, its issuers after it", &p.TLS.Cert),
		d.fileSetting("listen_key", "the key of listen_cert in PEM", &p.TLS.Key),
		d.setting("admin.listen", "address", "where the operator's listener is, off for none", Parsed(d, &p.Admin.Listen, parseAdmin, func() Node { return EitherNode(WordNode("off", ""), listenNode()) })).
			or("off").restarts(),
		d.setting("admin.token", "secret", "what the operator's listener asks for", d.Secret(&p.Admin.Token)).secret(SecretText),
		d.fileSetting("admin.cert", "the certificate in PEM with which the operator's listener speaks TLS, its issuers after it", &p.Admin.TLS.Cert),
		d.fileSetting("admin.key", "the key of admin.cert in PEM", &p.Admin.TLS.Key),
		d.fileSetting("admin.ca", "certificates in PEM that commands trust at the operator's listener, besides the system's", &p.Admin.CA),
		d.setting("data", "directory", "where the CA and everything else is kept, none to keep nothing", Parsed(d, &p.Data, d.parseData, FilledNode)).restarts(),
		d.setting("store", "local|URL", "where budgets are kept: local, or a Redis that a fleet shares", d.scalar(SecretURL, func(s string) error { return p.Store.read(s, d.Path) }, func() Node {
			return PatternNode(`^(?:local$|(?:`+strings.Join(lists.Map(storeKinds, regexp.QuoteMeta), "|")+`)://|\$\{)`).suchAs("local", "rediss://abide:${NAME}@redis.example:6379")
		}).into(&p.Store)).
			shown(func() string { return p.Store.Kind }).secret(SecretURL).restarts(),
		d.switchSetting("strict_state", "whether abide ends when the state that it kept cannot be read, instead of setting it aside", &p.StrictState).restarts(),
		d.wordSetting("log.level", "how much is logged", &p.Log.Level, "trace", "debug", "info", "warn", "error"),
		d.wordSetting("log.format", "how it is logged", &p.Log.Format, "text", "json"),
		d.setting("log.access", "off|on|stdout|file", "where every request is logged: on is with the log", Parsed(d, &p.Log.Access, d.parseAccessLog, func() Node { return EitherNode(switchNode(), WordNode("stdout"), PatternNode(`[./\\]`)) })).
			or("off"),
		d.wordSetting("log.access_format", "how requests are logged in a file and on stdout", &p.Log.Lines, "json", "text"),
		d.setting("access.from", "networks", "who may connect: networks, loopback, private, any", together(d, &p.Access.From, readFrom, func() Node {
			return ListNode(EitherNode(WordNode("any", "loopback", "private"), networkNode()), 1)
		})).of(list),
		d.setting("egress.allow", "networks", "networks that may be reached although they are not public", together(d, &p.Egress.Allow, func(in *input) []netip.Prefix {
			return distinct(in, "", func(s string) (netip.Prefix, error) { return parsePrefix(s) })
		}, func() Node { return ListNode(networkNode(), 0) })).
			of(list).shown(func() string { return prefixes(p.Egress.Allow) }).saying("also reachable", "%s"),
		d.setting("egress.hosts", "hosts", "hosts that may be reached, all others are refused; * for every one", together(d, &p.Egress.Hosts, readHosts, hostsNode)).
			of(list).shown(func() string { return cmp.Or(strings.Join(texts(p.Egress.Hosts), ", "), "*") }).saying("hosts", "%s, all others are refused"),
		d.setting("egress.ports", "ports", "ports that CONNECT may name, any for every one; plain http goes to any port", together(d, &p.Egress.Ports, readPorts, func() Node {
			return ListNode(EitherNode(WordNode("any"), numberNode(1, math.MaxUint16, "^[0-9]+$")), 0)
		})).of(list),
		d.setting("egress.proxy", "URL", "the next hop", d.scalar(SecretURL, p.Egress.readProxy, func() Node {
			return PatternNode(`^(?:$|\$\{|` + anyCase("http") + `[sS]?://[^/?#]*/?$)`).suchAs("http://user:${NAME}@proxy.example:3128")
		}).into(&hop)).
			shown(func() string { return p.Egress.Proxy.Redacted() }).secret(SecretURL).saying("next hop", "%s"),
		d.setting("egress.resolve", "map", "addresses for hosts, as with curl --resolve: api.test:443=127.0.0.1:9443", NewValue(func(n *yaml.Node, path string) { p.Egress.readResolve(d, n, path) }, func() Node { return MapNode("", PatternNode(`^[0-9A-Za-z:.%[\]]+$`)) }).into(&p.Egress.Resolve)).
			of(pairs).shown(p.Egress.resolveText).saying("resolved here", "%s"),
		d.fileSetting("egress.roots", "certificates in PEM that are trusted besides the system's", &p.Egress.Roots).saying("extra roots", "%s"),
		d.switchSetting("egress.shared", "whether all abides of a fleet go out by one address, so that they share what a site counts by address", &p.Egress.Shared).
			saying("address", "one for all of the fleet"),
		d.setting("intercept", "auto|all|none|hosts", "whose https is opened to see its requests", together(d, &p.Intercept, readIntercept, func() Node {
			return EitherNode(WordNode(interceptModes...), hostNode(), SequenceNode(hostNode(), 1))
		})).of(list),
		d.fileSetting("ca.cert", "the certificate in PEM of a CA of one's own, which abide signs with instead of making one", &p.CA.Cert).restarts(),
		d.fileSetting("ca.key", "the key of ca.cert, ECDSA or RSA in PEM", &p.CA.Key).restarts(),
		d.durationSetting("timeouts.header", "a client's request head, and its first byte after CONNECT", &p.Timeouts.Header).restarts(),
		d.durationSetting("timeouts.handshake", "TLS with a client or an upstream", &p.Timeouts.Handshake),
		d.durationSetting("timeouts.idle", "a kept connection without a request, on both sides", &p.Timeouts.Idle).restarts(),
		d.durationSetting("timeouts.stall", "a body that makes no progress", &p.Timeouts.Stall),
		d.durationSetting("timeouts.connect", "a connection to an upstream", &p.Timeouts.Connect),
		d.durationSetting("timeouts.answer", "the head of an upstream's answer", &p.Timeouts.Answer),
		d.durationSetting("timeouts.upload", "a whole request body", &p.Timeouts.Upload),
		d.durationSetting("timeouts.tunnel_idle", "a tunnel without a byte", &p.Timeouts.TunnelIdle),
		d.durationSetting("timeouts.tunnel_life", "a tunnel in all", &p.Timeouts.TunnelLife),
		d.durationSetting("timeouts.drain", "time for what is in flight when abide stops", &p.Timeouts.Drain),
		d.autoSetting("bounds.connections", "client connections in all, auto goes by the open-file limit", &p.Bounds.Connections),
		d.autoSetting("bounds.per_client", "client connections per address, auto is the same as in all", &p.Bounds.PerClient),
		d.sizeSetting("bounds.upload", "one request body", &p.Bounds.Upload),
		d.countSetting("bounds.idle_per_host", "idle connections kept per upstream host", 1, &p.Bounds.IdlePerHost),
		d.countSetting("bounds.idle", "idle connections kept to upstreams in all", 1, &p.Bounds.Idle),
		d.countSetting("bounds.certificates", "certificates kept for intercepted hosts", 1, &p.Bounds.Certificates).restarts(),
		d.countSetting("metrics.sites", "sites with metrics of their own, the rest are other", 1, &p.Metrics.Sites).restarts(),
		d.switchSetting("abide.headers", "whether answers carry Abide- headers", &p.Abide.Headers).saying("answers", "without Abide- headers"),
		d.countSetting("queue.max", "requests that wait in all", 1, &p.Queue.Max),
		d.countSetting("queue.per_site", "requests that wait for one site", 1, &p.Queue.PerSite),
		d.durationSetting("queue.wait", "the longest wait", &p.Queue.Wait),
		d.durationSetting("queue.aging", "the wait that gains one step of priority", &p.Queue.Aging),
		d.countSetting("retry.attempts", "how often a failed request is sent again", 0, &p.Retry.Attempts),
		d.countSetting("retry.refusals", "how often a request that the site refused is sent again", 0, &p.Retry.Refusals),
		d.durationSetting("retry.base", "the first pause between attempts", &p.Retry.Base),
		d.durationSetting("retry.max", "the longest pause between attempts", &p.Retry.Max),
		d.sizeSetting("retry.body", "the largest request body that is kept to be sent again", &p.Retry.Body),
		d.sizeSetting("retry.memory", "all request bodies that are kept", &p.Retry.Memory),
		d.setting("breaker.failures", "number", "a site that fails so often in a row is left alone, 0 for never", d.Number(&p.Breaker.Failures, 0, 1_000_000)),
		d.setting("breaker.pause", "duration", "for how long it is", Parsed(d, &p.Breaker.Pause, DurationWithin(0, time.Hour), DurationNode)),
		d.switchSetting("defaults.learn", "whether limits are learned from answers, where no rule says otherwise", &p.Defaults.Learn),
		d.wordSetting("mode", "observe holds nothing back and reports what would have waited", &p.Mode, "enforce", "observe"),
		d.countSetting("shard.index", "which part of all URLs is ours, from 0", 0, &p.Shard.Index),
		d.countSetting("shard.of", "how many parts there are", 1, &p.Shard.Of),
		d.wordSetting("shard.by", "what tells the parts apart: the whole URL, or its host alone", &p.Shard.By, "url", "host"),
	}
}

// settings is the table of a policy that is not read.
func (p *Policy) settings() []setting { return settings(&Decoder{policy: p}) }

// parseAdmin reads the address of the operator's listener, "" for none.
func parseAdmin(s string) (string, error) {
	if s == "" || s == "off" {
		return "", nil
	}
	return parseListen(s)
}

// parseData reads the directory of the state, or none.
func (d *Decoder) parseData(s string) (string, error) {
	switch s {
	case "none":
		return s, nil
	case "":
		return "", errors.New("has no value; write a directory, or none to keep nothing")
	}
	return d.Path(s)
}

// parseAccessLog reads where requests are logged, "" for nowhere.
func (d *Decoder) parseAccessLog(s string) (string, error) {
	on, err := parseSwitch(s)
	switch {
	case err == nil:
		return when(on, "on"), nil
	case s == "stdout":
		return s, nil
	case !strings.ContainsAny(s, "./\\"): // nobody means a file by "yes"
		return "", fmt.Errorf("%w, nor stdout, nor a file: its name has a . or a /", err)
	}
	return d.Path(s)
}
