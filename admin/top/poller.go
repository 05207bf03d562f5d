package top

import (
	"context"
	"net/url"
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
	from    Source
	every   time.Duration
	about   atomic.Pointer[subject]
	changes chan change
	now     signal.Signal // asks for a sample now

	forecasts []status.Forecast // as they were asked for last
	due       time.Time         // when forecasts are asked for again

	// tell is called with each sample, or why there is none.
	tell func(s sample, err error)
	// done is called with what became of a change.
	done func(c change, err error)
}

// change is something that an abide is told to do.
type change struct {
	doing, done string // for the user: "pausing api.test", "api.test is paused"
	site, what  string // for Source.Change
	ask         any
}

func newPoller(from Source, every time.Duration) *poller {
	p := &poller{from: from, every: every, changes: make(chan change, mostChanges), now: signal.New()}
	p.about.Store(&subject{})
	return p
}

// run takes a sample every so often until ctx is done.
func (p *poller) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.every):
		case <-p.now:
		case c := <-p.changes:
			p.change(ctx, c)
		}
		if s, err := p.take(ctx); ctx.Err() == nil {
			p.tell(s, err)
		}
	}
}

func (p *poller) change(ctx context.Context, c change) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.from.Change(within, c.site, c.what, c.ask); ctx.Err() == nil {
		p.done(c, err)
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

// Source is the API of the abide that is shown.
type Source interface {
	// Get reads the answer for a path. An abide that has nothing to say there leaves to as it is.
	Get(ctx context.Context, path string, to any) error
	// Change has a site "pause", as ask says, or "resume".
	Change(ctx context.Context, site, what string, ask any) error
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

// take asks for all that a sample has.
func (p *poller) take(ctx context.Context) (s sample, err error) {
	const forecastEvery = 10 * time.Second // the time between two requests for forecasts: there may be many of them, and they change slowly
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	about := *p.about.Load()
	s.about = about
	if err = p.from.Get(ctx, "status", &s.process); err == nil {
		err = p.from.Get(ctx, "sites?recorded=false", &s.sites) // the state file is not read each second
	}
	if s.at = time.Now(); err == nil && !s.at.Before(p.due) {
		p.forecasts = nil
		if err = p.from.Get(ctx, "forecast", &p.forecasts); err == nil {
			p.due = s.at.Add(forecastEvery)
		}
	}
	s.forecasts = p.forecasts
	if err == nil && about.site != "" {
		err = p.from.Get(ctx, "holds?"+url.Values{"site": {about.site}}.Encode(), &s.holds)
	}
	if err == nil && about.tokens {
		err = p.from.Get(ctx, "tokens", &s.tokens)
	}
	return s, err
}
