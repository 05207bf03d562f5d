package lease

import (
	"math"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// rateWindow is the window of a rate, unless its amount would be less than one unit.
	rateWindow = time.Second
	// longestRate is the longest window of a rate.
	longestRate = 24 * time.Hour
	rateSlots   = 8

	// second is the interval of rate measurement.
	second = int64(time.Second)
	// horizonLeast is the minimum time that is asked for in advance.
	horizonLeast = int64(200 * time.Millisecond)
)

// Rate is a rate that instances share, for a limit that a server does not announce. It
// implements ledger.RateBudget.
type Rate struct {
	a      *Account
	name   string
	outage Outage
	*shared
}

// SharedRate makes the budget of a limit with that name. Nothing may be taken before Rate
// is called.
func (a *Account) SharedRate(name string, o Outage) *Rate { return &Rate{a: a, name: name, outage: o} }

// Rate sets the requests per second for all instances together. Leases of another rate
// expire, and nothing is wanted until a window of the old rate is over, since other
// instances may still use it: no more goes than either rate allows.
//
// A rate is granted in slots. A window and one more slot together last as long as the amount
// takes at that rate, so that the amount is used completely and never exceeded in any
// window.
func (r *Rate) Rate(now time.Time, perSecond float64) {
	at := r.a.clock.at(now)
	poll := int64(0)
	if r.shared != nil {
		poll = at.low + int64(r.held.budget.window)
		r.a.remove(r.shared)
	}
	amount := max(math.Floor(perSecond*rateWindow.Seconds()), 1)
	takes := time.Duration(min(amount/perSecond, longestRate.Seconds()) * float64(time.Second))
	b := rollingBudget(int64(min(amount, float64(maxAmount))), max(takes*rateSlots/(rateSlots+1), time.Millisecond), rateSlots)
	r.shared = newShared(r.a, r.name+"\x1f"+strconv.FormatFloat(perSecond, 'g', 6, 64), b, r.outage)
	r.demand.pollAt = poll
}

// Users returns the number of instances that use the rate, by the store's last answer.
func (r *Rate) Users() int64 {
	if r.shared == nil || !r.held.known.set {
		return 1
	}
	return int64(max(r.held.known.holders, 1))
}

// rollingBudget makes the budget of a rolling window with so many slots.
func rollingBudget(amount int64, window time.Duration, slots int) budget {
	width := store.Width(&store.Ask{Kind: store.Rolling, Window: window, Slots: slots})
	return budget{kind: store.Rolling, amount: amount, window: window, slots: slots, width: int64(width)}
}

// rateMeter measures how fast units are taken: in this second, and in the one before.
type rateMeter struct {
	secondStart            int64
	busySince              int64 // since when every second had a take
	thisSecond, lastSecond int64
}

func (p *rateMeter) add(low, n int64) {
	p.advance(low)
	p.thisSecond = min(p.thisSecond+n, maxAmount)
}

func (p *rateMeter) advance(low int64) {
	switch k := (low - p.secondStart) / second; {
	case k <= 0:
	case k == 1:
		p.secondStart, p.lastSecond, p.thisSecond = p.secondStart+second, p.thisSecond, 0
	default:
		p.secondStart, p.busySince, p.lastSecond, p.thisSecond = low, low, 0, 0
	}
}

// unitsIn returns how many units are taken in span at this rate.
func (p *rateMeter) unitsIn(low, span int64) int64 {
	p.advance(low)
	part := float64(second-(low-p.secondStart)) / float64(second)
	return int64((float64(p.lastSecond)*part + float64(p.thisSecond)) * float64(span) / float64(second))
}

// expectedFor returns how long the rate is expected to continue: a recent start may end as
// soon.
func (p *rateMeter) expectedFor(low int64) int64 { return 2*(low-p.busySince) + horizonLeast }
