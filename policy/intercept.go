package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Intercept configures which https is opened to see its requests.
type Intercept struct {
	Mode     string // auto | all | none | listed
	Patterns []Pattern
}

var interceptModes = []string{"auto", "all", "none"}

// readIntercept reads intercept: a mode, or patterns of hosts.
func readIntercept(in *input) Intercept {
	if len(in.items) == 0 {
		in.fail(-1, errors.New("is an empty list; write none"))
	}
	for i, s := range in.items {
		alone := len(in.items) == 1
		switch known := slices.Contains(interceptModes, s); {
		case known && alone:
			return Intercept{Mode: s}
		case known:
			in.fail(i, fmt.Errorf("%s stands alone, not in a list", s))
			return Intercept{}
		case alone && strings.IndexByte(s, '.') < 0 && nearest(s, interceptModes) != "":
			in.fail(i, fmt.Errorf("%s is none of %s, nor a list of hosts%s", Quote(s), strings.Join(interceptModes, ", "), DidYouMean(s, interceptModes)))
			return Intercept{}
		}
	}
	return Intercept{Mode: "listed", Patterns: readPatterns(in)}
}

// String is the mode, or the patterns, as it would be written.
func (c Intercept) String() string {
	if c.Mode != "listed" {
		return c.Mode
	}
	return strings.Join(texts(c.Patterns), ", ")
}

// KeyPair is a certificate that the operator gives and its key: absolute paths of files in
// PEM. Both are empty where the operator gives none.
type KeyPair struct{ Cert, Key string }

// Given tells whether the operator gives the certificate.
func (c KeyPair) Given() bool { return c.Cert != "" }

// Admin is the operator's listener. An empty Listen turns it off.
type Admin struct {
	Listen string
	Token  Secret
	TLS    KeyPair // of the listener; none: plain http
	CA     string  // path of certificates in PEM that commands trust there; "": those of the system
}

// OpenListener is the second port of the proxy. A client that uses it says by that
// that it trusts the CA, so all its https is opened.
type OpenListener struct {
	Listen string // "ip:port", or ":port" for every address; "" for no listener
	// Default says that listen_open is not written: abide serves without this
	// listener when its port is taken.
	Default bool
	// Off says that no client can ask for its https to be opened, neither by a port
	// nor by a user name.
	Off bool
	// Run says that the proxy is of abide run, whose command is set up already.
	Run bool
}

// read reads listen_open.
func (l *OpenListener) read(s string) (err error) {
	if *l = (OpenListener{Off: s == "off"}); !l.Off {
		l.Listen, err = parseListen(s)
	}
	return err
}

// text is the listener as it would be written.
func (l *OpenListener) text() string { return cmp.Or(when(l.Off, "off"), l.Listen) }

// Listeners has the addresses of the proxy's listeners and of the operator's listener.
type Listeners struct {
	Listen string  // of the proxy: "ip:port", or ":port" for every address
	TLS    KeyPair // of the proxy's listeners; none: plain http
	Open   OpenListener
	Admin  Admin
}

// Local tells whether only this machine can reach the proxy.
func (l *Listeners) Local() bool {
	return isLoopback(l.Listen) && (l.Open.Listen == "" || isLoopback(l.Open.Listen))
}

// UnreadRemedy says what to do so that https which passes unread is read, "" where it
// is meant to pass unread.
func (l *Listeners) UnreadRemedy(why Unread) string {
	ask := `start the crawler with "abide run", or set its environment with eval "$(abide env)", or `
	switch {
	case l.Open.Run:
		ask = ""
	case l.Open.Off:
		ask = `start the crawler with "abide run", or `
	}
	switch why {
	case UnreadAuto:
		return ask + "write intercept: all"
	case UnreadUnlisted:
		return ask + "add the host to intercept"
	case UnreadConstrained:
		return "have ca.cert issued for the host, too"
	case UnreadRefused:
		if l.Open.Run {
			return l.TrustRemedy()
		}
		return "have the client trust abide's CA, then run abide reload"
	}
	return ""
}

