package main

import (
	"net/url"

	"github.com/abide-proxy/abide/status"
)

// explain is what a request would meet now, for the admin API.
func (a *program) explain(method, text, client string) (status.Explanation, error) {
	target, path, err := targetOf(text)
	if err != nil {
		return status.Explanation{}, err
	}
	u, err := url.Parse(urlOf(target, path))
	if err != nil {
		return status.Explanation{}, err
	}
	e, err := a.proxy.Explain(method, u, client)
	if err == nil && a.open != nil && !e.Intercepted && e.UnreadUntil.IsZero() {
		e.OpenedAt = addressOf(a.open)
	}
	return e, err
}
