package plans

import (
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
)

// pauseLimit begins the name of the limit of a paused site.
const pauseLimit = "pause"

// NoTokenTitle is the title of the limit of a pool whose tokens are all disabled.
const NoTokenTitle = "no token is enabled"

// Pause adds a limit that lets no request go until the end of a pause. It is called before the
// plan is used.
func (p *Plan) Pause(pause *status.Pause) {
	// A name of its own: the meter of an earlier pause has another end.
	name := pauseLimit + " " + strconv.FormatInt(pause.Since.UnixNano(), 36)
	p.pause = &queue.Limit{Name: name, Title: pause.Title(), Source: closedSource{pause.Until}, N: 1}
}

// PauseLimit returns the limit of a pause; nil: there is none. The plan may be nil.
func (p *Plan) PauseLimit() *queue.Limit {
	if p == nil {
		return nil
	}
	return p.pause
}

// closedSource provides the meter of a paused site, or of a pool without a token. The zero
// value is for a closure without a known end: a change of the configuration ends it.
type closedSource struct{ until time.Time }

func (s closedSource) NewMeter() limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1 << 40}) // after the end it limits nothing
	if err != nil {
		panic(err) // it is an amount
	}
	return closed{m, s.until}
}

// External leaves the meter.
func (closedSource) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// closed is a meter that lets nothing go until a time; the zero time is not known.
type closed struct {
	limit.Meter
	until time.Time
}

// When returns the end, while the meter is closed.
func (c closed) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case c.until.IsZero():
		return limit.Unknown, true
	case c.until.After(now):
		return c.until, true
	}
	return c.Meter.When(now, n)
}

// Left returns 0 until the end.
func (c closed) Left(now time.Time) int64 {
	if c.until.IsZero() || c.until.After(now) {
		return 0
	}
	return c.Meter.Left(now)
}
