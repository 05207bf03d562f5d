package main

import (
	"net/url"

	"github.com/abide-proxy/abide/admin"
)

// explain is what a request would meet now, for the operator's listener.
func (a *program) explain(method, text, client string) (admin.Explanation, error) {
	target, path, err := targetOf(text)
	if err != nil {
		return admin.Explanation{}, err
	}
	u, err := url.Parse(urlOf(target, path))
	if err != nil {
		return admin.Explanation{}, err
	}
	x, err := a.proxy.Explain(method, u, client)
	if err != nil {
		return admin.Explanation{}, err
	}
	e := admin.Explanation{
		Target: target.Scheme + "://" + target.HostPort(), Site: x.Site, Rule: x.Rule, Intercepted: x.Intercepted,
		Client: x.Client, ClientGuessed: x.Guessed,
		Held: x.Held, InFlight: x.InFlight, Place: x.Place, Expected: x.ETA,
		Limit: x.Limit, Why: x.Why, Until: x.Until, First: x.First, Asks: x.Asks, Never: x.Never,
		Observed: x.Observed, Breaker: x.Breaker.State, Tries: x.Breaker.Until, Failed: x.Breaker.Why,
	}
	e.Unread, e.UnreadUntil = string(x.Unread), x.Refused
	if a.open != nil && !x.Intercepted && x.Refused.IsZero() {
		e.OpenedAt = addressOf(a.open)
	}
	for _, one := range x.Limits {
		e.Limits = append(e.Limits, admin.LimitNow{
			Limit: one.Limit, Of: one.Key, Learned: one.Learned, Left: one.Left, Rate: one.Rate, Next: one.Next, Asks: one.Asks, Cooling: one.Cooling, Why: one.Why,
			Held: one.Held, InFlight: one.InFlight,
		})
	}
	for _, one := range x.Backends {
		e.Backends = append(e.Backends, admin.BackendNow{
			Backend: one.Backend, Breaker: one.Breaker.State, Tries: one.Breaker.Until, InFlight: one.InFlight,
		})
	}
	return e, nil
}
