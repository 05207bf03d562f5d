package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Keys are the scalar settings in the order of the guide. Lists take commas in a
// variable or a flag, maps too, with = between key and value.
func Keys() []Key {
	p := Defaults()
	all := settings()
	keys := make([]Key, len(all))
	for i, s := range all {
		keys[i] = s.Key
		keys[i].Secret = s.text != PlainText
		if s.text != SecretText {
			keys[i].Default = s.show(p)
		}
	}
	return keys
}

// settings is the table of every scalar key.
func settings() []setting {
	all := []setting{
		addressSetting("listen", "where the proxy listens", false, func(p *Policy) *string { return &p.Listen }).restarts(),
		openListenerSetting(),
		fileSetting("listen_cert", "the certificate in PEM with which the proxy's listeners speak TLS, its issuers after it", func(p *Policy) *string { return &p.TLS.Cert }),
		fileSetting("listen_key", "the key of listen_cert in PEM", func(p *Policy) *string { return &p.TLS.Key }),
		addressSetting("admin.listen", "where the operator's listener is, off for none", true, func(p *Policy) *string { return &p.Admin.Listen }).restarts(),
		row("admin.token", "secret", "what the operator's listener asks for", single, func(p *Policy) *Secret { return &p.Admin.Token }, readToken, (*Secret).String, SecretNode).
			secret(SecretText),
		fileSetting("admin.cert", "the certificate in PEM with which the operator's listener speaks TLS, its issuers after it", func(p *Policy) *string { return &p.Admin.TLS.Cert }),
		fileSetting("admin.key", "the key of admin.cert in PEM", func(p *Policy) *string { return &p.Admin.TLS.Key }),
		fileSetting("admin.ca", "certificates in PEM that commands trust at the operator's listener, besides the system's", func(p *Policy) *string { return &p.Admin.CA }),
		row("data", "directory", "where the CA and everything else is kept, none to keep nothing", single, func(p *Policy) *string { return &p.Data }, readData, asWritten, FilledNode).
			restarts(),
		row("store", "local|URL", "where budgets are kept: local, or a Redis that a fleet shares", single, func(p *Policy) *Store { return &p.Store }, (*Store).read, func(s *Store) string { return s.Kind }, storeNode).
			secret(SecretURL).restarts(),
		switchSetting("strict_state", "whether abide ends when the state that it kept cannot be read, instead of setting it aside", func(p *Policy) *bool { return &p.StrictState }).restarts(),
		wordSetting("log.level", "how much is logged", func(p *Policy) *string { return &p.Log.Level }, "trace", "debug", "info", "warn", "error"),
		wordSetting("log.format", "how it is logged", func(p *Policy) *string { return &p.Log.Format }, "text", "json"),
		accessLogSetting(),
		wordSetting("log.access_format", "how requests are logged in a file and on stdout", func(p *Policy) *string { return &p.Log.Lines }, "json", "text"),
		row("access.from", "networks", "who may connect: networks, loopback, private, any", list, func(p *Policy) *From { return &p.Access.From }, (*From).read, (*From).String, fromNode),
		row("egress.allow", "networks", "networks that may be reached although they are not public", list, func(p *Policy) *[]netip.Prefix { return &p.Egress.Allow }, func(to *[]netip.Prefix, in *input) {
			*to = distinct(in, "", func(s string) (netip.Prefix, error) { return parsePrefix(s) })
		}, func(to *[]netip.Prefix) string { return prefixes(*to) }, func() Node { return ListNode(networkNode()) }).
			saying("also reachable", "%s"),
		row("egress.hosts", "hosts", "hosts that may be reached, all others are refused; * for every one", list, func(p *Policy) *[]Pattern { return &p.Egress.Hosts }, func(to *[]Pattern, in *input) { *to = readHosts(in) }, hostsText, hostsNode).
			saying("hosts", "%s, all others are refused"),
		row("egress.ports", "ports", "ports that CONNECT may name, any for every one; plain http goes to any port", list, func(p *Policy) *Ports { return &p.Egress.Ports }, (*Ports).read, (*Ports).text, func() Node {
			return ListNode(EitherNode(WordNode("any"), Node{"type": []string{"integer", "string"}, "minimum": 1, "maximum": 65535, "pattern": "^[0-9]+$"}))
		}),
		row("egress.proxy", "URL", "the next hop", single, func(p *Policy) *Egress { return &p.Egress }, (*Egress).readProxy, (*Egress).proxyText, func() Node {
			return PatternNode(`^(?:$|\$\{|` + anyCase("http") + `[sS]?://[^/?#]*/?$)`).suchAs("http://user:${NAME}@proxy.example:3128")
		}).
			secret(SecretURL).comparing(func(p *Policy) any { return p.Egress.NextHop() }).saying("next hop", "%s"),
		row("egress.resolve", "map", "addresses for hosts, as with curl --resolve: api.test:443=127.0.0.1:9443", pairs, func(p *Policy) *map[string]string { return &p.Egress.Resolve }, readResolve, resolveText, func() Node { return MapNode("", PatternNode(`^[0-9A-Za-z:.%[\]]+$`)) }).
			saying("resolved here", "%s"),
		fileSetting("egress.roots", "certificates in PEM that are trusted besides the system's", func(p *Policy) *string { return &p.Egress.Roots }).saying("extra roots", "%s"),
		switchSetting("egress.shared", "whether all abides of a fleet go out by one address, so that they share what a site counts by address", func(p *Policy) *bool { return &p.Egress.Shared }).
			saying("address", "one for all of the fleet"),
		row("intercept", "auto|all|none|hosts", "whose https is opened to see its requests", list, func(p *Policy) *Intercept { return &p.Intercept }, (*Intercept).read, (*Intercept).text, func() Node {
			return EitherNode(WordNode("auto", "all", "none"), hostNode(), SequenceNode(hostNode(), 1))
		}),
		fileSetting("ca.cert", "the certificate in PEM of a CA of one's own, which abide signs with instead of making one", func(p *Policy) *string { return &p.CA.Cert }).restarts(),
		fileSetting("ca.key", "the key of ca.cert, ECDSA or RSA in PEM", func(p *Policy) *string { return &p.CA.Key }).restarts(),
		durationSetting("timeouts.header", "a client's request head, and its first byte after CONNECT", func(p *Policy) *time.Duration { return &p.Timeouts.Header }).restarts(),
		durationSetting("timeouts.handshake", "TLS with a client or an upstream", func(p *Policy) *time.Duration { return &p.Timeouts.Handshake }),
		durationSetting("timeouts.idle", "a kept connection without a request, on both sides", func(p *Policy) *time.Duration { return &p.Timeouts.Idle }).restarts(),
		durationSetting("timeouts.stall", "a body that makes no progress", func(p *Policy) *time.Duration { return &p.Timeouts.Stall }),
		durationSetting("timeouts.connect", "a connection to an upstream", func(p *Policy) *time.Duration { return &p.Timeouts.Connect }),
		durationSetting("timeouts.answer", "the head of an upstream's answer", func(p *Policy) *time.Duration { return &p.Timeouts.Answer }),
		durationSetting("timeouts.upload", "a whole request body", func(p *Policy) *time.Duration { return &p.Timeouts.Upload }),
		durationSetting("timeouts.tunnel_idle", "a tunnel without a byte", func(p *Policy) *time.Duration { return &p.Timeouts.TunnelIdle }),
		durationSetting("timeouts.tunnel_life", "a tunnel in all", func(p *Policy) *time.Duration { return &p.Timeouts.TunnelLife }),
		durationSetting("timeouts.drain", "time for what is in flight when abide stops", func(p *Policy) *time.Duration { return &p.Timeouts.Drain }),
		autoSetting("bounds.connections", "client connections in all, auto goes by the open-file limit", func(p *Policy) *int { return &p.Bounds.Connections }),
		autoSetting("bounds.per_client", "client connections per address, auto is the same as in all", func(p *Policy) *int { return &p.Bounds.PerClient }),
		sizeSetting("bounds.upload", "one request body", func(p *Policy) *Size { return &p.Bounds.Upload }),
		countSetting("bounds.idle_per_host", "idle connections kept per upstream host", 1, func(p *Policy) *int { return &p.Bounds.IdlePerHost }),
		countSetting("bounds.idle", "idle connections kept to upstreams in all", 1, func(p *Policy) *int { return &p.Bounds.Idle }),
		countSetting("bounds.certificates", "certificates kept for intercepted hosts", 1, func(p *Policy) *int { return &p.Bounds.Certificates }).restarts(),
		countSetting("metrics.sites", "sites with metrics of their own, the rest are other", 1, func(p *Policy) *int { return &p.Metrics.Sites }).restarts(),
		switchSetting("abide.headers", "whether answers carry Abide- headers", func(p *Policy) *bool { return &p.Abide.Headers }).saying("answers", "without Abide- headers"),
		countSetting("queue.max", "requests that wait in all", 1, func(p *Policy) *int { return &p.Queue.Max }),
		countSetting("queue.per_site", "requests that wait for one site", 1, func(p *Policy) *int { return &p.Queue.PerSite }),
		durationSetting("queue.wait", "the longest wait", func(p *Policy) *time.Duration { return &p.Queue.Wait }),
		durationSetting("queue.aging", "the wait that gains one step of priority", func(p *Policy) *time.Duration { return &p.Queue.Aging }),
		countSetting("retry.attempts", "how often a failed request is sent again", 0, func(p *Policy) *int { return &p.Retry.Attempts }),
		countSetting("retry.refusals", "how often a request that the site refused is sent again", 0, func(p *Policy) *int { return &p.Retry.Refusals }),
		durationSetting("retry.base", "the first pause between attempts", func(p *Policy) *time.Duration { return &p.Retry.Base }),
		durationSetting("retry.max", "the longest pause between attempts", func(p *Policy) *time.Duration { return &p.Retry.Max }),
		sizeSetting("retry.body", "the largest request body that is kept to be sent again", func(p *Policy) *Size { return &p.Retry.Body }),
		sizeSetting("retry.memory", "all request bodies that are kept", func(p *Policy) *Size { return &p.Retry.Memory }),
		rangeSetting("breaker.failures", "a site that fails so often in a row is left alone, 0 for never", 0, 1_000_000, func(p *Policy) *int { return &p.Breaker.Failures }),
		upToSetting("breaker.pause", "for how long it is", time.Hour, func(p *Policy) *time.Duration { return &p.Breaker.Pause }),
		switchSetting("defaults.learn", "whether limits are learned from answers, where no rule says otherwise", func(p *Policy) *bool { return &p.Defaults.Learn }),
		wordSetting("mode", "observe holds nothing back and reports what would have waited", func(p *Policy) *string { return &p.Mode }, "enforce", "observe"),
		countSetting("shard.index", "which part of all URLs is ours, from 0", 0, func(p *Policy) *int { return &p.Shard.Index }),
		countSetting("shard.of", "how many parts there are", 1, func(p *Policy) *int { return &p.Shard.Of }),
		wordSetting("shard.by", "what tells the parts apart: the whole URL, or its host alone", func(p *Policy) *string { return &p.Shard.By }, "url", "host"),
	}
	for i := range all {
		all[i].Env = "ABIDE_" + strings.ToUpper(strings.ReplaceAll(all[i].Name, ".", "_"))
	}
	return all
}

