package proxy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
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
	Unit               string // requests, bytes, cost or in flight
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

const (
	// sampleEvery is how often it is looked how much of the limits is used.
	sampleEvery = 2 * time.Second
	// lately is what the present rate is about.
	lately = 10 * time.Minute
	// mostUsages is how many limits' use is followed.
	mostUsages = 10_000
	// foreseen are the windows whose use is foreseen.
	foreseen = 10 * time.Minute
)

// WrittenLimits are all that are remembered, in order.
func (s *Server) WrittenLimits() []WrittenLimit {
	var list []WrittenLimit
	s.eachWritten(func(_ time.Time, l WrittenLimit, _ *limit.Spec) { list = append(list, l) })
	slices.SortFunc(list, func(a, b WrittenLimit) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Whose, b.Whose))
	})
	return list
}

// eachWritten visits the limits that somebody has written, but for the small part of
// those of bytes that trickles.
func (s *Server) eachWritten(visit func(now time.Time, l WrittenLimit, spec *limit.Spec)) {
	type seen struct {
		now time.Time
		at  queue.Scope
		WrittenLimit
		spec limit.Spec
	}
	var all []seen
	s.gate.Limits(func(now time.Time, site string, at queue.Scope, title string, spec *limit.Spec, left int64, m limit.Meter) {
		if spec == nil || strings.HasSuffix(at.Limit, trickleSuffix) {
			return
		}
		if shared, ok := m.(interface{ Rest(now time.Time) int64 }); ok {
			left = shared.Rest(now) // not only what is leased to this instance
		}
		one := seen{now: now, at: at, spec: *spec}
		one.WrittenLimit = WrittenLimit{Site: site, Limit: title, Whose: at.Key, Amount: spec.Amount, Left: left, Per: spec.Window.String()}
		all = append(all, one)
	})
	var owners owners // asked for only where a limit is somebody's
	for i := range all {
		one := &all[i]
		one.Unit, one.Per = unitOf(one.at.Limit, one.Per)
		if one.Unit == string(policy.Bytes) { // the part that trickles is in the title, too
			whole := wholeOf(one.Amount)
			one.Amount, one.Left = whole, min(one.Left+whole-one.Amount, whole)
		}
		if one.spec.As == limit.Concurrency || one.spec.As == limit.Adaptive {
			one.Per = ""
		}
		if s.desk != nil && one.spec.As != limit.Concurrency && one.spec.As != limit.Adaptive {
			one.Shared = s.desk.shared && lease.Shareable(one.spec)
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
		visit(one.now, one.WrittenLimit, &one.spec)
	}
}

// unitOf is what a limit counts and per what, by its identity.
func unitOf(identity, per string) (unit, window string) {
	words := strings.Fields(identity)
	if len(words) < 4 {
		return string(policy.Requests), per
	}
	return words[1], words[3]
}

// usage is how fast one limit is used.
type usage struct {
	used int64
	at   time.Time
	rate float64 // per second
}

// usages are those of the limits with long windows.
type usages struct {
	mu    sync.Mutex
	known map[[3]string]*usage // :: site, limit and whose →
}

// sampleOnce looks how much of the limits is used.
func (s *Server) sampleOnce() {
	u := &s.usages
	seen := map[[3]string]bool{}
	s.eachWritten(func(now time.Time, l WrittenLimit, spec *limit.Spec) {
		if !lasts(spec) || len(seen) >= mostUsages {
			return
		}
		at := [3]string{l.Site, l.Limit, l.Whose}
		seen[at] = true
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.known == nil {
			u.known = map[[3]string]*usage{}
		}
		if one := u.known[at]; one != nil {
			one.heard(now, l.Amount-l.Left)
		} else {
			u.known[at] = &usage{used: l.Amount - l.Left, at: now}
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	for at := range u.known {
		if !seen[at] {
			delete(u.known, at)
		}
	}
}

// lasts tells whether a limit's window is long enough to be foreseen.
func lasts(spec *limit.Spec) bool {
	return spec.As == limit.Quota || spec.Window >= foreseen && spec.As != limit.Concurrency && spec.As != limit.Adaptive
}

// heard is how much is used now. Less than before is a window that has begun.
func (u *usage) heard(now time.Time, used int64) {
	took := now.Sub(u.at)
	if took <= 0 {
		return
	}
	more := used - u.used
	if more < 0 {
		more = used
	}
	// What is older than lately counts less and less.
	weight := float64(took) / float64(lately+took)
	if u.rate == 0 {
		weight = 1
	}
	u.rate += weight * (float64(more)/took.Seconds() - u.rate)
	u.used, u.at = used, now
}

// Forecast says of the limits with long windows, of one site or "" for all, when they
// end at the present rate, and when so many more requests would be done.
func (s *Server) Forecast(site string, requests int64) []Forecast {
	s.sampleOnce() // it may have been a while
	var list []Forecast
	s.eachWritten(func(now time.Time, l WrittenLimit, spec *limit.Spec) {
		if site != "" && l.Site != site || !lasts(spec) {
			return
		}
		f := Forecast{Site: l.Site, Limit: l.Limit, Whose: l.Whose, Amount: l.Amount, Left: l.Left, Used: l.Amount - l.Left, Unit: l.Unit}
		s.usages.mu.Lock()
		if one := s.usages.known[[3]string{l.Site, l.Limit, l.Whose}]; one != nil {
			f.Rate = one.rate
		}
		s.usages.mu.Unlock()
		f.foresee(now, *spec, requests)
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
	if f.Rate > 0 {
		out := now.Add(seconds(float64(f.Left) / f.Rate))
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
