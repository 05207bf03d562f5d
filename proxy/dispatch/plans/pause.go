package plans

import (
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
)

// pauseLimit begins the name of the limit that a paused site has.
const pauseLimit = "pause"

// Pause adds a limit that lets no request go until the end of a pause. It is called before the
// plan is used.
func (p *Plan) Pause(pause *status.Pause) {
	// A name of its own: what the queue knows of an earlier pause has another end.
	name := pauseLimit + " " + strconv.FormatInt(pause.Since.UnixNano(), 36)
	p.pause = &queue.Limit{Name: name, Title: pause.Title(), Source: pauseSource{pause.Until}, N: 1}
}

// PauseLimit is the limit of a pause; nil: there is none. The plan may be nil.
func (p *Plan) PauseLimit() *queue.Limit {
	if p == nil {
		return nil
	}
	return p.pause
}

// pauseSource provides the meter of a paused site.
type pauseSource struct{ until time.Time }

func (s pauseSource) NewMeter() limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1 << 40}) // after the pause it limits nothing
	if err != nil {
		panic(err) // it is an amount
	}
	return paused{m, s.until}
}

// External leaves the meter.
func (pauseSource) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// paused is a meter that lets nothing go until a time; the zero time is for ever.
type paused struct {
	limit.Meter
	until time.Time
}

// When is the end of the pause.
func (p paused) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case p.until.IsZero():
		return limit.Unknown, true
	case p.until.After(now):
		return p.until, true
	}
	return p.Meter.When(now, n)
}

// Left is nothing until the end.
func (p paused) Left(now time.Time) int64 {
	if p.until.IsZero() || p.until.After(now) {
		return 0
	}
	return p.Meter.Left(now)
}
