package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Intercept is whose https is opened to see its requests.
type Intercept struct {
	Mode     string // auto | all | none | listed
	Patterns []Pattern
}

func parseIntercept(p *Policy, in *input) {
	modes := []string{"auto", "all", "none"}
	switch {
	case len(in.items) == 0:
		in.fail(-1, errors.New("is an empty list; write none"))
		return
	case len(in.items) == 1 && slices.Contains(modes, in.value()):
		p.Intercept = Intercept{Mode: in.value()}
		return
	}
	var covered cover
	listed := Intercept{Mode: "listed"}
	for i, s := range in.items {
		if slices.Contains(modes, s) {
			in.fail(i, fmt.Errorf("%s stands alone, not in a list", s))
			continue
		}
		pattern, err := ParsePattern(s)
		if err == nil && len(in.items) == 1 && strings.IndexByte(s, '.') < 0 && nearest(s, modes) != "" {
			err = fmt.Errorf("%s is none of %s, nor a list of hosts%s", quote(s), strings.Join(modes, ", "), didYouMean(s, modes))
		}
		if err != nil {
			in.fail(i, err)
			continue
		}
		if by, ok := covered.by(pattern); ok {
			in.fail(i, fmt.Errorf("%s is covered by %s already", pattern, listed.Patterns[by]))
			continue
		}
		covered.add(pattern, len(listed.Patterns))
		listed.Patterns = append(listed.Patterns, pattern)
	}
	p.Intercept = listed
}

func showIntercept(p *Policy) string {
	if p.Intercept.Mode != "listed" {
		return p.Intercept.Mode
	}
	var words []string
	for _, one := range p.Intercept.Patterns {
		words = append(words, one.String())
	}
	return strings.Join(words, ", ")
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

// Unread is why https passes unread.
type Unread string

// The reasons why https passes unread.
const (
	UnreadAuto     Unread = "auto"     // intercept: auto, and no rule needs to read the requests
	UnreadUnlisted Unread = "unlisted" // intercept lists other hosts
	UnreadNone     Unread = "none"     // intercept: none
	UnreadExcluded Unread = "excluded" // the host's rule says learn: false and has nothing that needs requests
	UnreadRefused  Unread = "refused"  // the client does not accept the certificate of abide's CA
	// UnreadConstrained: the name constraints of ca.cert do not permit the host.
	UnreadConstrained Unread = "constrained"
)

// Interception decides on https to a host. trusting says that the client trusts the
// CA: by the port, the user name or the client that it uses.
func (p *Policy) Interception(host string, port uint16, trusting bool) Interception {
	var rule *Site
	if i := p.index.find(host, port); i != none {
		rule = &p.Sites[i]
	}
	needed := rule != nil && rule.NeedsRequests()
	if configured := p.Intercepts(host, port); configured || trusting {
		return Interception{Open: true, Needed: needed || configured && p.Intercept.Mode == "listed"}
	}
	switch {
	case p.Intercept.Mode == "none":
		return Interception{Why: UnreadNone}
	case rule != nil && !rule.Learn && !needed:
		return Interception{Why: UnreadExcluded}
	case p.Intercept.Mode == "listed":
		return Interception{Why: UnreadUnlisted}
	}
	return Interception{Why: UnreadAuto}
}

// UnreadRemedy says what to do so that https which passes unread is read, "" where it
// is meant to pass unread.
func (p *Policy) UnreadRemedy(why Unread) string {
	ask := `start the crawler with "abide run", or set its environment with eval "$(abide env)", or `
	switch {
	case p.Open.Run:
		ask = ""
	case p.Open.Off:
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
		if p.Open.Run {
			return p.TrustRemedy()
		}
		return "have the client trust abide's CA, then run abide reload"
	}
	return ""
}

// TrustRemedy says what to do about a client that does not accept the certificate of
// abide's CA.
func (p *Policy) TrustRemedy() string {
	if p.Open.Run {
		return "the program does not trust the CA that abide run sets: it pins the site's certificate, has a certificate store of its own, or sets the variable that names the CA itself; see docs/clients.md#https"
	}
	return "`abide env` prints what makes a client trust the CA, `abide ca install` has the whole machine trust it"
}
