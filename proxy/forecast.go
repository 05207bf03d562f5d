package proxy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// WrittenLimit is how a limit of the configuration, or one that was set at run time,
// stands for one of those who have it.
type WrittenLimit struct {
	Site, Limit, Whose string // Whose is "" where it is everyone's together
	Amount, Left       int64
	Most               int64   // that can be left: the amount, or the burst of a bucket
	Rate               float64 // of an adaptive limit, now, per second; 0 of others
	Unit               string  // requests, bytes, cost or in flight
	Per                string
	Shared, Kept       bool
}

// Forecast says when a limit of a long window ends at the present rate.
type Forecast struct {
	Site, Limit, Whose string
	Amount, Used, Left int64
	Unit               string
	Opens, Ends        time.Time // of the window; zero: it has no edges
	Rate               float64   // per second, lately
	RunsOut            time.Time // zero: not in this window
	Done               time.Time // when N more would be done; zero without N, or never
}

// WrittenLimits are all that are remembered, in order.
func (s *Server) WrittenLimits() []WrittenLimit {
	var list []WrittenLimit
	s.eachWritten(func(l *written) { list = append(list, l.WrittenLimit) })
	slices.SortFunc(list, func(a, b WrittenLimit) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Whose, b.Whose))
	})
	return list
}

// written is such a limit with what it comes from.
type written struct {
	WrittenLimit
	now  time.Time
	at   queue.Scope
	spec *limit.Spec
}

// used is how much of the limit is.
func (l *written) used() int64 { return max(l.most()-l.Left, 0) }

// most is how much can be left of the limit at most. A bucket never has more than its
// burst, so that an idle one is not taken for one that is used.
func (l *written) most() int64 {
	if l.spec.As != limit.Bucket || l.spec.Burst <= 0 {
		return l.Amount
	}
	if l.Unit == string(policy.Bytes) { // with the part that trickles
		return l.spec.Burst + l.Amount - l.spec.Amount
	}
	return l.spec.Burst
}

// eachWritten visits the limits that somebody has written, but for the small part of
// those of bytes that trickles. Those that are in no configuration any more, and are
// remembered yet, are not among them.
func (s *Server) eachWritten(visit func(l *written)) {
	var all []written
	s.gate.Limits(func(now time.Time, site string, at queue.Scope, title string, spec *limit.Spec, left int64, m limit.Meter) {
		if spec == nil || strings.HasSuffix(at.Limit, trickleSuffix) {
			return
		}
		if shared, ok := m.(interface{ Rest(now time.Time) int64 }); ok {
			left = shared.Rest(now) // not only what is leased to this instance
		}
		is := *spec
		one := written{now: now, at: at, spec: &is}
		rate := 0.0
		if adaptive, ok := m.(interface{ Rate(now time.Time) float64 }); ok && spec.As == limit.Adaptive {
			rate = adaptive.Rate(now)
		}
		one.WrittenLimit = WrittenLimit{Site: site, Limit: title, Whose: at.Key, Amount: spec.Amount, Left: left, Rate: rate}
		all = append(all, one)
	})
	if len(all) == 0 {
		return
	}
	rules := s.state.Load().writtenRules()
	var owners owners // asked for only where a limit is somebody's
	for i := range all {
		one := &all[i]
		rule := rules[one.at.Limit]
		if rule == nil {
			continue
		}
		one.Unit, one.Per = string(rule.Unit), rule.Per.String()
		if rule.Unit == policy.Bytes { // the part that trickles is in the title, too
			whole := wholeOf(one.Amount)
			one.Amount, one.Left = whole, min(one.Left+whole-one.Amount, whole)
		}
		one.Most = one.most()
		if one.spec.As == limit.Concurrency || one.spec.As == limit.Adaptive {
			one.Per = ""
		} else if s.desk != nil {
			one.Shared = s.desk.shared && lease.Shareable(*one.spec)
			one.Kept = !s.desk.shared
		}
		if one.Whose != "" {
			if owners.sites == nil {
				owners = s.owners()
			}
			if pool := owners.pool(s, one.Site); pool != "" {
				one.Whose = cmp.Or(owners.labels[pool][one.Whose], one.Whose)
			}
		}
		visit(one)
	}
}

