// Package storehealth follows how a store of budgets answers: its outages, the budgets that it
// has lost, the units that were lent while it was away, its clock and its settings. It
// limits the lines in the log, whatever the store does.
package storehealth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

const (
	// lineEvery is the least time between two lines of a kind in the log.
	lineEvery = time.Minute
	// longAway is the length of an outage from which other instances are expected to have
	// lent something: more than one pulse.
	longAway = 2 * time.Second
	// inspectEvery is the time between two readings of a store's settings while it answers.
	inspectEvery = 10 * time.Minute
)

// Metrics counts what happens to a store.
type Metrics interface {
	// StoreOperation counts an operation, such as "exchange", and its duration.
	StoreOperation(op string, ok bool, took time.Duration)
	// StoreLent counts units that were taken while the store was away, by outage rule.
	StoreLent(outage string, units int64)
	// StoreLost counts a loss: of "all" budgets, or of those of one "site".
	StoreLost(what string)
	// StoreAway counts an outage that begins.
	StoreAway()
}

// Health records how one store answers. It is safe for concurrent use.
type Health struct {
	shared       bool // several instances use the store
	metrics      Metrics
	log          *logrus.Logger
	stepLines    rate.Sometimes                // about a clock that was set
	behindLines  rate.Sometimes                // about a clock that is behind its budgets
	returned     atomic.Pointer[time.Time]     // nil: there was no long outage
	clockIsAhead atomic.Pointer[time.Duration] // of this machine's; nil: not known

	mu sync.Mutex
	// Operations.
	downtimes downtimes
	done      uint64
	failed    uint64
	took      time.Duration // all operations together
	// Losses.
	lost           status.Loss // in all
	lossLogged     time.Time
	unloggedLosses int // of sites
	// Loans that are not in the log.
	loansLogged time.Time
	loanSite    string     // of the first loan since, "" if there is none
	loan        lease.Loan // all loans of that limit together
	otherLoans  int        // of other limits and sites
	// Warnings about the settings, as they were read last.
	warnings       []string
	inspected      time.Time
	inspectOutages uint64 // that had begun then
}

// New makes the Health of a store that has not been asked yet. Shared says that several
// instances use the store: otherwise it is the state file of this machine.
func New(shared bool, m Metrics, log *logrus.Logger) *Health {
	return &Health{
		shared: shared, metrics: m, log: log, downtimes: downtimes{lines: rate.NewLimiter(rate.Every(outageLineEvery), outageLines)},
		stepLines: rate.Sometimes{Interval: lineEvery}, behindLines: rate.Sometimes{Interval: lineEvery},
	}
}

// Operation records how an operation of the store went.
func (h *Health) Operation(op string, err error, took time.Duration) {
	h.metrics.StoreOperation(op, err == nil, took)
	h.Answered(err, took)
}

// Answered records whether the store has answered, and logs when that changes. The state
// file logs its own failures, but for being slow.
func (h *Health) Answered(err error, took time.Duration) {
	now := time.Now()
	h.mu.Lock()
	h.took += took
	var away time.Duration
	var line bool
	began := h.downtimes.since
	if err == nil {
		h.done++
		if away, line = h.downtimes.answers(now, !h.shared); away >= longAway {
			h.returned.Store(&now)
		}
	} else {
		h.failed++
		line = h.downtimes.fails(now, err, !h.shared && !errors.Is(err, context.DeadlineExceeded))
		if !began.IsZero() {
			away = now.Sub(began)
		}
	}
	h.mu.Unlock()
	if err != nil && began.IsZero() {
		h.metrics.StoreAway()
	}
	if line {
		h.logAnswer(err, away.Round(time.Millisecond))
	}
}

