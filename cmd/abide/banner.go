package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

// banner returns the text that serve prints: all addresses, and the command to copy.
func (a *program) banner() string {
	p := a.policy.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "abide %s\n\n", versionText())
	fmt.Fprintf(&b, "  proxy      %s://%s%s\n", schemeOf(p.TLS), addressOf(a.listener), otherAddressesText(a.listener))
	switch {
	case a.open != nil:
		fmt.Fprintf(&b, "  open       %s://%s%s\n", schemeOf(p.TLS), addressOf(a.open), otherAddressesText(a.open))
	case a.asked.Open.Listen != "":
		fmt.Fprintf(&b, "  open       none, %s is in use (listen_open)\n", a.asked.Open.Listen)
	}
	if a.admin != nil {
		fmt.Fprintf(&b, "  dashboard  %s://%s/%s\n", schemeOf(p.Admin.TLS), addressOf(a.admin), otherAddressesText(a.admin))
	}
	fmt.Fprintf(&b, "  config     %s\n", cmp.Or(p.File, "none, the defaults"))
	data := p.Data
	if data == "none" {
		data += ": nothing is kept, and the CA is another one after a restart"
	}
	fmt.Fprintf(&b, "  data       %s\n", data)
	if otherAddressesText(a.listener) != "" {
		b.WriteString(a.containerText(p))
		if os.Getpid() == 1 { // of a container, with no shell of the crawler
			return b.String()
		}
	}
	b.WriteString("\nIn the shell of the crawler:\n\n" + pathLine())
	if command := a.envCommand(p); command != "" {
		fmt.Fprintf(&b, "  eval \"$(%s)\"\n", command)
	} else {
		at := schemeOf(p.TLS) + "://" + credentialPlaceholder(p) + a.crawlerAddress()
		fmt.Fprintf(&b, "  export HTTP_PROXY=%s HTTPS_PROXY=%[1]s\n", at)
		b.WriteString("  export http_proxy=$HTTP_PROXY https_proxy=$HTTPS_PROXY\n")
		if len(p.Access.Clients) > 0 {
			b.WriteString("\n  with the name and secret of one of access.clients\n")
		}
		switch {
		case !interceptsAny(p):
		case a.admin != nil:
			fmt.Fprintf(&b, "\nThe crawler has to trust abide's CA certificate:\n\n  %s://%s/ca.pem\n", schemeOf(p.Admin.TLS), addressOf(a.admin))
		default:
			b.WriteString("\nThe crawler has to trust abide's CA certificate: abide run -- COMMAND sets it up;\nor keep the CA in a data directory (data:).\n")
		}
	}
	b.WriteString(a.httpsText(p))
	b.WriteString("\n")
	return b.String()
}

// containerText describes how a crawler in another container uses abide: it shares neither files nor 127.0.0.1.
func (a *program) containerText(p *policy.Policy) string {
	at := schemeOf(p.TLS) + "://" + credentialPlaceholder(p) + "HOST:"
	_, port, _ := net.SplitHostPort(a.crawlerAddress())
	text := fmt.Sprintf("\nIn another container or machine, with the name of this one for HOST:\n\n  HTTP_PROXY=%[1]s%[2]s\n  HTTPS_PROXY=%[1]s%[2]s\n\n", at, port)
	if interceptsAny(p) {
		text += "and abide's CA certificate: "
		if a.admin != nil && otherAddressesText(a.admin) != "" {
			_, port, _ := net.SplitHostPort(addressOf(a.admin))
			text += schemeOf(p.Admin.TLS) + "://HOST:" + port + "/bundle.pem, "
		}
		text += "see docs/operating.md#containers\n\n"
	}
	return text
}

// addresses are the fields that a log in JSON has in place of the banner.
func (a *program) addresses() logrus.Fields {
	p := a.policy.Load()
	fields := logrus.Fields{"proxy": schemeOf(p.TLS) + "://" + addressOf(a.listener), "config": p.File, "data": p.Data}
	if a.open != nil {
		fields["open"] = schemeOf(p.TLS) + "://" + addressOf(a.open)
	}
	if a.admin != nil {
		fields["dashboard"] = schemeOf(p.Admin.TLS) + "://" + addressOf(a.admin) + "/"
	}
	return fields
}

