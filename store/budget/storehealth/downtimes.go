package storehealth

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// outageLines is the number of outages in a row that get lines of their own in the log,
	// and outageLineEvery the time until another one does. The log gets the sum of the
	// others.
	outageLines     = 4
	outageLineEvery = 30 * time.Second
)

// downtimes are the times in which the store failed, and which of them the log has. Its
// methods take the time, so that they decide the same at any speed.
type downtimes struct {
	since  time.Time // start of the present outage; zero: the store answers
	err    error     // the last failure of that outage
	logged bool      // the log has that outage
	count  uint64    // outages that have begun

	lines    *rate.Limiter
	unlogged int           // outages that have ended and are not in the log
	first    time.Time     // start of the first of those
	lasting  time.Duration // of all of those together
}

// fails records a failure, and reports whether the log should have a line that the store is
// away. quiet: another part has logged the failure.
func (d *downtimes) fails(now time.Time, err error, quiet bool) (line bool) {
	if d.since.IsZero() {
		d.since, d.logged = now, false
		d.count++
	}
	d.err = err
	if quiet || d.logged || !d.lines.AllowN(now, 1) {
		return false
	}
	d.logged = true
	return true
}

// answers records that the store has answered. away is the duration of the outage that ends
// by it, 0 if there was none. line says whether the log should have that.
func (d *downtimes) answers(now time.Time, quiet bool) (away time.Duration, line bool) {
	if d.since.IsZero() {
		return 0, false
	}
	away, line = now.Sub(d.since), d.logged
	if !line && !quiet {
		if d.unlogged == 0 {
			d.first = d.since
		}
		d.unlogged++
		d.lasting += away
	}
	d.since, d.err, d.logged = time.Time{}, nil, false
	return away, line
}

// takeUnlogged returns the sum of the outages that are not in the log, once.
func (d *downtimes) takeUnlogged() (n int, first time.Time, lasting time.Duration) {
	n, first, lasting = d.unlogged, d.first, d.lasting
	d.unlogged, d.first, d.lasting = 0, time.Time{}, 0
	return n, first, lasting
}
