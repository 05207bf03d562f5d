package proxy

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/store"
)

const (
	// outageLines is of how many outages in a row the log is told each by itself, and
	// outageLineEvery how soon of another one. Of the rest it is told the sum.
	outageLines     = 4
	outageLineEvery = 30 * time.Second
)

// downtimes are the times in which the store failed, and what the log was told of them. It
// decides with the time that it is given.
type downtimes struct {
	since time.Time // of the one that goes on; zero: the store answers
	err   error     // of the last failure of that
	told  bool      // the log was told of that
	count uint64    // that have begun

	lines   *rate.Limiter
	untold  int           // outages that have ended, of which the log was not told
	first   time.Time     // when the first of those began
	lasting time.Duration // they together
}

func newDowntimes() downtimes {
	return downtimes{lines: rate.NewLimiter(rate.Every(outageLineEvery), outageLines)}
}

// fails notes a failure. It answers whether the log is to be told that the store is away;
// quiet is a failure of which somebody else tells it.
func (o *downtimes) fails(now time.Time, err error, quiet bool) (tell bool) {
	if o.since.IsZero() {
		o.since, o.told = now, false
		o.count++
	}
	o.err = err
	if quiet || o.told || !o.lines.AllowN(now, 1) {
		return false
	}
	o.told = true
	return true
}

// answers notes that the store has answered, and for how long it was away before, which
// is 0 if it was not. It answers whether the log is to be told that it is back.
func (o *downtimes) answers(now time.Time, quiet bool) (away time.Duration, tell bool) {
	if o.since.IsZero() {
		return 0, false
	}
	away, tell = now.Sub(o.since), o.told
	if !tell && !quiet {
		if o.untold == 0 {
			o.first = o.since
		}
		o.untold++
		o.lasting += away
	}
	o.since, o.err, o.told = time.Time{}, nil, false
	return away, tell
}

// rest is the sum of the outages of which the log was not told, once.
func (o *downtimes) rest() (n int, first time.Time, lasting time.Duration) {
	n, first, lasting = o.untold, o.first, o.lasting
	o.untold, o.first, o.lasting = 0, time.Time{}, 0
	return n, first, lasting
}

// heardOf notes how an exchange went, and tells the log when that changes. What a file
// of this machine cannot do it tells itself, but for being slow.
func (d *desk) heardOf(err error, took time.Duration) {
	h, now := &d.health, time.Now()
	h.mu.Lock()
	h.took += took
	quiet := !d.shared && !errors.Is(err, context.DeadlineExceeded)
	away, tell := time.Duration(0), false
	began := h.since
	if err == nil {
		h.done++
		if away, tell = h.answers(now, !d.shared); away >= longAway {
			h.returned.Store(&now)
		}
	} else {
		h.failed++
		tell = h.fails(now, err, quiet)
		if !began.IsZero() {
			away = now.Sub(began)
		}
	}
	h.mu.Unlock()
	if err != nil && began.IsZero() && h.measure != nil {
		h.measure()
	}
	if !tell {
		return
	}
	long := away.Round(time.Millisecond)
	switch {
	case err == nil && d.shared:
		d.log.Infof("the store answers again, after %v", long)
	case err == nil:
		d.log.Infof("the state file is written again, after %v", long)
	case !d.shared:
		d.log.Warnf("the state file takes too long to be written, so what is counted now is lost if this process dies: %v", err)
	default:
		what := "does not answer"
		if store.Answered(err) {
			what = "does not do what it is asked"
		}
		since := ""
		if long > 0 {
			since = ", for " + long.String() + " now"
		}
		d.log.Warnf("the store %s%s, so limits go by their outage rule: %v", what, since, err)
	}
}

// tellOutages tells the log the sum of the outages of which it was not told.
func (d *desk) tellOutages() {
	h := &d.health
	h.mu.Lock()
	n, first, lasting := h.rest()
	h.mu.Unlock()
	if n == 0 {
		return
	}
	times := "times"
	if n == 1 {
		times = "time"
	}
	d.log.Warnf("the store was away %d more %s since %s, for %v in all", n, times, first.UTC().Format(time.RFC3339), lasting.Round(time.Millisecond))
}