// pathLine returns the shell line with which the commands of this abide are found, "" if the shell
// finds them without it.
func pathLine() string {
	program, err := os.Executable()
	if err != nil {
		return ""
	}
	found, err := exec.LookPath("abide")
	info, _ := os.Stat(found) // a file that is not there has no info, which is the same as no other
	if running, _ := os.Stat(program); err == nil && os.SameFile(info, running) {
		return ""
	}
	dir := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(filepath.Dir(program))
	return `  export PATH="` + dir + ":$PATH\"\n"
}

// crawlerAddress is the listener on which abide opens the most https of crawlers.
func (a *program) crawlerAddress() string {
	if a.open != nil {
		return addressOf(a.open)
	}
	return addressOf(a.listener)
}

// httpsText describes whose https is opened.
func (a *program) httpsText(p *policy.Policy) string {
	at := schemeOf(p.TLS) + "://" + addressOf(a.listener)
	switch {
	case p.Intercept.Mode == "all":
		return "\nAll https is opened, so that its limits are seen.\n"
	case p.Intercept.Mode == "none" && !interceptsAny(p):
		return "\nNo https is opened (intercept: none): it passes unread, so its limits are not seen.\n"
	}
	uses, change := "", "write listen_open with\na free address"
	if a.open != nil {
		uses = fmt.Sprintf("That uses %s://%s, where all https is opened, so that its limits are seen.\n", schemeOf(p.TLS), addressOf(a.open))
		change = "have the crawler use\nthe line above"
	}
	return fmt.Sprintf("\n%sOn %s https passes unread except to hosts whose rules need its requests,\nso limits of other hosts are not seen there. To change that, %s, or write intercept: all.\n", uses, at, change)
}

// envCommand is the command that sets up another shell for this process, "" where no files
// are kept that the command could name, or it could not write them.
func (a *program) envCommand(p *policy.Policy) string {
	if p.Data == "none" || a.ca.File() == "" || a.kept.health().Err != nil {
		return ""
	}
	return "abide env" + a.envFlags(p)
}

// envFlags are the flags with which abide env finds this process from another shell, which
// does not have this process's flags and variables. Each begins with a space.
func (a *program) envFlags(p *policy.Policy) string {
	// The settings that abide env finds without flags.
	found := policy.Defaults()
	var flags []string
	add := func(name, value string) { flags = append(flags, " --"+name+" "+ca.ShellQuoted(value)) }
	if a.source.rereadable() {
		if path, err := filepath.Abs(p.File); err == nil {
			add("config", path)
		}
		shared := slices.DeleteFunc(slices.Clone(a.source.environ), func(variable string) bool { return strings.HasPrefix(variable, "ABIDE_") })
		if plain, err := (&source{path: p.File, name: p.File, environ: shared}).load(); err == nil {
			found = plain
		}
	}
	if found.Data != p.Data {
		add("data", p.Data)
	}
	switch {
	case a.admin != nil && found.Admin.Listen != p.Admin.Listen:
		add("admin", addressOf(a.admin))
	case a.admin == nil && found.Listen != p.Listen:
		add("listen", addressOf(a.listener))
		if a.open != nil {
			add("listen-open", addressOf(a.open))
		}
	}
	if len(p.Access.Clients) > 1 {
		add("client", p.Access.Clients[0].Name)
	}
	return strings.Join(flags, "")
}

// interceptsAny tells whether any https can be intercepted.
func interceptsAny(p *policy.Policy) bool {
	names := p.InterceptNames()
	return names == nil || len(names) > 0
}

// credentialPlaceholder is the place for a client's name and secret in a URL, "" where
// clients have none.
func credentialPlaceholder(p *policy.Policy) string {
	if len(p.Access.Clients) == 0 {
		return ""
	}
	return url.User(p.Access.Clients[0].Name).String() + ":SECRET@"
}

// addressOf is the address at which this machine reaches a listener.
func addressOf(l net.Listener) string {
	address, _ := localAddress(l.Addr().String(), false) // which has a port
	return address
}

// otherAddressesText is the note that a listener is on every address of this machine.
func otherAddressesText(l net.Listener) string {
	a, err := netip.ParseAddrPort(l.Addr().String())
	if err == nil && a.Addr().IsUnspecified() {
		return "  (and every other address of this machine)"
	}
	return ""
}
