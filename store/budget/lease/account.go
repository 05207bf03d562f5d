package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// minAnswerTimeout is the minimum timeout of an answer. The timeout is
	// answerTimeoutFactor times the usual time of an answer. After it the store counts as
	// away.
	minAnswerTimeout    = int64(time.Second)
	answerTimeoutFactor = 8
	// maxUsualAnswer bounds the usual time of an answer.
	maxUsualAnswer = 2 * int64(time.Second)
	// idleBeforeReturn is the time without a take after which unspent units are returned.
	idleBeforeReturn = int64(time.Second)
	// minRetry and maxRetry bound the pause before the next attempt to reach a store that
	// is away.
	minRetry = int64(50 * time.Millisecond)
	maxRetry = int64(time.Second)
)

// Options describe the instance that an account belongs to.
type Options struct {
	Instance string        // unique name of one run of a process
	Seq      func() uint64 // returns increasing numbers, for the whole process
	OnDue    func()        // called when Due has become earlier; must not block; may be nil
	Members  func() int    // number of instances; nil: 1
	Owns     func() bool   // this instance is expected to be the only user of the site; nil: it is not
	// Returned is the time at which the store became available again, by any account's observation; zero
	// or nil: it was not away.
	Returned func() time.Time
}

// Account is one instance's part of the budgets of one site: its leases and what it has to
// ask the store. It is not safe for concurrent use. Most callers need Due, Batch and
// Receive.
type Account struct {
	site  string
	o     Options
	clock clock

	sources      map[string]*source // with something to ask or to remember, by name
	ordered      []*source          // the same, in order of addition
	underWay     *sentBatch         // the Batch without an answer yet
	announcedDue int64              // the time that OnDue was last called for; never: not called since Due was read
	waitingSince int64              // since when a request waits for the next Batch; 0: none waits

	// The connection to the store.
	away          bool // the last Batch had no answer
	awaySince     int64
	usualAnswer   int64 // average time of an answer; 0: unknown
	returnedAt    int64 // low: when the store became available again; 0: it was not away
	membersBefore int64 // number of instances when the store was last available
	fewerSince    int64 // low: since when fewer are there, which count later, as the store may have lost its list; 0: none are
	pause         int64 // between attempts
	retryAt       int64
	awayFor       int64 // duration of the current or last outage
	ownsSite      bool  // Options.Owns at the last Batch

	generation     string   // the store's generation
	oldGenerations []string // earlier generations of the store
	noWantsBefore  int64    // nothing is wanted from the store before this time
	releasing      bool

	notes noteExchange
	store storeClock

	report Report // until Report
}

// Report has what was noticed since the one before.
type Report struct {
	Granted, Spent int64      // units granted and not returned in windows that have expired, and how many of them were used
	Loans          []Loan     // units taken without the store, one for each limit
	Clock          ClockFault // of the store
}

// Report returns what was noticed since its last call.
func (a *Account) Report() Report {
	r := a.report
	r.Clock, a.report, a.store.fault = a.store.fault, Report{}, ClockFault{}
	return r
}

// sentBatch is a Batch without an answer yet.
type sentBatch struct {
	sent       instant
	generation string
	first      uint64 // number of the first ask; 0: it has none
	notes      []store.Note
}

// NewAccount makes an account without leases.
func NewAccount(site string, o Options) *Account {
	return &Account{site: site, o: o, sources: map[string]*source{}, announcedDue: never}
}

// source returns the source of a name, which is a new one if the account has none.
func (a *Account) source(name string) *source {
	if s := a.sources[name]; s != nil {
		return s
	}
	return &source{name: name, planned: never}
}

// schedule records that a source may have something to ask from a time on.
func (a *Account) schedule(s *source, low int64) {
	if low >= s.planned {
		return
	}
	if s.planned = low; a.sources[s.name] == nil {
		a.sources[s.name] = s
		a.ordered = append(a.ordered, s)
	}
	a.announceDue(low)
}

func (a *Account) announceDue(low int64) {
	if low >= a.announcedDue {
		return
	}
	a.announcedDue = low
	if a.o.OnDue != nil {
		a.o.OnDue()
	}
}

// setWaiting records that a request cannot go before a Batch is answered.
func (a *Account) setWaiting(s *source, at instant) {
	a.schedule(s, at.low)
	if a.waitingSince == 0 && a.underWay == nil {
		a.waitingSince = at.low
	}
}

// waitStart returns the time since which an answer is awaited.
func (a *Account) waitStart(at instant) int64 {
	switch {
	case a.underWay != nil:
		return a.underWay.sent.low
	case a.waitingSince != 0:
		return a.waitingSince
	}
	return at.low
}

