package dispatch

import (
	"context"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store/budget/overrides"
)

// Operator changes, while abide runs, what a Dispatcher goes by.
type Operator struct {
	overrides *overrides.Overrides
	tokens    *sharedTokens
}

// NewOperator is the operator of a Dispatcher.
func NewOperator(d *Dispatcher) *Operator { return &Operator{d.kept.overrides, d.kept.tokens} }

// SetLimits has a site keep other limits than its rule says: see overrides.Overrides.Set.
func (o *Operator) SetLimits(ctx context.Context, site string, body []byte) error {
	return o.overrides.Set(ctx, site, body)
}

// ClearLimits gives a site the limits of its rule again. It is false if it had them.
func (o *Operator) ClearLimits(ctx context.Context, site string) (bool, error) {
	return o.overrides.Clear(ctx, site)
}

// PauseSite lets no request go to a site: see overrides.Overrides.Pause.
func (o *Operator) PauseSite(ctx context.Context, site string, p status.Pause) error {
	return o.overrides.Pause(ctx, site, p)
}

// ResumeSite ends the pause of a site. It is false if the site is not paused.
func (o *Operator) ResumeSite(ctx context.Context, site string) (bool, error) {
	return o.overrides.Resume(ctx, site)
}

// DisableToken takes a token out of use until EnableToken.
func (o *Operator) DisableToken(pool, label string) error { return o.tokens.disable(pool, label) }

// EnableToken puts a token back into use, out of quarantine too.
func (o *Operator) EnableToken(pool, label string) error { return o.tokens.enable(pool, label) }
