package dispatch

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

// View shows what a Dispatcher knows and does. It changes nothing.
type View struct {
	current  *atomic.Pointer[Snapshot]
	gate     *queue.Gate
	breakers *backends.Breakers
	kept     *kept
	use      *limitUse
	bytes    *siteBytes
	shared   *coalescing // requests that may be shared
	loads    *backends.Loads
	activity *sitelog.Log
	clock    clock.Clock
	side     clientsSide                                 // nil: there is no clients' side
	ask      func(*Request, *http.Request) queue.Request // what the queue would be asked for
}

// clientsSide is what a View asks of the clients' side.
type clientsSide interface {
	// Unread is why a client's https to a host would pass unread, "" where it would
	// not, and until when a refusal of the client counts.
	Unread(p *policy.Policy, to policy.Target, x *Request) (policy.Unread, time.Time)
}

// NewView is a view of a Dispatcher behind a clients' side, which may be nil.
func NewView(d *Dispatcher, side clientsSide) *View {
	return &View{
		current: &d.config.current, gate: d.gate, breakers: d.admission.breakers.Breakers, kept: d.kept, use: d.housekeeper.use, bytes: d.bytes, shared: &d.coalescing, loads: &d.loads,
		activity: d.activity, clock: d.clock, side: side, ask: d.admission.ask,
	}
}

// Holds are the first of the requests that wait at a site, in order; "" is every site.
func (v *View) Holds(site string, most int) []status.Hold {
	now, waiting := v.clock.Now(), v.gate.HeldRequests(site)
	waiting = waiting[:min(len(waiting), most)]
	list := make([]status.Hold, len(waiting))
	for i, h := range waiting {
		list[i] = status.Hold{
			Site: h.Site, Client: h.Client, Priority: h.Priority, Waited: now.Sub(h.Since).Seconds(),
			Limit: h.Limit, Why: h.Why, Until: h.Until, Asks: h.Asking, Place: h.Place, Expected: h.ETA,
		}
	}
	return list
}

// HeldCounts counts the requests that wait at each site.
func (v *View) HeldCounts() map[queue.HeldCount]int { return v.gate.HeldCounts("") }

// Activity is what became of requests since the start.
func (v *View) Activity() sitelog.Summary { return v.activity.Summary() }

// Waiting is what waits at each site, in short.
func (v *View) Waiting() []queue.SiteWaiting {
	var list []queue.SiteWaiting
	v.gate.VisitWaiting(func(siteWaiting queue.SiteWaiting) { list = append(list, siteWaiting) })
	return list
}

// Blocked is how long a limit has held requests of a site back.
type Blocked = queue.Blocked

// Blocked tells for how long each limit that is remembered has held requests back.
func (v *View) Blocked() []Blocked { return v.gate.Blocked() }

// Observed tells how long each limit would have held back what was only observed.
func (v *View) Observed() []Blocked { return v.gate.Observed() }

// Breakers are those of all that failed lately.
func (v *View) Breakers() []status.Breaker { return v.breakers.All(v.clock.Now()) }

// Pools are all pools, in order of their names.
func (v *View) Pools() []PoolStatus { return v.current.Load().pools.status(v.clock.Now()) }

// LearnedSites are sites of which something has been learned, at most so many.
func (v *View) LearnedSites(most int) []string { return v.kept.learned.Known(most) }

// Store is how the store is.
func (v *View) Store() status.Store { return v.kept.budgets.Status() }

// Instances are those that use the store, this one included, as many as it lists.
func (v *View) Instances(ctx context.Context) []status.Member { return v.kept.budgets.Members(ctx) }

// Overrides are the limits that were set at run time, by site.
func (v *View) Overrides() map[string][]policy.Limit {
	limits := map[string][]policy.Limit{}
	for site, set := range v.kept.overrides.All() {
		if set.Limits != nil {
			limits[site] = set.Limits
		}
	}
	return limits
}

// Pauses are the pauses of sites that have not ended.
func (v *View) Pauses() map[string]status.Pause {
	pauses, now := map[string]status.Pause{}, v.clock.Now()
	for site, set := range v.kept.overrides.All() {
		if set.Pause != nil && !set.Pause.Over(now) {
			pauses[site] = *set.Pause
		}
	}
	return pauses
}

// Sizes are how many entries the bounded collections have.
func (v *View) Sizes() map[string]int {
	return map[string]int{
		"byte budgets":    v.bytes.Len(),
		"rates of use":    v.use.size(),
		"shared requests": v.shared.Members(),
		"breakers":        v.breakers.Len(),
	}
}

// InFlight is how many requests each backend, by its origin, is busy with.
func (v *View) InFlight() map[string]int64 { return v.loads.InFlight() }
