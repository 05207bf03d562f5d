package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/status"
)

// mostLooks bounds how often a forecast looks at the alternatives of a hold. Holds that have not
// gone by then have no expected time.
const mostLooks = 200_000

// forecast lets the holds of a site go in virtual time, in a scheduler of their own with copies of
// the meters. Nothing else comes, and requests take no time: a hold goes no sooner than predicted,
// unless one before it leaves.
type forecast struct {
	now       time.Time
	scheduler *scheduler
	live      liveView
	resources map[*resource]*resource // :: of the site → its copy
	needs     map[*[]need][][]need    // :: the first of the needs of several holds → their copy
	open      map[*resource]bool      // copies of which nobody can tell when they let a hold go
	busy      map[*resource]bool      // copies that let a hold go when what is in flight is over
}

// liveView calls look under the lock of the site, with the time. The rest of a forecast needs
// no lock.
type liveView func(look func(now time.Time))

// predict fills in when each hold of a snapshot goes.
func (a *snapshot) predict(live liveView) {
	f := &forecast{
		now: a.now, scheduler: newScheduler(a.aging), live: live, resources: map[*resource]*resource{},
		needs: map[*[]need][][]need{}, open: map[*resource]bool{}, busy: map[*resource]bool{},
	}
	slices.SortFunc(a.holds, func(a, b heldView) int { return int(a.was.seq) - int(b.was.seq) })
	views := make(map[*hold]*heldView, len(a.holds))
	f.scheduler.setClock(a.now)
	f.scheduler.clients.served = a.served
	for i := range a.holds {
		w := &a.holds[i]
		w.ETA, w.Soonest = time.Time{}, a.now
		views[f.add(&w.was, a.turns[w.was.client])] = w
	}
	f.play(views)
}

// add puts the copy of a hold into the queue.
func (f *forecast) add(was *hold, served float64) *hold {
	s := f.scheduler
	h := &hold{
		name: was.name, weight: was.weight, priority: was.priority, cost: was.cost, deadline: was.deadline,
		needs: f.copyNeeds(was.needs), seq: was.seq, added: was.added, missed: was.missed,
	}
	s.clients.of(h.name).served = served
	s.countWaiting(h)
	if was.state == stateDelayed && was.later.After(f.now) {
		h.later, h.entered, h.state = was.later, f.now, stateDelayed
		s.delayed.Push(h)
		return h
	}
	s.enter(h)
	return h
}

// copyNeeds returns the needs of a hold with copies of the resources.
func (f *forecast) copyNeeds(of [][]need) [][]need {
	if known := f.needs[&of[0]]; known != nil {
		return known
	}
	needs := make([][]need, len(of))
	for i, alternative := range of {
		needs[i] = slices.Clone(alternative)
		for j := range alternative {
			needs[i][j].resource = f.copyResource(alternative[j].resource)
		}
	}
	f.needs[&of[0]] = needs
	leaveOut(f.now, needs)
	return needs
}

// leaveOut keeps the alternatives back whose credentials the site has denied, unless all are: a
// site that has denied a credential is not expected to accept it later.
func leaveOut(now time.Time, needs [][]need) {
	if allDenied(now, needs) {
		return
	}
	for _, alternative := range needs {
		for _, n := range alternative {
			if n.resource.denied(now) {
				n.resource.cooldown.until = now.Add(2 * far)
			}
		}
	}
}

// copyResource returns the copy of a resource.
func (f *forecast) copyResource(r *resource) *resource {
	if known := f.resources[r]; known != nil {
		return known
	}
	var m limit.Meter
	var state []byte
	metered := false
	c := f.scheduler.newResource(r.name, nil, nil)
	f.resources[r] = c
	f.live(func(now time.Time) {
		c.cooldown, c.fresh = r.cooldown.copy(), r.fresh
		if r.cooldown.awaitsAnswer(now) {
			f.busy[c] = true
		}
		if r.meter == nil {
			return
		}
		if ahead, ok := r.meter.(Learning); ok {
			m = ahead.Ahead(now)
		} else if r.fresh != nil {
			state = r.meter.State()
		}
		// What a copy does not know, such as what is in flight, the meter does.
		switch at, fits := r.meter.When(now, 1); {
		case !fits:
		case r.asking(now, at, 1):
			f.open[c] = true
		case at.Sub(now) > far:
			f.busy[c] = true
		case at.After(now) && at.After(c.cooldown.until):
			c.cooldown.until = at
		}
		metered = true
	})
	if m == nil && c.fresh != nil {
		if m = c.fresh(); m != nil && m.Restore(f.now, state) != nil {
			m = nil
		}
	}
	if m == nil && metered {
		m = newLiveMeter(r, f.live)
	}
	if c.meter = m; f.busy[c] && !c.cooldown.until.After(f.now) {
		c.cooldown.until = f.now.Add(1)
	}
	return c
}

