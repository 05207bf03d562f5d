package top

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/status"
)

const (
	// patience is the longest time that an abide may take for a sample or a change.
	patience = 5 * time.Second
	// mostChanges is the largest number of changes that wait for their turn.
	mostChanges = 8
)

// poller takes samples of an abide, and sends it changes, one at a time.
type poller struct {
	sampler
	every   time.Duration
	about   atomic.Pointer[subject]
	changes chan change
	now     signal.Signal // asks for a sample now
	// tell is called with each sample, or why there is none.
	tell func(s sample, err error)
	// done is called with what became of a change.
	done func(c change, err error)
}

// change is something that an abide is told to do.
type change struct {
	doing, done string // for the user: "pausing api.test", "api.test is paused"
	do          func(ctx context.Context) error
}

func newPoller(from Source, every time.Duration) *poller {
	p := &poller{sampler: sampler{from: from}, every: every, changes: make(chan change, mostChanges), now: signal.New()}
	p.about.Store(&subject{})
	return p
}

// run takes a sample every so often until ctx is done.
func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(p.every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.now:
		case c := <-p.changes:
			p.change(ctx, c)
		}
		p.refresh(ctx)
		timer.Reset(p.every)
	}
}

func (p *poller) change(ctx context.Context, c change) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.do(within); ctx.Err() == nil {
		p.done(c, err)
	}
}

func (p *poller) refresh(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s, err := p.take(within, *p.about.Load()); ctx.Err() == nil {
		p.tell(s, err)
	}
}

// show has the next samples be about something else, and asks for one now.
func (p *poller) show(about subject) {
	p.about.Store(&about)
	p.now.Send()
}

// send has a change be made. It tells whether there was room: changes wait for their turn.
func (p *poller) send(c change) bool {
	select {
	case p.changes <- c:
		return true
	default:
		return false
	}
}

// Source is the abide that is shown.
type Source interface {
	Status(ctx context.Context) (status.Process, error)
	Sites(ctx context.Context) (status.SiteList, error)
	// Holds are the requests that wait at a site.
	Holds(ctx context.Context, site string) (status.HoldList, error)
	// Tokens and Forecasts are empty where the abide has none.
	Tokens(ctx context.Context) (status.Tokens, error)
	Forecasts(ctx context.Context) ([]status.Forecast, error)
	// Pause pauses a site. length is a duration such as 2h; "": until the site is resumed.
	Pause(ctx context.Context, site, reason, length string) error
	Resume(ctx context.Context, site string) error
}

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
