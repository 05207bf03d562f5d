package top

import (
	"context"

	"github.com/abide-proxy/abide/status"
)

// Source is the abide that is shown.
type Source interface {
	Status(ctx context.Context) (status.Process, error)
	Sites(ctx context.Context) (status.SiteList, error)
	// Holds are the requests that wait at a site.
	Holds(ctx context.Context, site string) (status.HoldList, error)
	// Tokens and Forecasts are empty where the abide has none.
	Tokens(ctx context.Context) (status.Tokens, error)
	Forecasts(ctx context.Context) ([]status.Forecast, error)
	// Pause pauses a site. length is how long, such as 2h; "": until the site is resumed.
	Pause(ctx context.Context, site, reason, length string) error
	Resume(ctx context.Context, site string) error
}
