package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// leastWait is how long an answer is waited for at least, and usualTimes how many
	// times as long as answers take as a rule. After that the store is away.
	leastWait  = int64(time.Second)
	usualTimes = 8
	// longestUsual is the longest that answers take as a rule.
	longestUsual = 2 * int64(time.Second)
	// quiet is how long nothing is taken before what is unspent goes back.
	quiet = int64(time.Second)
	// retries is how long it takes at first, and at last, to try again a store that is away.
	retries     = int64(50 * time.Millisecond)
	retriesMost = int64(time.Second)
)

// Options are what an account needs to know of its instance.
type Options struct {
	Instance string        // of one life of a process: never used again
	Seq      func() uint64 // grows for the whole process
	Bell     func()        // called when Due has become earlier; it never blocks; may be nil
	Members  func() int    // how many instances there are; nil: this one
	Several  func() bool   // other processes of this machine use the store; nil: none does
	Owns     func() bool   // no other instance is expected to use the site; nil: others may
	// Returned is when the store was found to be there again after it was away, whoever
	// noticed; zero or nil: it was not away.
	Returned func() time.Time
}

// Meter is what the meters of an account can do beside counting.
type Meter interface {
	limit.Meter
	// Demand says how much waits for the meter and cannot go. It is said again when
	// that changes, and counts until so much was taken.
	Demand(now time.Time, units int64)
}

// Account is what one instance has of the budgets of one site. It is not safe for
// concurrent use. Most callers want Due, Batch and Hear.
type Account struct {
	site  string
	o     Options
	clock clock

	meters map[string]party // those that have something to say or to remember
	order  []party          // the same, in the order in which they came
	flight *flight          // the Batch that is under way
	rung   int64            // for when the bell was rung last; never: not since Due was looked at
	rang   int64            // when somebody began to wait for a Batch to be made; 0: nobody does

	away      bool // the last Batch had no answer
	awaySince int64
	usual     int64 // how long an answer takes, on average; 0: none has come
	returned  int64 // low: when the store was there again; 0: it was not away
	together  int64 // how many instances there were when the store was there
	pause     int64 // between tries
	retryAt   int64

	owns bool // by Options.Owns, when a Batch was made last

	generation string
	before     []string // generations that were
	settled    int64    // nothing is wanted before
	releasing  bool

	talk  talk
	store storeClock

	leased leased
	loans  []Loan // not asked for yet: one of each limit
	lasted int64  // how long the store has been away, or was the last time
}

// leased is what became of leases whose windows do not count any more.
type leased struct{ granted, spent int64 }

// Leased is how much was granted and not given back in windows that do not count any
// more, and how much of that was used, since it was asked last.
func (a *Account) Leased() (granted, spent int64) {
	was := a.leased
	a.leased = leased{}
	return was.granted, was.spent
}

// party is a meter, seen from its account.
type party interface {
	name() string
	due(at instant, eager bool) int64                        // from when on there is something to say
	ask(now time.Time, at instant) store.Ask                 // and what
	hear(now time.Time, at, sent instant, ans *store.Answer) // Seq is that of its ask
	lost(at instant)                                         // nothing is known of what became of it
	renew(at instant)                                        // the store may know nothing any more
	when() int64                                             // due, as far as it was looked at
	plan(low int64)                                          // sets that
	done(at instant) bool                                    // there is nothing to remember
}

// flight is a Batch on its way.
type flight struct {
	sent       instant
	generation string
	seqs       map[string]uint64 // :: name of a party → its ask's
	notes      []store.Note
}

// NewAccount is an account that has nothing.
func NewAccount(site string, o Options) *Account {
	return &Account{site: site, o: o, meters: map[string]party{}, rung: never}
}

// join makes a party one of those that are looked at.
func (a *Account) join(p party) {
	old, known := a.meters[p.name()]
	switch {
	case old == p:
		return
	case known:
		for i := range a.order {
			if a.order[i] == old {
				a.order[i] = p
			}
		}
	default:
		a.order = append(a.order, p)
	}
	a.meters[p.name()] = p
}

// stir says that a party may have something to say from a moment on.
func (a *Account) stir(p party, low int64) {
	if low >= p.when() {
		return
	}
	p.plan(low)
	a.join(p)
	a.ring(low)
}

