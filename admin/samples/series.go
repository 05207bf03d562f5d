package samples

import (
	"time"

	"github.com/abide-proxy/abide/status"
)

// stepOf is the number of the step that a time is in.
func stepOf(at time.Time) int64 { return at.Unix() / int64(Step/time.Second) }

// series has a number for each of the last steps. The zero value is empty.
type series struct {
	points *[Points]float32 // :: step modulo Points → its number; nil: nothing but zeros
	last   int64            // the last step that has a number
}

// at is the number of a step, which is made the last one.
func (s *series) at(step int64) *float32 {
	if s.points == nil {
		s.points, s.last = new([Points]float32), step
	}
	for next := max(s.last+1, step-Points+1); next <= step; next++ {
		s.points[next%Points] = 0
	}
	s.last = max(s.last, step)
	return &s.points[step%Points]
}

// more adds to the number of the present step.
func (s *series) more(now time.Time, n float32) {
	if n > 0 {
		*s.at(stepOf(now)) += n
	}
}

// highest raises the number of the present step to n.
func (s *series) highest(now time.Time, n float32) {
	if n > 0 {
		at := s.at(stepOf(now))
		*at = max(*at, n)
	}
}

// read are the numbers of all steps until now, times a factor, oldest first; nil where there
// are only zeros.
func (s *series) read(now time.Time, factor float32) []float32 {
	if s.points == nil {
		return nil
	}
	last, some := stepOf(now), false
	list := make([]float32, Points)
	for i := range list {
		step := last - Points + 1 + int64(i)
		if step > s.last-Points && step <= s.last {
			list[i] = s.points[step%Points] * factor
			some = some || list[i] > 0
		}
	}
	if !some {
		return nil
	}
	return list
}

// Counters are the counts of a site since the start.
type Counters struct{ Requests, In, Out uint64 }

func (c *Counters) add(other Counters) {
	c.Requests, c.In, c.Out = c.Requests+other.Requests, c.In+other.In, c.Out+other.Out
}

// since returns the counts after earlier counters. Counters that fell began anew.
func (c Counters) since(earlier Counters) Counters {
	return Counters{risen(c.Requests, earlier.Requests), risen(c.In, earlier.In), risen(c.Out, earlier.Out)}
}

func risen(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// Rate is something per second.
type Rate struct{ Requests, In, Out float64 }

// Course has the rates of a site: Now is the rate of the last seconds, Requests has the rate of each
// step that is over, oldest first. It is nil where there was nothing.
type Course struct {
	Now      Rate
	Requests []float32 // per second
}

// rateOver is the number of samples of the present rate.
const rateOver = 5

// course has the samples of a site. The zero value is empty.
type course struct {
	began    bool
	last     Counters
	end      time.Time          // of last
	counted  [rateOver]Counters // each since the sample before
	took     [rateOver]time.Duration
	next     int // in counted and took
	requests series
}

// add adds a sample. The first says where counting begins.
func (c *course) add(now time.Time, counters Counters) {
	if c.began {
		more := counters.since(c.last)
		c.counted[c.next], c.took[c.next] = more, now.Sub(c.end)
		c.next = (c.next + 1) % rateOver
		c.requests.more(now, float32(more.Requests))
	}
	c.began, c.last, c.end = true, counters, now
}

// read is the course until now.
func (c *course) read(now time.Time) Course {
	return Course{Now: c.rate(now), Requests: c.requests.read(now.Add(-Step), 1/float32(Step.Seconds()))}
}

// rate is the rate of the last samples, zero where they are long past.
func (c *course) rate(now time.Time) (r Rate) {
	var sum Counters
	var took time.Duration
	for i := range c.counted {
		sum.add(c.counted[i])
		took += c.took[i]
	}
	if took <= 0 || now.Sub(c.end) > Step {
		return r
	}
	seconds := took.Seconds()
	return Rate{float64(sum.Requests) / seconds, float64(sum.In) / seconds, float64(sum.Out) / seconds}
}

// TokenKey names a token.
type TokenKey struct{ Pool, Label string }

// State is the state of a token in a step. Of several states in a step the greatest is stored.
type State uint8

const (
	Unknown State = iota // nobody looked
	Ready
	Partly  // put away for some routes
	Used    // requests were sent with it
	Spent   // nothing is left of a limit
	Cooling // a site asked for a pause
	Disabled
	Quarantined
)

// states are those that a status.Token has.
var states = map[string]State{
	"ready": Ready, "spent": Spent, "cooling": Cooling, "disabled": Disabled, "quarantined": Quarantined,
}

// StateOf is the state of a token that is not in use.
func StateOf(t *status.Token) State {
	state := states[t.State]
	if state == Ready && len(t.Routes) > 0 {
		return Partly
	}
	return state
}

// Timeline is the state of a token in each step, oldest first.
type Timeline [Points]State

// timeline has the samples of a token. The zero value is empty.
type timeline struct {
	states [Points]State // :: step modulo Points → its state
	last   int64         // the last step with a state
	uses   uint64
	began  bool
}

// add adds how a token is now.
func (l *timeline) add(now time.Time, t *status.Token) {
	state := StateOf(t)
	if t.State == "ready" && l.began && t.Uses != l.uses {
		state = Used
	}
	step := stepOf(now)
	for next := max(l.last+1, step-Points+1); next <= step; next++ {
		l.states[next%Points] = Unknown
	}
	l.last = max(l.last, step)
	l.states[step%Points] = max(l.states[step%Points], state)
	l.began, l.uses = true, t.Uses
}

// read is the timeline until now.
func (l *timeline) read(now time.Time) (list Timeline) {
	last := stepOf(now)
	for i := range list {
		step := last - Points + 1 + int64(i)
		if step > l.last-Points && step <= l.last {
			list[i] = l.states[step%Points]
		}
	}
	return list
}