// logAnswer writes to the log that the store is away or back, and for how long it was away.
func (h *Health) logAnswer(err error, away time.Duration) {
	entry := h.log.WithField("reason", err)
	switch {
	case err == nil && h.shared:
		h.log.Infof("the store answers again, after %v", away)
	case err == nil:
		h.log.Infof("the state file is written again, after %v", away)
	case !h.shared:
		entry.Warnf("the state file takes too long to be written, so what is counted now is lost if this process dies: %v", err)
	default:
		failure, since := "does not answer", ""
		if store.Answered(err) {
			failure = "does not do what it is asked"
		}
		if away > 0 {
			since = ", for " + away.String() + " now"
		}
		entry.Warnf("the store %s%s, so limits go by their outage rule: %v", failure, since, err)
	}
}

// Returned is the time at which the store answered again after its last long outage; zero:
// there was none.
func (h *Health) Returned() time.Time {
	if at := h.returned.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Failing is the duration of the present outage, 0 if there is none.
func (h *Health) Failing() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.downtimes.since.IsZero() {
		return 0
	}
	return time.Since(h.downtimes.since)
}

// LostAll records that the store may have lost everything. It grants nothing more until
// every instance had the time to say what it holds.
func (h *Health) LostAll(now time.Time) {
	h.metrics.StoreLost("all")
	h.mu.Lock()
	said := h.lost.All > 0 && h.lost.Site == "" && h.lost.Settles(now) // by the line of a loss just before
	h.setLoss(now, "")
	h.lost.All++
	h.mu.Unlock()
	if said {
		return
	}
	h.log.Warnf("the store has lost what was written down, or may have: it was flushed, was started again, or is another one; what is held is said again, and nothing is asked of it for %v", store.RecoveryTime)
}

// LostSite records that the store has lost budgets of a site.
func (h *Health) LostSite(now time.Time, site string) {
	h.metrics.StoreLost("site")
	h.mu.Lock()
	h.setLoss(now, site)
	h.lost.Sites++
	quiet := now.Sub(h.lossLogged) < lineEvery
	if quiet {
		h.unloggedLosses++ // Report has them
	} else {
		h.lossLogged = now
	}
	h.mu.Unlock()
	if quiet {
		return
	}
	h.log.WithField("site", site).Warnf("the store has lost budgets of %s (flushed, evicted, removed or overwritten): what is held is said again, and nothing of them is granted for %v", site, store.RecoveryTime)
}

// setLoss records the time of a loss, with the lock held.
func (h *Health) setLoss(now time.Time, site string) {
	h.lost.At, h.lost.Site, h.lost.Until = now, site, now.Add(store.RecoveryTime)
}

// Settles records the time until which nothing is granted of budgets of a site, as answers
// say.
func (h *Health) Settles(now time.Time, site string, answers []store.Answer) {
	wait := time.Duration(0)
	for i := range answers {
		wait = max(wait, answers[i].Recovery)
	}
	if wait == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lost.Settles(now) { // the loss itself was not noticed
		h.lost.At, h.lost.Site = now, site
	}
	h.lost.Until = status.Later(h.lost.Until, now.Add(wait))
}

// Lent records the loans of a site's limits, and how long the store has been away. The log
// has them once the store is back, and otherwise each minute.
func (h *Health) Lent(site string, loans []lease.Loan, away time.Duration, back bool) {
	h.mu.Lock()
	for _, one := range loans {
		one.Away = max(one.Away, away)
		h.metrics.StoreLent(string(one.Outage), one.N)
		switch {
		case h.loanSite == site && h.loan.Key == one.Key:
			one.N += h.loan.N
			h.loan = one
		case h.loanSite == "":
			h.loanSite, h.loan = site, one
		default:
			h.otherLoans++
		}
	}
	line := back && h.loanSite != "" && time.Since(h.loansLogged) >= lineEvery
	h.mu.Unlock()
	if line {
		h.reportLoans()
	}
}

// ShowsClock records the time that the store's clock showed at a time of this machine's.
func (h *Health) ShowsClock(store, here time.Time) {
	if store.IsZero() {
		return
	}
	ahead := store.Sub(here.Round(0))
	h.clockIsAhead.Store(&ahead)
}

