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
