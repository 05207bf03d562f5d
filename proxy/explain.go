package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// Explained is what a request would meet if it came now.
type Explained struct {
	Target      policy.Target
	Site        string
	Rule        string // in words; "" when none names the target
	Client      string // for whom it is explained
	Guessed     bool   // nobody said for whom
	Intercepted bool   // its requests are seen: plain http always is
	Observed    bool   // mode: observe
	// Unread is why https passes unread, "" where it does not; Refused is until when,
	// for a client that refused the certificate of abide's CA.
	Unread  policy.Unread
	Refused time.Time
	queue.Explained
	Breaker  Broken      // of the site; State is "" when nothing failed lately
	Backends []Breakable // of a site that has any
}

// Breakable is one of several backends.
type Breakable struct {
	Backend  string
	InFlight int64
	Breaker  Broken
}

// Blocked is how long a limit has held requests of a site back.
type Blocked = queue.Blocked

// Blocked tells it of all limits that are remembered.
func (s *Server) Blocked() []Blocked { return s.gate.Blocked() }

// Observed tells how long each limit would have held back what was only observed.
func (s *Server) Observed() []Blocked { return s.gate.Observed() }

var (
	errNoTarget = errors.New("the URL has to begin with http:// or https:// and name a host")
	errNoMethod = errors.New("the method is not one that abide sends")
)

// localClient is the client that a crawler on this machine is, where clients have no
// names.
const localClient = "127.0.0.1"

// usualClient is the client that a question about a site is most likely about: the one
// with the most requests waiting there, else the first of access.clients, else this
// machine.
func (s *Server) usualClient(site string, clients []policy.Client) string {
	held := map[string]int{}
	most := ""
	for at, n := range s.gate.HeldCounts(site) {
		if held[at.Client] += n; held[at.Client] > held[most] {
			most = at.Client
		}
	}
	switch {
	case most != "":
		return most
	case len(clients) > 0:
		return clients[0].Name
	}
	return localClient
}

// Explain tells what a request of a client would meet now; "" is the usual client. It
// sends nothing.
func (s *Server) Explain(method string, u *url.URL, name string) (Explained, error) {
	target, err := policy.ParseTarget(u.Scheme, u.Host)
	if err != nil {
		return Explained{}, errNoTarget
	}
	if method == "" {
		method = http.MethodGet
	}
	if methodRefusal(method) != nil || method == http.MethodConnect {
		return Explained{}, errNoMethod
	}
	st := s.state.Load()
	match := st.policy.Match(target)
	guessed := name == ""
	if guessed {
		name = s.usualClient(match.Site, st.policy.Access.Clients)
	}
	x := &exchange{state: st, target: target, site: match.Site, rule: match.Rule, wish: wish{client: name}, asking: true}
	for _, c := range st.policy.Access.Clients {
		if c.Name == name {
			x.client = &client{name: c.Name, weight: c.Weight, priority: c.Priority, opensAll: c.OpensAll}
		}
	}
	e := Explained{Target: target, Site: match.Site, Client: name, Guessed: guessed, Observed: st.policy.Observes()}
	if target.Scheme == "https" {
		e.Unread, e.Refused = s.unreadNow(st.policy, target, x)
	}
	e.Intercepted = e.Unread == ""
	if match.Rule != nil {
		e.Rule = match.Rule.Title()
	}
	q := s.ask(x, &http.Request{Method: method, URL: u})
	s.bring(q) // what no request has asked for since the start
	e.Explained = s.gate.Explain(q)
	e.Breaker = s.broken(x.party())
	if p := x.turn.plan; p != nil {
		for i := range p.backends {
			b := &p.backends[i]
			e.Backends = append(e.Backends, Breakable{b.name, b.load.flying.Load(), s.broken(partyOf(match.Site, b))})
		}
	}
	return e, nil
}

// unreadNow is why the https of an exchange's client passes unread, "" where it does
// not, and until when a refusal of the client counts. A client that has refused the CA's
// certificate had said that it trusts the CA, and will again.
func (s *Server) unreadNow(p *policy.Policy, to policy.Target, x *exchange) (policy.Unread, time.Time) {
	one, refused := s.rejections.refusedNow(refusedKey{x.clientName(), to.Host})
	trusting := x.client != nil && x.client.opensAll ||
		refused && !p.Open.Off && !p.Interception(to.Host, to.Port, true).Needed
	https := s.interception(p, to.Host, to.Port, trusting, func() bool { return refused })
	if https.Why != policy.UnreadRefused {
		one.Until = time.Time{}
	}
	return https.Why, one.Until
}

// broken is how a party's breaker stands.
func (s *Server) broken(who party) Broken {
	b := Broken{Site: who.site, Backend: who.backend}
	if known, ok := s.breakers.known.Load(who); ok {
		one := known.(*breaker)
		b.State, b.Until, b.Why = one.gate.State().String(), one.ends(time.Now()), one.why()
	}
	return b
}