// ClockIsOff logs errors of the store's clock.
func (h *Health) ClockIsOff(off lease.ClockFault) {
	if off.Step != 0 {
		h.stepLines.Do(func() {
			h.log.Warnf("the store's clock was set by %v: a window that had not begun by it before is not used until the present one has ended", off.Step.Round(time.Millisecond))
		})
	}
	if off.Behind > 0 {
		h.behindLines.Do(func() {
			h.log.Warnf("the store's clock is %v behind what its limits have seen: they grant nothing of a new window until it is there", off.Behind.Round(time.Millisecond))
		})
	}
}

// Inspect reads the settings of a store if that is due, and logs the warnings that are
// new. It is due each inspectEvery and after each outage, since the store may be another
// server then: in that case all warnings are logged. A store without settings has none.
func (h *Health) Inspect(ctx context.Context, of store.Store, patience time.Duration) {
	server, ok := of.(interface {
		Warnings(ctx context.Context) []string
	})
	now := time.Now()
	h.mu.Lock()
	outages, away := h.downtimes.count, !h.downtimes.since.IsZero()
	back := h.inspectOutages != outages
	due := h.inspected.IsZero() || back || now.Sub(h.inspected) >= inspectEvery
	h.mu.Unlock()
	if !ok || away || !due {
		return
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list := server.Warnings(within)
	h.mu.Lock()
	known := h.warnings
	h.warnings, h.inspected, h.inspectOutages = list, now, outages
	h.mu.Unlock()
	for _, one := range list {
		if back || !slices.Contains(known, one) {
			h.log.WithField("reason", one).Warnf("the store can be used, but: %s", one)
		}
	}
}

// Fill sets the fields of a status that follow from the answers of the store.
func (h *Health) Fill(s *status.Store) {
	now := time.Now()
	s.Clock = h.clockIsAhead.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if loss := h.lost; loss.All+loss.Sites > 0 || loss.Settles(now) {
		loss.At, loss.Until = loss.At.UTC(), loss.Until.UTC()
		s.Loss = &loss
	}
	s.Warnings = h.warnings
	s.Since, s.Outages, s.Operations, s.Failures = h.downtimes.since, h.downtimes.count, h.done+h.failed, h.failed
	if n := h.done + h.failed; n > 0 {
		s.Mean = h.took.Seconds() / float64(n)
	}
	if err := h.downtimes.err; err != nil {
		s.Err, s.Answered = err.Error(), store.Answered(err)
	}
}

// Report writes to the log the facts that were left out to limit its lines.
func (h *Health) Report() {
	h.reportLoans()
	h.mu.Lock()
	d := &h.downtimes
	outages, first, lasting := d.unlogged, d.first, d.lasting
	d.unlogged, d.first, d.lasting = 0, time.Time{}, 0
	losses, site := h.unloggedLosses, h.lost.Site
	h.unloggedLosses = 0
	h.mu.Unlock()
	if outages > 0 {
		h.log.Warnf("the store was away %s since %s, for %v in all", status.Number(outages, "more time", "more times"), first.UTC().Format(time.RFC3339), lasting.Round(time.Millisecond))
	}
	if losses > 0 {
		h.log.WithField("site", site).Warnf("the store has lost budgets of sites %d more times, of %s last", losses, site)
	}
}

// reportLoans writes to the log the loans that it does not have.
func (h *Health) reportLoans() {
	h.mu.Lock()
	site, loan, others := h.loanSite, h.loan, h.otherLoans
	h.loanSite, h.loan, h.otherLoans = "", lease.Loan{}, 0
	if site != "" {
		h.loansLogged = time.Now()
	}
	h.mu.Unlock()
	if site == "" {
		return
	}
	name, _, _ := strings.Cut(loan.Key, store.Separator)
	name, _, _ = strings.Cut(name, " by ") // the client or token, and the method and path
	name = strings.TrimSpace(name)
	otherLoans := ""
	if others > 0 {
		otherLoans = ", and some of other limits or sites"
	}
	h.log.WithFields(logrus.Fields{"site": site, "limit": name}).Warnf("lent %d of %d (%s at %s) while the store was away for %v, by outage: %s%s",
		loan.N, loan.Amount, name, site, loan.Away.Round(time.Millisecond), loan.Outage, otherLoans)
}

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
