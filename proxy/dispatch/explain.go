package dispatch

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

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
func (v *View) usualClient(site string, clients []policy.Client) string {
	held := map[string]int{}
	most := ""
	for at, n := range v.gate.HeldCounts(site) {
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
func (v *View) Explain(method string, u *url.URL, name string) (status.Explanation, error) {
	target, err := policy.ParseTarget(u.Scheme, u.Host)
	if err != nil {
		return status.Explanation{}, errNoTarget
	}
	if method == "" {
		method = http.MethodGet
	}
	if MethodRefusal(method) != nil || method == http.MethodConnect {
		return status.Explanation{}, errNoMethod
	}
	st := v.current.Load()
	match := st.policy.Match(target)
	guessed := name == ""
	if guessed {
		name = v.usualClient(match.Site, st.policy.Access.Clients)
	}
	x := &Request{Caller: NoCaller{}, Snapshot: st, Target: target, Options: RequestOptions{Client: name}}
	x.site, x.rule, x.explained = match.Site, match.Rule, true
	x.Client = ClientNamed(st.policy, name)
	q := v.ask(x, &http.Request{Method: method, URL: u})
	v.kept.preload(q) // what no request has asked for since the start
	e := explanationOf(v.gate.Explain(q))
	e.Target, e.Site = target.Scheme+"://"+target.HostPort(), match.Site
	e.Client, e.ClientGuessed, e.Observed = name, guessed, st.policy.Observes()
	if match.Rule != nil {
		e.Rule = match.Rule.Title()
	}
	if target.Scheme == "https" && v.side != nil {
		why, until := v.side.Unread(st.policy, target, x)
		e.Unread, e.UnreadUntil = string(why), until
	}
	e.Intercepted = e.Unread == ""
	now := v.clock.Now()
	breaker := v.breakers.Status(x.breaker(), now)
	e.Breaker, e.Tries, e.Failed = breaker.State, breaker.Until, breaker.Why
	if p := x.progress.plan; p != nil {
		for i := range p.Backends.Hosts {
			b := &p.Backends.Hosts[i]
			breaker := v.breakers.Status(breakerOf(match.Site, b), now)
			e.Backends = append(e.Backends, status.ExplainedBackend{Backend: b.Name, Breaker: breaker.State, Tries: breaker.Until, InFlight: b.Load.InFlight()})
		}
	}
	return e, nil
}

// explanationOf is what the queue says of a request.
func explanationOf(x queue.Explanation) status.Explanation {
	e := status.Explanation{
		Held: x.Held, InFlight: x.InFlight, Place: x.Place, Expected: x.ETA,
		Limit: x.Limit, Why: x.Why, Until: x.Until, First: x.Behind, Asks: x.Asking, Never: x.Never,
	}
	for _, one := range x.Limits {
		e.Limits = append(e.Limits, status.ExplainedLimit{
			Limit: one.Limit, Of: one.Key, Learned: one.Learned, Left: one.Left, Rate: one.Rate, Next: one.Next,
			Asks: one.Asking, Cooling: one.Cooling, Why: one.Why, Held: one.Held, InFlight: one.InFlight,
		})
	}
	return e
}