// TrustRemedy says what to do about a client that does not accept the certificate of
// abide's CA.
func (l *Listeners) TrustRemedy() string {
	if l.Open.Run {
		return "the program does not trust the CA that abide run sets: it pins the site's certificate, has a certificate store of its own (Chromium: abide run --browsers), or sets the variable that names the CA itself; see docs/clients.md#https"
	}
	return "`abide env` prints what makes a client trust the CA, `abide ca install` has the whole machine and its browsers trust it"
}

// Unread is why https passes unread.
type Unread string

// The reasons why https passes unread.
const (
	UnreadAuto     Unread = "auto"     // intercept: auto, and no rule needs to read the requests
	UnreadUnlisted Unread = "unlisted" // intercept lists other hosts
	UnreadNone     Unread = "none"     // intercept: none
	UnreadExcluded Unread = "excluded" // the host's rule has learn: false and no limit that needs requests
	UnreadRefused  Unread = "refused"  // the client does not accept the certificate of abide's CA
	// UnreadConstrained: the name constraints of ca.cert do not permit the host.
	UnreadConstrained Unread = "constrained"
)

// InterceptNames are the names that a CA may be constrained to, since nothing
// else is intercepted: example.com stands for itself and what is below it,
// addresses are written as such. nil means that any name may be intercepted, an
// empty slice that none is.
func (p *Policy) InterceptNames() []string {
	// https to any host may be intercepted. A CA that the operator gives need not vouch for every host because of a listener by default.
	if p.Intercept.Mode == "all" || !p.Open.Off && !(p.Open.Default && p.CA.Given()) || slices.ContainsFunc(p.Access.Clients, func(c Client) bool { return c.OpensAll }) {
		return nil
	}
	var patterns []Pattern
	switch p.Intercept.Mode {
	case "auto":
		for i := range p.Sites {
			if p.Sites[i].needsRequests() {
				patterns = append(patterns, p.Sites[i].Hosts...)
			}
		}
	case "listed":
		patterns = p.Intercept.Patterns
	}
	names := []string{}
	seen := map[string]bool{}
	for _, one := range patterns {
		if one.All {
			return nil
		}
		if !seen[one.Host] {
			seen[one.Host] = true
			names = append(names, one.Host)
		}
	}
	return names
}

// Interception says what becomes of a CONNECT's https: it is opened, so that its
// requests are read, or it passes unread.
type Interception struct {
	Open bool
	// Needed is set where a rule needs to read the requests or intercept lists the
	// host: a client that refuses the certificate is not let through unread.
	Needed bool
	Why    Unread // of https that is not opened
}

// Interception decides on https to a host. trusting says that the client trusts the
// CA: by the port, the user name or the client that it uses. The limits of defaults open nothing:
// they hold for the requests that are seen anyway.
func (p *Policy) Interception(host string, port uint16, trusting bool) Interception {
	rule, mode := p.rule(host, port), p.Intercept.Mode
	needed := rule != nil && rule.needsRequests()
	listed := mode == "listed" && slices.ContainsFunc(p.Intercept.Patterns, func(pattern Pattern) bool { return pattern.matches(host, port) })
	switch {
	case trusting, mode == "all", mode == "auto" && needed, listed:
		return Interception{Open: true, Needed: needed || listed}
	case mode == "none":
		return Interception{Why: UnreadNone}
	case rule != nil && !rule.Learn && !needed:
		return Interception{Why: UnreadExcluded}
	case mode == "listed":
		return Interception{Why: UnreadUnlisted}
	}
	return Interception{Why: UnreadAuto}
}

// plain tells whether a host can be reached by plain http only.
func (p *Policy) plain(pattern Pattern) bool {
	return pattern.Port == 80 || pattern.Port != 0 && !p.Egress.Ports.Allows(pattern.Port)
}

// plainOnly tells whether all targets of the rule use plain http.
func (s *Site) plainOnly(p *Policy) bool {
	return !slices.ContainsFunc(s.Hosts, func(pattern Pattern) bool { return !p.plain(pattern) })
}