func (a *Account) ring(low int64) {
	if low >= a.rung {
		return
	}
	a.rung = low
	if a.o.Bell != nil {
		a.o.Bell()
	}
}

// waits says that somebody cannot go before a Batch was answered.
func (a *Account) waits(p party, at instant) {
	a.stir(p, at.low)
	if a.rang == 0 && a.flight == nil {
		a.rang = at.low
	}
}

// asked is since when an answer is waited for.
func (a *Account) asked(at instant) int64 {
	switch {
	case a.flight != nil:
		return a.flight.sent.low
	case a.rang != 0:
		return a.rang
	}
	return at.low
}

// answers is until when an answer is waited for.
func (a *Account) answers(at instant) int64 {
	return a.asked(at) + max(leastWait, usualTimes*a.usual)
}

// measure notes how long an answer took.
func (a *Account) measure(took int64) {
	took = min(took, longestUsual)
	if a.usual == 0 {
		a.usual = took
	}
	a.usual += (took - a.usual) / 8
}

// soonest is how long an answer takes at least.
const soonest = int64(time.Millisecond)

// shortly is in how long an answer may come to what was asked a while ago. Nobody knows,
// so it is worth another look after as long again.
func shortly(asked int64, at instant) int64 { return max(at.low-asked, soonest) }

// alone tells whether the store is away: it has answered with an error, or not for long.
func (a *Account) alone(at instant) bool { return a.away || at.low >= a.answers(at) }

// settling is until when those who lend say what they took while the store was away.
func (a *Account) settling(at instant) int64 {
	low := a.returned
	if a.o.Returned != nil {
		if t := a.o.Returned(); !t.IsZero() {
			low = max(low, min(a.clock.low(t), at.low))
		}
	}
	if low == 0 {
		return 0
	}
	return low + int64(store.Settling)
}

// members is among how many instances a budget is divided while the store is away. After
// that it takes a while until the store has heard of all of them again.
func (a *Account) members() int64 { return max(a.present(), a.together) }

func (a *Account) present() int64 {
	if a.o.Members == nil {
		return 1
	}
	return int64(max(a.o.Members(), 1))
}

// Due is when Batch is worth calling. It is zero when that is not by time alone: while
// a Batch is under way, and when there is nothing to say.
func (a *Account) Due() time.Time {
	a.rung = never
	if a.flight != nil || !a.clock.set {
		return time.Time{}
	}
	low := never
	for _, p := range a.order {
		low = min(low, p.when())
	}
	if a.talk.waiting() {
		low = min(low, a.clock.last)
	}
	if low == never {
		return time.Time{}
	}
	if a.away {
		low = max(low, a.retryAt)
	}
	a.rung = low
	return a.clock.time(low)
}

// Batch is what there is to say now. At most one is under way: it is ended by Hear.
func (a *Account) Batch(now time.Time) (b store.Batch, ok bool) {
	at := a.clock.at(now)
	if a.flight != nil || a.away && at.low < a.retryAt {
		return b, false
	}
	a.owns = a.o.Owns != nil && a.o.Owns()
	speaks := a.talk.waiting()
	for _, p := range a.order {
		if p.when() > at.low {
			continue
		}
		if low := p.due(at, false); low > at.low {
			p.plan(low)
		} else {
			speaks = true
		}
	}
	a.forget(at)
	a.rang = 0
	if !speaks {
		return b, false
	}
	f := &flight{sent: at, generation: a.generation, seqs: map[string]uint64{}}
	b = store.Batch{Site: a.site, Instance: a.o.Instance, Generation: a.generation}
	for _, p := range a.order {
		if p.due(at, true) > at.low {
			continue // and the others go along
		}
		ask := p.ask(now, at)
		ask.Seq = a.o.Seq()
		if k, is := p.(*kept); is && k.joint != nil {
			ask.Joint.Uses = k.joint.say(now, ask.Seq)
		}
		f.seqs[ask.Key] = ask.Seq
		b.Asks = append(b.Asks, ask)
		p.plan(never)
	}
	f.notes = a.talk.take()
	b.Notes = f.notes
	a.flight = f
	return b, true
}

