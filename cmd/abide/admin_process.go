package main

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/status"
)

// adminProcess is what the admin listener needs of the process.
type adminProcess struct{ *program }

// Ready is the answer of /readyz.
func (c adminProcess) Ready() []status.Check { return c.ready() }

// Explain is what a request would meet now.
func (c adminProcess) Explain(method, url, client string) (status.Explanation, error) {
	return c.explain(method, url, client)
}

// Reload reads the configuration again, if there is one.
func (c adminProcess) Reload() (changes []string, err error) {
	if c.source == nil {
		return nil, errors.ErrUnsupported
	}
	return c.reloadOnRequest()
}

// Refused is the reload that was refused last, nil after a reload that succeeded.
func (c adminProcess) Refused() *status.RefusedReload { return c.refused.status() }

// Store is the state of the store and the state file.
func (c adminProcess) Store(ctx context.Context) status.Store { return c.storeStatus(ctx) }
