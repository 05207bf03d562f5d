package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store/budget"
)

// writtenLimits finds the limits of the configuration that have a meter, and their states.
type writtenLimits struct {
	gate    *queue.Gate
	current *atomic.Pointer[Snapshot]
	budgets *budget.Keeper // nil: nothing is stored, and nothing shared
}

// written is a limit of the configuration: its state as it is shown, and its meter.
type written struct {
	shown status.Limit
	now   time.Time
	at    queue.Scope
	spec  *limit.Spec
}

// used returns the used part of the limit, in its unit.
func (l *written) used() int64 { return max(l.most()-l.shown.Left, 0) }

// most returns the largest amount that can be left of the limit. A bucket never has more than
// its burst, so that an idle bucket is not taken for a used one.
func (l *written) most() int64 {
	return l.spec.AtOnce() + l.shown.Amount - l.spec.Amount // of bytes, Amount has the part that trickles as well
}

// each visits the limits of the configuration. It omits the trickle of limits of bytes, and
// limits that the configuration does not have any more.
func (s writtenLimits) each(visit func(l *written)) {
	var all []written
	s.gate.VisitLimits(func(now time.Time, site string, at queue.Scope, title string, spec *limit.Spec, left int64, m limit.Meter) {
		if spec == nil || strings.HasSuffix(at.Limit, bandwidth.TrickleSuffix) {
			return
		}
		if shared, ok := m.(interface{ Rest(now time.Time) int64 }); ok {
			left = shared.Rest(now) // not only what is leased to this instance
		}
		got := *spec
		item := written{now: now, at: at, spec: &got}
		rate := 0.0
		if adaptive, ok := m.(interface{ Rate(now time.Time) float64 }); ok && spec.Traits().Adapts {
			rate = adaptive.Rate(now)
		}
		item.shown = status.Limit{Site: site, Limit: title, Of: at.Key, Amount: spec.Amount, Left: left, Rate: rate}
		all = append(all, item)
	})
	if len(all) == 0 {
		return
	}
	st := s.current.Load()
	rules := st.writtenRules()
	var owners owners // made only where a limit belongs to a token
	for i := range all {
		item := &all[i]
		rule := rules[item.at.Limit]
		if rule == nil {
			continue
		}
		item.shown.Unit, item.shown.Per = string(rule.Unit), rule.Per.String()
		item.shown.By, item.shown.Window = string(rule.By), item.spec.Length().Seconds()
		if rule.Unit == policy.Bytes { // the part that trickles is in the title, too
			whole := bandwidth.Whole(item.shown.Amount)
			item.shown.Amount, item.shown.Left = whole, min(item.shown.Left+whole-item.shown.Amount, whole)
		}
		item.shown.Most = item.most()
		if !item.spec.Traits().Windowed {
			item.shown.Per = ""
		} else if s.budgets != nil {
			item.shown.Shared = s.budgets.Shared() && item.spec.Shareable()
			item.shown.Kept = !s.budgets.Shared()
		}
		if item.shown.Of != "" {
			if owners.sites == nil {
				owners = st.owners(item.now)
			}
			if pool := owners.pool(st.policy, item.shown.Site); pool != "" {
				item.shown.Of = cmp.Or(owners.labels[pool][item.shown.Of], item.shown.Of)
			}
		}
		visit(item)
	}
}

// writtenRules returns the limits as the operator has written them, by identity. Limits that
// differ only in the amount have the same identity.
func (st *Snapshot) writtenRules() map[string]*policy.Limit {
	rules := map[string]*policy.Limit{}
	add := func(p *plans.Plan) {
		if p == nil {
			return
		}
		for i := range p.Limits {
			rules[p.Limits[i].Need.Name] = p.Limits[i].Rule
		}
	}
	for _, p := range st.plans {
		add(p)
	}
	for _, p := range st.own {
		add(p)
	}
	return rules
}

// usedBefore returns the part of a limit that had been used when the process began. It tells that
// once for each limit.
func (s writtenLimits) usedBefore(l *written) int64 {
	left, known := s.budgets.LeftBefore(l.shown.Site, l.at)
	if !known {
		return 0
	}
	before := written{shown: status.Limit{Amount: l.spec.Amount, Left: left}, spec: l.spec}
	return before.used()
}

// WrittenLimits are all that are remembered, in order.
func (v *View) WrittenLimits() []status.Limit {
	var list []status.Limit
	v.use.limits.each(func(l *written) { list = append(list, l.shown) })
	slices.SortFunc(list, func(a, b status.Limit) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Of, b.Of))
	})
	return list
}

// Forecast tells of the limits with long windows, of one site or "" for all, when they are used
// up at the present rate, and when so many more requests would be done.
func (v *View) Forecast(site string, requests int64) []status.Forecast {
	v.use.sample() // it may have been a while
	var list []status.Forecast
	v.use.limits.each(func(l *written) {
		if site != "" && l.shown.Site != site || !forecast.Covers(l.spec) {
			return
		}
		f := status.Forecast{Site: l.shown.Site, Limit: l.shown.Limit, Of: l.shown.Of, Amount: l.shown.Amount, Left: l.shown.Left, Used: l.used(), Unit: l.shown.Unit}
		f.Rate = v.use.rateOf(l)
		more := requests
		if l.shown.Unit == string(policy.Bytes) {
			more = 0 // requests say nothing of bytes
		}
		b := forecast.Budget{Spec: *l.spec, Amount: l.shown.Amount, Used: f.Used, Left: l.shown.Left, Rate: f.Rate}
		ahead := b.Forecast(l.now, more)
		f.Opens, f.Ends, f.RunsOut, f.Done = ahead.Opens, ahead.Ends, ahead.RunsOut, ahead.Done
		list = append(list, f)
	})
	slices.SortFunc(list, func(a, b status.Forecast) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Of, b.Of))
	})
	return list
}

const (
	// sampleEvery is the time between two samples of how much of the limits is used.
	sampleEvery = 2 * time.Second
	// mostUsed bounds the limits of which the use is sampled.
	mostUsed = 10_000
)

// slotName names a meter: by its site, its limit and its key.
type slotName struct {
	site string
	at   queue.Scope
}

// limitUse measures the rates at which the limits with long windows are used.
type limitUse struct {
	limits writtenLimits

	mu    sync.Mutex
	known map[slotName]*forecast.Rate
}

func newLimitUse(limits writtenLimits) *limitUse {
	return &limitUse{limits: limits, known: map[slotName]*forecast.Rate{}}
}

// sample samples how much of the limits is used.
func (u *limitUse) sample() {
	seen := map[slotName]bool{}
	u.limits.each(func(l *written) {
		if !forecast.Covers(l.spec) || len(seen) >= mostUsed {
			return
		}
		name := slotName{l.shown.Site, l.at}
		seen[name] = true
		u.mu.Lock()
		defer u.mu.Unlock()
		rate := u.known[name]
		if rate == nil {
			// All that was not used before the start was used since the last sample.
			used := l.used()
			if !l.shown.Shared {
				used = min(u.limits.usedBefore(l), used)
			}
			rate = forecast.NewRate(l.now.Add(-sampleEvery), used)
			u.known[name] = rate
		}
		rate.Sample(l.now, l.used(), *l.spec)
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.known {
		if !seen[name] {
			delete(u.known, name)
		}
	}
}

// rateOf returns the rate at which a limit is used lately, per second.
func (u *limitUse) rateOf(l *written) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if rate := u.known[slotName{l.shown.Site, l.at}]; rate != nil {
		return rate.PerSecond()
	}
	return 0
}

// size counts the limits of which the use is sampled.
func (u *limitUse) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.known)
}