// writtenRules are what the operator has written of all limits, by their identity, which
// says all of them but the amount.
func (st *state) writtenRules() map[string]*policy.Limit {
	rules := map[string]*policy.Limit{}
	add := func(p *plan) {
		if p == nil {
			return
		}
		for i := range p.limits {
			rules[p.limits[i].need.Name] = p.limits[i].rule
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

// Forecast says of the limits with long windows, of one site or "" for all, when they
// end at the present rate, and when so many more requests would be done.
func (s *Server) Forecast(site string, requests int64) []Forecast {
	s.sampleOnce() // it may have been a while
	var list []Forecast
	s.eachWritten(func(l *written) {
		if site != "" && l.Site != site || !lasts(l.spec) {
			return
		}
		f := Forecast{Site: l.Site, Limit: l.Limit, Whose: l.Whose, Amount: l.Amount, Left: l.Left, Used: l.used(), Unit: l.Unit}
		f.Rate = s.usages.rateOf(l)
		f.foresee(l.now, *l.spec, requests)
		list = append(list, f)
	})
	slices.SortFunc(list, func(a, b Forecast) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Whose, b.Whose))
	})
	return list
}

// foresee fills in when the window ends, when nothing is left, and when so many more
// would be done. Without a present rate, that is as fast as the limit allows.
func (f *Forecast) foresee(now time.Time, spec limit.Spec, requests int64) {
	width := spec.Window
	if edges := edgesOf(now, spec); edges != nil {
		f.Opens, f.Ends = edges[0], edges[1]
		width = edges[1].Sub(edges[0])
	}
	if spare := f.Rate - f.comesBack(spec); spare > 0 {
		out := now.Add(seconds(float64(f.Left) / spare))
		if f.Ends.IsZero() || out.Before(f.Ends) {
			f.RunsOut = out
		}
	}
	if requests <= 0 || f.Unit == string(policy.Bytes) {
		return
	}
	took := func(n int64) time.Duration {
		if f.Rate <= 0 {
			return 0
		}
		return min(seconds(float64(n)/f.Rate), longestRest)
	}
	if requests <= f.Left {
		f.Done = now.Add(took(requests))
		return
	}
	rest, next := requests-f.Left, f.Ends
	if next.IsZero() {
		next = now.Add(width)
	}
	whole := (rest - 1) / max(f.Amount, 1)
	last := rest - whole*f.Amount
	if float64(whole)*width.Hours() > longestRest.Hours() {
		return // not in a year
	}
	// A window takes as long as it is, or longer at the present rate.
	each := max(width, took(f.Amount))
	f.Done = next.Add(time.Duration(whole) * each).Add(took(last))
}

// comesBack is how much per second is there again by itself, of limits whose windows
// have no edges.
func (f *Forecast) comesBack(spec limit.Spec) float64 {
	window := max(spec.Window.Seconds(), 1)
	most := float64(f.Amount) / window
	switch {
	case spec.As == limit.Bucket, spec.As == limit.Rolling && f.Rate <= most:
		return most
	case spec.As == limit.Rolling: // it comes back as it was taken
		return min(float64(f.Used)/window, most)
	}
	return 0
}

func seconds(n float64) time.Duration {
	return time.Duration(min(n, longestRest.Seconds()) * float64(time.Second))
}

// edgesOf are the beginning and the end of the window that is open, nil if it has
// none.
func edgesOf(now time.Time, spec limit.Spec) []time.Time {
	if spec.As != limit.Quota && spec.As != limit.Fixed {
		return nil
	}
	end := edgeAfter(now, spec)
	if end.IsZero() {
		return nil
	}
	// The window before ends where this one begins.
	width := spec.Window
	switch spec.Period {
	case limit.Day:
		width = 24 * time.Hour
	case limit.Week:
		width = 7 * 24 * time.Hour
	case limit.Month:
		width = 31 * 24 * time.Hour
	}
	for at := end.Add(-width - 2*time.Hour); at.Before(end); {
		next := edgeAfter(at, spec)
		if next.IsZero() {
			return nil
		}
		if !next.Before(end) {
			return []time.Time{at, end}
		}
		at = next
	}
	return nil
}

// edgeAfter is the end of the window that a time is in.
func edgeAfter(at time.Time, spec limit.Spec) time.Time {
	spec.Amount = 1
	m, err := limit.New(spec)
	if err != nil {
		return time.Time{}
	}
	at = at.Round(0) // by the clock, for which these windows are
	m.Take(at, 1)
	end, ok := m.When(at, 1)
	if !ok || !end.After(at) {
		return time.Time{}
	}
	return end
}