// answerDeadline returns the time at which the awaited answer times out.
func (a *Account) answerDeadline(at instant) int64 {
	return a.waitStart(at) + max(minAnswerTimeout, answerTimeoutFactor*a.usualAnswer)
}

// recordAnswerTime updates the usual time of an answer.
func (a *Account) recordAnswerTime(took int64) {
	took = min(took, maxUsualAnswer)
	a.usualAnswer = cmp.Or(a.usualAnswer, took)
	a.usualAnswer += (took - a.usualAnswer) / 8
}

// minAnswerTime is the shortest time of an answer.
const minAnswerTime = int64(time.Millisecond)

// checkAgainIn returns the time until the next check for an answer that is awaited since
// asked: as long again, because the rest of the wait is unknown.
func checkAgainIn(asked int64, at instant) int64 { return max(at.low-asked, minAnswerTime) }

// storeAway tells whether the store is away: its last answer was an error, or an answer is
// overdue.
func (a *Account) storeAway(at instant) bool { return a.away || at.low >= a.answerDeadline(at) }

// settledAt returns the time by which the instances have reported what they took during an
// outage; 0: there was none.
func (a *Account) settledAt(at instant) int64 {
	low := a.returnedAt
	if a.o.Returned != nil {
		if t := a.o.Returned(); !t.IsZero() {
			low = max(low, min(a.clock.low(t), at.low))
		}
	}
	if low == 0 {
		return 0
	}
	return low + int64(store.RecoveryTime)
}

// members returns the number of instances that divide a budget during an outage. After an outage
// the store needs a while to hear from all of them, so the number before it counts, too.
func (a *Account) members() int64 { return max(a.present(), a.membersBefore) }

func (a *Account) present() int64 {
	if a.o.Members == nil {
		return 1
	}
	return int64(max(a.o.Members(), 1))
}

// Due returns the time at which Batch should be called. It is zero if time alone does not decide: while a
// Batch is under way, and when there is nothing to ask.
func (a *Account) Due() time.Time {
	a.announcedDue = never
	if a.underWay != nil || !a.clock.set {
		return time.Time{}
	}
	low := never
	for _, s := range a.ordered {
		low = min(low, s.planned)
	}
	if a.notes.waiting() {
		low = min(low, a.clock.highest)
	}
	if low == never {
		return time.Time{}
	}
	if a.away {
		low = max(low, a.retryAt)
	}
	a.announcedDue = low
	return a.clock.time(low)
}

// Batch returns what there is to ask now. At most one Batch is under way; Receive ends it.
func (a *Account) Batch(now time.Time) (b store.Batch, ok bool) {
	at := a.clock.at(now)
	if a.underWay != nil || a.away && at.low < a.retryAt {
		return b, false
	}
	a.ownsSite = a.o.Owns != nil && a.o.Owns()
	speaks := a.notes.waiting()
	for _, s := range a.ordered {
		if s.planned > at.low {
			continue
		}
		if low := s.meter.due(at); low > at.low {
			s.planned = low
		} else {
			speaks = true
		}
	}
	a.forget(at)
	a.waitingSince = 0
	if !speaks {
		return b, false
	}
	f := &sentBatch{sent: at, generation: a.generation}
	b = store.Batch{Site: a.site, Instance: a.o.Instance, Generation: a.generation}
	for _, s := range a.ordered {
		if s.meter.due(at) > at.low {
			continue
		}
		seq := a.o.Seq()
		ask := s.meter.ask(now, at, seq)
		ask.Key, ask.Seq = s.name, seq
		f.first = cmp.Or(f.first, seq)
		b.Asks = append(b.Asks, ask)
		s.planned, s.asked, s.mustRestate = never, seq, false
	}
	f.notes = a.notes.take()
	b.Notes = f.notes
	a.underWay = f
	return b, true
}

