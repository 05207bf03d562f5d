package storehealth

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// longAway is how long an outage lasts after which other instances are expected to have
// lent something: more than one pulse.
const longAway = 2 * time.Second

// outages follows whether the store answers.
type outages struct {
	shared  bool
	measure func() // an outage begins
	log     *logrus.Logger

	mu sync.Mutex
	downtimes
	done   uint64
	failed uint64
	took   time.Duration // all operations together

	returned atomic.Pointer[time.Time] // when it answered again after a long outage
}

func newOutages(shared bool, measure func(), log *logrus.Logger) outages {
	return outages{shared: shared, measure: measure, log: log, downtimes: newDowntimes()}
}

// Returned is when the store answered again after its last long outage; zero: there was
// none.
func (o *outages) Returned() time.Time {
	if at := o.returned.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Failing is how long the outage lasts that goes on, 0 if there is none.
func (o *outages) Failing() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0
	}
	return time.Since(o.since)
}

// begun is how many outages have begun, and whether one of them goes on.
func (o *outages) begun() (n uint64, away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count, !o.since.IsZero()
}

// Answered notes whether the store has answered, and logs when that changes. The state
// file logs its own failures, but for being slow.
func (o *outages) Answered(err error, took time.Duration) {
	now := time.Now()
	o.mu.Lock()
	o.took += took
	var away time.Duration
	var line bool
	began := o.since
	if err == nil {
		o.done++
		if away, line = o.answers(now, !o.shared); away >= longAway {
			o.returned.Store(&now)
		}
	} else {
		o.failed++
		line = o.fails(now, err, !o.shared && !errors.Is(err, context.DeadlineExceeded))
		if !began.IsZero() {
			away = now.Sub(began)
		}
	}
	o.mu.Unlock()
	if err != nil && began.IsZero() {
		o.measure()
	}
	if line {
		o.write(err, away.Round(time.Millisecond))
	}
}

// write writes to the log that the store is away or back, and for how long it was away.
func (o *outages) write(err error, away time.Duration) {
	switch {
	case err == nil && o.shared:
		o.log.Infof("the store answers again, after %v", away)
	case err == nil:
		o.log.Infof("the state file is written again, after %v", away)
	case !o.shared:
		o.log.Warnf("the state file takes too long to be written, so what is counted now is lost if this process dies: %v", err)
	default:
		what := "does not answer"
		if store.Answered(err) {
			what = "does not do what it is asked"
		}
		since := ""
		if away > 0 {
			since = ", for " + away.String() + " now"
		}
		o.log.Warnf("the store %s%s, so limits go by their outage rule: %v", what, since, err)
	}
}

// fill sets the fields of a status that follow from outages and operations.
func (o *outages) fill(s *status.Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Since, s.Outages, s.Operations, s.Failures = o.since, o.count, o.done, o.failed
	if n := o.done + o.failed; n > 0 {
		s.Mean = o.took.Seconds() / float64(n)
	}
	if o.err != nil {
		s.Err, s.Answered = o.err.Error(), store.Answered(o.err)
	}
}

// report writes to the log the sum of the outages that it does not have.
func (o *outages) report() {
	o.mu.Lock()
	n, first, lasting := o.rest()
	o.mu.Unlock()
	if n == 0 {
		return
	}
	times := "times"
	if n == 1 {
		times = "time"
	}
	o.log.Warnf("the store was away %d more %s since %s, for %v in all", n, times, first.UTC().Format(time.RFC3339), lasting.Round(time.Millisecond))
}