// Hear is the answer to the Batch that is under way, or that there is none. Whoever
// waits for a meter of the account should ask it again after that.
func (a *Account) Hear(now time.Time, r *store.Reply, err error) {
	f := a.flight
	if f == nil {
		return
	}
	at := a.clock.at(now)
	a.tellLoans(at)
	if err != nil || r == nil {
		a.flight = nil
		a.pause = min(max(a.pause*2, retries), retriesMost)
		if !a.away {
			a.awaySince = f.sent.low
		}
		a.away, a.retryAt = true, at.low+a.pause
		a.talk.again(f.notes)
		for _, p := range a.order {
			if f.seqs[p.name()] != 0 {
				p.lost(at)
			}
		}
		a.look(at)
		return
	}
	answers := make(map[string]*store.Answer, len(r.Answers))
	foreign := false
	for i := range r.Answers {
		ans := &r.Answers[i]
		if seq := f.seqs[ans.Key]; seq != 0 && seq == ans.Seq {
			answers[ans.Key] = ans
			foreign = foreign || ans.Status == store.Foreign
		}
	}
	if len(answers) == 0 && len(f.seqs) > 0 {
		return // it answers something else
	}
	if a.alone(at) {
		a.returned = at.low
	}
	a.away, a.pause, a.flight = false, 0, nil
	a.measure(at.low - f.sent.low)
	if !r.Now.IsZero() {
		a.store.hear(f.sent, at, r.Now)
	}
	if a.settling(at) <= at.low {
		a.together = a.present()
	}
	a.talk.hear(now, r.Notes)
	late := f.generation != a.generation && r.Generation != a.generation // Renew came in between
	for _, p := range a.order {
		if f.seqs[p.name()] == 0 {
			continue
		}
		if ans := answers[p.name()]; ans != nil && !late {
			if behind := ans.Now.Sub(r.Now); !ans.Now.IsZero() && behind > behindLeast {
				a.store.off.Behind = behind
			}
			p.hear(now, at, f.sent, ans)
		} else {
			p.lost(at)
		}
	}
	switch {
	case r.Generation == a.generation || late:
	case a.generation == "" && !foreign:
		a.generation = r.Generation
	default:
		a.renew(at, r.Generation)
	}
	a.look(at)
}

// look plans anew after something has changed for all.
func (a *Account) look(at instant) {
	for _, p := range a.order {
		low := p.due(at, false)
		p.plan(low)
		a.ring(low)
	}
}

// Renew says that the store has another generation than before, as a pulse has seen:
// what is held is said again. For a new account it says that the store is new, and
// that others may not have come back yet.
func (a *Account) Renew(now time.Time, generation string) {
	if generation == a.generation {
		return
	}
	for _, old := range a.before {
		if old == generation {
			return // a pulse that came late
		}
	}
	at := a.clock.at(now)
	a.renew(at, generation)
	a.look(at)
}

func (a *Account) renew(at instant, generation string) {
	if a.generation != "" {
		a.before = append(a.before, a.generation)
		a.before = a.before[max(len(a.before)-8, 0):]
	}
	a.generation = generation
	a.settled = at.low + int64(store.Settling)
	for _, p := range a.order {
		p.renew(at)
	}
}

// Repeat says that the store has lost budgets of the site: what is held is said again.
func (a *Account) Repeat(now time.Time) {
	at := a.clock.at(now)
	for _, p := range a.order {
		p.renew(at)
	}
	a.look(at)
}

// Release says that the instance stops: the next Batch gives back all that is unspent.
func (a *Account) Release(now time.Time) {
	a.releasing = true
	a.look(a.clock.at(now))
}

// Idle tells whether nothing is held or to be said: an account that is made anew
// would be as good.
func (a *Account) Idle(now time.Time) bool {
	if a.flight != nil || a.talk.waiting() {
		return false
	}
	at := a.clock.at(now)
	for _, p := range a.order {
		if !p.done(at) {
			return false
		}
	}
	return true
}

// forget leaves out who has nothing to remember. A meter that is used again comes back.
func (a *Account) forget(at instant) {
	n := 0
	for _, p := range a.order {
		if p.when() == never && p.done(at) {
			delete(a.meters, p.name())
			continue
		}
		a.order[n] = p
		n++
	}
	clear(a.order[n:])
	a.order = a.order[:n]
}
