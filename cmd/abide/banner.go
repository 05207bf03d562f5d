package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/policy"
)

// banner is what serve prints: where everything is, and the lines to copy.
func (a *program) banner() string {
	p := a.policy.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "abide %s\n\n", versionText())
	at := addressOf(a.listener)
	fmt.Fprintf(&b, "  proxy      http://%s%s\n", at, elsewhere(a.listener))
	if a.admin != nil {
		fmt.Fprintf(&b, "  dashboard  http://%s/%s\n", addressOf(a.admin), elsewhere(a.admin))
	}
	switch {
	case p.File != "":
		fmt.Fprintf(&b, "  config     %s\n", p.File)
	default:
		b.WriteString("  config     none, the defaults\n")
	}
	if p.Data == "none" {
		b.WriteString("  data       none: nothing is kept, and the CA is another one after a restart\n")
	} else {
		fmt.Fprintf(&b, "  data       %s\n", p.Data)
	}

	b.WriteString("\nIn the shell of the crawler:\n\n")
	proxy := "http://" + userOf(p) + at
	fmt.Fprintf(&b, "  export HTTP_PROXY=%s HTTPS_PROXY=%[1]s\n", proxy)
	b.WriteString("  export http_proxy=$HTTP_PROXY https_proxy=$HTTPS_PROXY\n")
	if len(p.Access.Clients) > 0 {
		b.WriteString("\n  with the name and secret of one of access.clients\n")
	}
	b.WriteString(trust(a, p))
	b.WriteString("\n")
	return b.String()
}

// trust is how a client comes to accept intercepted https.
func trust(a *program, p *policy.Policy) string {
	if !interceptsAny(p) {
		return "\nNo https is intercepted (intercept: " + p.Intercept.Mode + "), so there is no CA to trust.\n"
	}
	const why = "\nhttps is intercepted, so the crawler has to trust abide's CA:\n\n"
	if p.Data != "none" {
		// The shell that copies the line knows nothing of this process's flags.
		place := ""
		if p.Data != policy.Defaults().Data {
			place = " --data " + ca.ShellQuoted(p.Data)
		}
		return why + "  eval \"$(abide ca env" + place + ")\"\n"
	}
	if a.admin != nil {
		return why + "  http://" + addressOf(a.admin) + "/ca.pem\n"
	}
	return why + "  abide run -- COMMAND sets it up; or keep it in a data directory (data:)\n"
}

// interceptsAny tells whether there is any https that the CA is for.
func interceptsAny(p *policy.Policy) bool {
	names := p.InterceptNames()
	return names == nil || len(names) > 0
}

// userOf leaves room for a client's name and secret where they are a must.
func userOf(p *policy.Policy) string {
	if len(p.Access.Clients) == 0 {
		return ""
	}
	return url.User(p.Access.Clients[0].Name).String() + ":SECRET@"
}

// addressOf is where this machine reaches a listener.
func addressOf(l net.Listener) string {
	text := l.Addr().String()
	if address, err := reachable(text); err == nil {
		return address
	}
	return text
}

// elsewhere says that a listener is on every address of this machine.
func elsewhere(l net.Listener) string {
	a, err := netip.ParseAddrPort(l.Addr().String())
	if err == nil && a.Addr().IsUnspecified() {
		return "  (and every other address of this machine)"
	}
	return ""
}
