package top

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/status"
)

// sample is the answers of an abide at one time.
type sample struct {
	at        time.Time
	about     subject
	process   status.Process
	sites     status.SiteList
	forecasts []status.Forecast
	holds     status.HoldList // with subjects that have a site
	tokens    status.Tokens   // with subjects about tokens
}

// subject names the list that a sample has besides the sites.
type subject struct {
	site   string // the holds of this site; "": none
	tokens bool
}

// forecastEvery is the time between two requests for forecasts: there may be many of them, and they
// change slowly.
const forecastEvery = 10 * time.Second

// sampler takes samples of an abide.
type sampler struct {
	from      Source
	forecasts []status.Forecast // as they were asked for last
	due       time.Time         // when forecasts are asked for again
}

// take asks for all that a sample has.
func (a *sampler) take(ctx context.Context, about subject) (s sample, err error) {
	s.about = about
	if s.process, err = a.from.Status(ctx); err != nil {
		return s, err
	}
	if s.sites, err = a.from.Sites(ctx); err != nil {
		return s, err
	}
	s.at = time.Now()
	if err = a.takeForecasts(ctx, s.at); err != nil {
		return s, err
	}
	s.forecasts = a.forecasts
	if about.site != "" {
		if s.holds, err = a.from.Holds(ctx, about.site); err != nil {
			return s, err
		}
	}
	if about.tokens {
		s.tokens, err = a.from.Tokens(ctx)
	}
	return s, err
}

func (a *sampler) takeForecasts(ctx context.Context, now time.Time) error {
	if now.Before(a.due) {
		return nil
	}
	list, err := a.from.Forecasts(ctx)
	if err != nil {
		return err
	}
	a.forecasts, a.due = list, now.Add(forecastEvery)
	return nil
}