func readToken(to *Secret, in *input) {
	if in.value() == "" {
		in.fail(-1, errors.New("is empty; leave it out for none"))
	}
	*to = NewSecret(in.value())
}

func readData(to *string, in *input) {
	switch in.value() {
	case "none":
		*to = "none"
	case "":
		in.fail(-1, errors.New("has no value; write a directory, or none to keep nothing"))
	default:
		in.readPath(to)
	}
}

func accessLogSetting() setting {
	read := func(to *string, in *input) {
		on, err := parseSwitch(in.value())
		switch {
		case err == nil && on:
			*to = "on"
		case err == nil:
			*to = ""
		case in.value() == "stdout":
			*to = "stdout"
		case !strings.ContainsAny(in.value(), "./\\"): // nobody means a file by "yes"
			in.fail(-1, fmt.Errorf("%w, nor stdout, nor a file: its name has a . or a /", err))
		default:
			in.readPath(to)
		}
	}
	return row("log.access", "off|on|stdout|file", "where every request is logged: on is with the log", single, func(p *Policy) *string { return &p.Log.Access }, read, orOff,
		func() Node { return EitherNode(switchNode(), WordNode("stdout"), PatternNode(`[./\\]`)) })
}

func openListenerSetting() setting {
	read := func(to *OpenListener, in *input) {
		*to = OpenListener{Off: in.value() == "off"}
		if to.Off {
			return
		}
		address, err := parseListen(in.value())
		if err != nil {
			in.fail(-1, err)
			return
		}
		to.Listen = address
	}
	show := func(l *OpenListener) string {
		if l.Off {
			return "off"
		}
		return l.Listen
	}
	return row("listen_open", "address", "where the proxy listens for clients that trust its CA and have all https opened, off for none", single,
		func(p *Policy) *OpenListener { return &p.Open }, read, show, func() Node { return EitherNode(WordNode("off"), listenNode()) }).
		comparing(func(p *Policy) any { return show(&p.Open) })
}