// Receive takes the answer to the Batch under way, or the error instead. After it, requests
// that wait for a meter of the account should call When again.
func (a *Account) Receive(now time.Time, r *store.Reply, err error) {
	f := a.underWay
	if f == nil {
		return
	}
	at := a.clock.at(now)
	a.collectLoans(at)
	if err != nil || r == nil {
		a.underWay = nil
		a.pause = min(max(a.pause*2, minRetry), maxRetry)
		if !a.away {
			a.awaySince = f.sent.low
		}
		a.away, a.retryAt = true, at.low+a.pause
		a.notes.resend(f.notes)
		for _, s := range a.ordered {
			if s.asked != 0 {
				s.answerLost(at)
			}
		}
		a.replan(at)
		return
	}
	if f.first != 0 && !slices.ContainsFunc(r.Answers, func(ans store.Answer) bool { return ans.Seq >= f.first }) {
		return // an answer to an earlier Batch
	}
	if a.storeAway(at) {
		a.returnedAt = at.low
	}
	a.away, a.pause, a.underWay = false, 0, nil
	a.recordAnswerTime(at.low - f.sent.low)
	if !r.Now.IsZero() {
		a.store.observe(f.sent, at, r.Now)
	}
	switch n := a.present(); {
	case n >= a.membersBefore || a.settledAt(at) > at.low:
		a.membersBefore, a.fewerSince = max(n, a.membersBefore), 0
	case a.fewerSince == 0:
		a.fewerSince = at.low
	case at.low-a.fewerSince >= int64(store.Lifetime(int(a.membersBefore))):
		a.membersBefore = n
	}
	late := f.generation != a.generation && r.Generation != a.generation // NewGeneration came in between
	answers, foreign := r.Answers, false
	for _, s := range a.ordered {
		if s.asked == 0 {
			continue
		}
		for len(answers) > 0 && answers[0].Seq < s.asked { // of sources that are gone, or changed
			answers = answers[1:]
		}
		if late || len(answers) == 0 || answers[0].Seq != s.asked {
			s.answerLost(at)
			continue
		}
		ans := &answers[0]
		if behind := ans.Now.Sub(r.Now); !ans.Now.IsZero() && behind > minClockLag {
			a.store.fault.Behind = behind
		}
		s.asked, foreign = 0, foreign || ans.Status == store.Foreign
		s.meter.receive(now, at, f.sent, ans)
	}
	switch {
	case r.Generation == a.generation || late:
	case a.generation == "" && !foreign:
		a.generation = r.Generation
	default:
		a.newGeneration(at, r.Generation)
	}
	a.replan(at)
}

// replan updates the planned time of all sources after a change that concerns all.
func (a *Account) replan(at instant) {
	for _, s := range a.ordered {
		s.planned = s.meter.due(at)
		a.announceDue(s.planned)
	}
}

// NewGeneration tells that the store has a new generation: leases are stated again. For a
// new account it tells that the store is new and that other instances may not have returned
// yet.
func (a *Account) NewGeneration(now time.Time, generation string) {
	if generation == a.generation || slices.Contains(a.oldGenerations, generation) {
		return // known, or an outdated message
	}
	at := a.clock.at(now)
	a.newGeneration(at, generation)
	a.replan(at)
}

func (a *Account) newGeneration(at instant, generation string) {
	if a.generation != "" {
		a.oldGenerations = append(a.oldGenerations, a.generation)
		a.oldGenerations = a.oldGenerations[max(len(a.oldGenerations)-8, 0):]
	}
	a.generation = generation
	a.noWantsBefore = at.low + int64(store.RecoveryTime)
	a.restateAll()
}

func (a *Account) restateAll() {
	for _, s := range a.ordered {
		s.mustRestate = true
		if m, lends := s.meter.(lender); lends {
			m.restate()
		}
	}
}

// Restate tells that the store has lost budgets of the site: leases are stated again.
func (a *Account) Restate(now time.Time) {
	a.restateAll()
	a.replan(a.clock.at(now))
}

// RestateFirst has the next Batch begin with what was taken of a budget.
func (a *Account) RestateFirst(now time.Time, key string) {
	if s := a.sources[key]; s != nil {
		a.ordered = append([]*source{s}, slices.DeleteFunc(a.ordered, func(o *source) bool { return o == s })...)
		s.mustRestate = true
		a.schedule(s, a.clock.at(now).low)
	}
}

// Release tells that the instance stops: the next Batch returns all unspent units.
func (a *Account) Release(now time.Time) {
	a.releasing = true
	a.replan(a.clock.at(now))
}

// forget removes sources with nothing to remember. A meter that is used again is added
// again.
func (a *Account) forget(at instant) {
	a.ordered = slices.DeleteFunc(a.ordered, func(s *source) bool {
		ends := s.planned == never && s.forgettable(at)
		if ends {
			delete(a.sources, s.name)
		}
		return ends
	})
}

// collectLoans collects the loans of all meters when an answer or an error has arrived.
func (a *Account) collectLoans(at instant) {
	if a.away {
		a.awayFor = at.low - a.awaySince
	} else if a.storeAway(at) {
		a.awayFor = at.low - a.waitStart(at)
	}
	for _, s := range a.ordered {
		m, lends := s.meter.(lender)
		if !lends {
			continue
		}
		if loan := m.loan(); loan.N > 0 {
			loan.Away = time.Duration(a.awayFor)
			a.report.Loans = append(a.report.Loans, loan)
		}
	}
}

// remove forgets a source that will not be used any more.
func (a *Account) remove(s *source) {
	if a.sources[s.name] == s {
		delete(a.sources, s.name)
		a.ordered = slices.DeleteFunc(a.ordered, func(o *source) bool { return o == s })
	}
}
