package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/abide-proxy/abide/status"
)

// topSource is a running abide as "abide top" asks it.
type topSource struct {
	api     adminAPI
	address string
}

// askFor reads the answer for a path of the API of s. An abide that has no such path, or
// nothing to say there, has the zero value.
func askFor[T any](ctx context.Context, s topSource, path string) (v T, err error) {
	const does = "tells its status"
	body, err := s.api.get(ctx, s.address, path, does)
	var none *problem
	if errors.As(err, &none) && (none.status == http.StatusNotImplemented || none.status == http.StatusNotFound) {
		return v, nil
	}
	if err == nil && json.Unmarshal(body, &v) != nil {
		err = notAbide(s.address, does)
	}
	return v, err
}

func (s topSource) Status(ctx context.Context) (status.Process, error) {
	p, err := askFor[status.Process](ctx, s, "status")
	if err == nil && p.Started.IsZero() {
		err = notAbide(s.address, "tells its status")
	}
	return p, err
}

func (s topSource) Sites(ctx context.Context) (status.SiteList, error) {
	return askFor[status.SiteList](ctx, s, "sites?recorded=false") // the state file is not read each second
}

func (s topSource) Holds(ctx context.Context, site string) (status.HoldList, error) {
	return askFor[status.HoldList](ctx, s, "holds?"+url.Values{"site": {site}}.Encode())
}

func (s topSource) Tokens(ctx context.Context) (status.Tokens, error) {
	return askFor[status.Tokens](ctx, s, "tokens")
}

func (s topSource) Forecasts(ctx context.Context) ([]status.Forecast, error) {
	return askFor[[]status.Forecast](ctx, s, "forecast")
}

func (s topSource) Pause(ctx context.Context, site, reason, length string) error {
	return s.change(ctx, site, "pause", pauseAsk{reason, length})
}

func (s topSource) Resume(ctx context.Context, site string) error {
	return s.change(ctx, site, "resume", nil)
}

func (s topSource) change(ctx context.Context, site, what string, ask any) error {
	_, err := s.api.post(ctx, s.address, sitePath(site, what), ask, pausesSites)
	return err
}