// play lets the holds go until none is left or nothing more is known.
func (f *forecast) play(views map[*hold]*heldView) {
	s, at, turn := f.scheduler, f.now, 0
	alternatives := 1
	for h := range views {
		alternatives = max(alternatives, len(h.needs))
	}
	for looks := 0; looks < mostLooks; {
		d := s.next(at)
		looks += alternatives * (1 + len(d.granted))
		for _, h := range d.granted {
			w := views[h]
			turn++
			w.Soonest, w.turn, w.longest = at, turn, h.blockedBy
			if !slices.ContainsFunc(h.needs[h.grant.choice], func(n need) bool { return f.open[n.resource] || f.busy[n.resource] && at.Sub(f.now) <= 1 }) {
				w.ETA = at
			}
			_ = s.finish(at, h, Result{Outcome: limit.Success})
		}
		for _, h := range d.refused {
			views[h].Soonest = at
		}
		switch {
		case len(d.granted)+len(d.refused) > 0:
		case s.held == 0, d.again.IsZero(), d.again.Sub(f.now) > far:
			return
		case d.again.After(at):
			at = d.again
		default:
			at = at.Add(time.Millisecond)
		}
	}
}

// liveMeter is a meter that has no copy: how long more units take is asked of the meter itself.
type liveMeter struct {
	limit.Meter // which lets everything go
	resource    *resource
	live        liveView
	units       int64 // that have gone
}

func newLiveMeter(r *resource, live liveView) limit.Meter {
	endless, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1 << 40})
	if err != nil {
		return nil
	}
	return &liveMeter{Meter: endless, resource: r, live: live}
}

// When implements limit.Meter.
func (m *liveMeter) When(now time.Time, n int64) (at time.Time, ok bool) {
	m.live(func(live time.Time) { at = m.resource.estimate(live, m.units+n) })
	if at.IsZero() {
		return limit.Unknown, true
	}
	return at, true
}

// Take implements limit.Meter.
func (m *liveMeter) Take(_ time.Time, n int64) { m.units += n }

// Left implements limit.Meter.
func (m *liveMeter) Left(now time.Time) int64 {
	if at, _ := m.When(now, 1); at.After(now) {
		return 0
	}
	return 1
}

const (
	// step is the number of bytes waited for at once where bytes pass a few at a time.
	step = 16 << 10
	// mostSteps is after how many of these the rest is taken to be as what came before.
	mostSteps = 4096
)

// meterCopy is a copy of a meter, to try out what comes.
type meterCopy struct {
	m     limit.Meter // nil: nothing is known of it but from
	from  time.Time   // before which nothing passes
	whole int64       // the most that it can have
}

// Forecast returns the time at which n more bytes could have passed the limits, if no other connection took
// any, and the longest pause on the way. The time is never too late. ok is false if the
// bytes can never pass or the time is not known.
func (t *ByteSource) Forecast(n int64) (at time.Time, pause time.Duration, ok bool) {
	s, now := t.site.lock()
	if !t.closed && t.follow(now) {
		s.step(now)
	}
	meters := make([]meterCopy, 0, len(t.resources))
	for _, res := range t.resources {
		if res.meter != nil {
			meters = append(meters, res.copy(now, n))
		}
	}
	s.mu.Unlock()
	return forecastBytes(now, meters, n)
}

// copy is an independent copy of the resource's meter. A meter that is kept elsewhere is
// copied only as far as it answers: the copy is unused, so that a forecast is never too
// late.
func (r *resource) copy(now time.Time, n int64) meterCopy {
	c := meterCopy{from: now, whole: r.measure(now).whole}
	first := min(n, step)
	if r.fresh == nil {
		first = n
	} else if c.m = r.fresh(); c.m != nil {
		first = min(first, max(c.whole/4, 1))
		if c.m.Restore(now, r.meter.State()) != nil {
			c.m = r.fresh()
		}
	}
	if r.meter.Left(now) >= first {
		return c
	}
	at, ok := r.meter.When(now, first)
	switch {
	case !ok, at.Sub(now) > far && r.remote == nil:
		c.from = limit.Unknown
	case at.Sub(now) <= far && at.After(now):
		c.from = at
	}
	return c
}

// forecastBytes passes n bytes through copies of meters.
func forecastBytes(now time.Time, meters []meterCopy, n int64) (at time.Time, pause time.Duration, ok bool) {
	all := n
	at = now
	for range mostSteps {
		if n <= 0 {
			return at, pause, true
		}
		part, need := n, min(n, step)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				need = min(need, max(c.whole/4, 1)) // a bucket that is full loses time
				part = min(part, c.m.Left(at))
			}
		}
		next := at
		for i := range meters {
			c := &meters[i]
			next = status.Later(c.from, next)
			if c.m == nil || part >= need {
				continue
			}
			if t, fits := c.m.When(at, need); !fits {
				return at, pause, false
			} else if t.After(next) {
				next = t
			}
		}
		if next.Sub(now) > far {
			return at, pause, false
		}
		if next.After(at) {
			pause = max(pause, next.Sub(at))
			at = next
			continue
		}
		part = max(part, need)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				c.m.Take(at, part)
				c.m.Done(at, at, part, limit.Abandoned)
			}
		}
		n -= part
	}
	// The rest passes at the average speed so far, with what was available at first: rather too early than too late.
	took := float64(at.Sub(now)) * float64(all) / float64(max(all-n, 1))
	if took > float64(far) {
		return at, pause, false
	}
	return now.Add(time.Duration(took)), pause, true
}
