package history

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// Step is the time that a point of a Course, and of a Timeline, stands for.
	Step = 10 * time.Second
	// Points is the number of points in memory.
	Points = 90

	// maxTokens is the largest number of tokens with a timeline. The others have none.
	maxTokens = 2000
	// rateOver is the number of seconds of the present rate.
	rateOver = 5
)

// rings have what was sampled in the last minutes.
type rings struct {
	total   course
	waiting series
	sites   map[string]*course     // :: site, of those that are counted
	tokens  map[TokenKey]*timeline // at most maxTokens
	second  int64                  // of the last sample of sites
}

// takeSites adds what has grown since the last sample, the same in each second since. A site that is not counted any
// more is forgotten.
func (r *rings) takeSites(at time.Time, counted map[string]metrics.SiteCount, grown []store.Row) {
	second := stepOf(at, time.Second)
	since := min(r.second+1, second)
	if r.second == 0 {
		since = second
	}
	r.second = second
	maps.DeleteFunc(r.sites, func(name string, _ *course) bool { _, there := counted[name]; return !there })
	for _, one := range grown {
		known := r.sites[one.Site]
		if known == nil {
			known = &course{}
			r.sites[one.Site] = known
		}
		refused, left := counted[one.Site].Own, counted[one.Site].Left
		// The site other has what sites had before they made room: no more of its requests were refused or given up than came.
		fresh := uint64(one.Requests)
		freshlyRefused := min(refused-min(known.own, refused), fresh)
		g := growth{float32(fresh), float32(freshlyRefused), float32(min(left-min(known.left, left), fresh-freshlyRefused)), float32(one.In), float32(one.Out)}
		known.own, known.left = refused, left
		known.add(since, second, g)
		r.total.add(since, second, g)
	}
}

// takeTokens adds the state of each token. A token that has left its pool is forgotten.
func (r *rings) takeTokens(now time.Time, tokens status.Tokens) {
	seen := map[TokenKey]bool{}
	for _, p := range tokens.Pools {
		for i := range p.Tokens {
			key := TokenKey{p.Name, p.Tokens[i].Label}
			seen[key] = true
			known := r.tokens[key]
			if known == nil {
				if len(r.tokens) >= maxTokens {
					continue
				}
				known = &timeline{}
				r.tokens[key] = known
			}
			known.add(now, &p.Tokens[i])
		}
	}
	maps.DeleteFunc(r.tokens, func(key TokenKey, _ *timeline) bool { return !seen[key] })
}

// Snapshot has all points until a time. It shares nothing with the Recorder.
type Snapshot struct {
	End     time.Time // of the last step, which is not over
	Total   Course
	Waiting []float32 // the most in each step
	Sites   map[string]Course
	Tokens  map[TokenKey]Timeline
}

// Snapshot takes a sample, and returns all points until now.
func (r *Recorder) Snapshot(now time.Time) Snapshot {
	r.Take(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Snapshot{
		End: now.Truncate(Step).Add(Step), Total: r.rings.total.read(now), Waiting: r.rings.waiting.read(now),
		Sites: make(map[string]Course, len(r.rings.sites)), Tokens: make(map[TokenKey]Timeline, len(r.rings.tokens)),
	}
	for name, one := range r.rings.sites {
		s.Sites[name] = one.read(now)
	}
	for key, one := range r.rings.tokens {
		s.Tokens[key], _ = one.states.read(stepOf(now, Step))
	}
	return s
}

// Lately returns the rate of all sites together, and what was counted of each site in the last minute, of sites
// of which anything was.
func (r *Recorder) Lately(now time.Time) (total status.Rate, sites map[string]status.Lately) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeSites(now)
	sites = map[string]status.Lately{}
	for name, one := range r.rings.sites {
		if sum := one.lately(now, 60); sum != (growth{}) {
			sites[name] = status.Lately{LastMinute: uint64(math.Round(float64(sum.requests))), Rate: one.rate(now)}
		}
	}
	return r.rings.total.rate(now), sites
}

// stepOf is the number of the step that a time is in.
func stepOf(at time.Time, step time.Duration) int64 { return at.Unix() / int64(step/time.Second) }

// steps has a value for each of the last steps. The zero value is empty.
type steps[T comparable] struct {
	values *[Points]T // :: step modulo Points → its value; nil: nothing but zero values
	last   int64      // the last step that has a value
}

// at is the value of the present step, which is made the last one.
func (s *steps[T]) at(step int64) *T {
	var none T
	if s.values == nil {
		s.values, s.last = new([Points]T), step
	}
	for next := max(s.last+1, step-Points+1); next <= step; next++ {
		s.values[next%Points] = none
	}
	s.last = max(s.last, step)
	return &s.values[step%Points]
}

// read are the values of all steps until one, oldest first. some tells whether any is not zero.
func (s *steps[T]) read(until int64) (list [Points]T, some bool) {
	var none T
	for i := range list {
		list[i] = s.of(until - Points + 1 + int64(i))
		some = some || list[i] != none
	}
	return list, some
}

// of returns the value of a step.
func (s *steps[T]) of(step int64) (value T) {
	if s.values != nil && step > s.last-Points && step <= s.last {
		value = s.values[step%Points]
	}
	return value
}

// series has a number for each of the last steps.
type series struct{ steps[float32] }

// highest raises the number of the present step to n.
func (s *series) highest(now time.Time, n float32) {
	if n > 0 {
		at := s.at(stepOf(now, Step))
		*at = max(*at, n)
	}
}

// read are the numbers of all steps until now, oldest first; nil where there are only zeros.
func (s *series) read(now time.Time) []float32 {
	list, some := s.steps.read(stepOf(now, Step))
	if !some {
		return nil
	}
	return list[:]
}

// Course has the rates of a site: Now is the rate of the last seconds, Requests has the highest of these rates in each
// step, oldest first, so that none is above the highest point. It is nil where there was nothing.
type Course struct {
	Now      status.Rate
	Requests []float32 // per second
}

// Add adds the rates of another site.
func (c *Course) Add(other Course) {
	c.Now = status.Rate{Requests: c.Now.Requests + other.Now.Requests, Own: c.Now.Own + other.Now.Own, Left: c.Now.Left + other.Now.Left, In: c.Now.In + other.Now.In, Out: c.Now.Out + other.Now.Out}
	if c.Requests == nil {
		c.Requests = make([]float32, len(other.Requests))
	}
	for i := range min(len(c.Requests), len(other.Requests)) {
		c.Requests[i] += other.Requests[i]
	}
}

// course has what was counted of a site in each of the last seconds and steps. The zero value is empty.
type course struct {
	seconds  steps[growth]
	requests series // the highest rate in each step
	// Since the start, the requests that abide refused itself, and those that clients gave up.
	own, left uint64
}

// growth has what was counted of a site in a second. own and left are the parts of the requests that abide refused itself,
// and that clients gave up.
type growth struct{ requests, own, left, in, out float32 }

func (g *growth) add(other growth) {
	g.requests, g.own, g.left, g.in, g.out = g.requests+other.requests, g.own+other.own, g.left+other.left, g.in+other.in, g.out+other.out
}

// add adds what was counted from one second to another.
func (c *course) add(since, second int64, g growth) {
	n := float32(second - since + 1)
	each := growth{g.requests / n, g.own / n, g.left / n, g.in / n, g.out / n}
	for at := max(since, second-Points+1); at <= second; at++ {
		c.seconds.at(at).add(each)
		c.requests.highest(time.Unix(at, 0), float32(c.rate(time.Unix(at+1, 0)).Requests))
	}
}

// lately returns what was counted in the last seconds until a time, with the second of that time.
func (c *course) lately(now time.Time, seconds int64) (sum growth) {
	until := stepOf(now, time.Second)
	for second := until - seconds + 1; second <= min(until, c.seconds.last); second++ {
		sum.add(c.seconds.of(second))
	}
	return sum
}

// rate is the rate of the last seconds that are over.
func (c *course) rate(now time.Time) status.Rate {
	sum := c.lately(now.Add(-time.Second), rateOver)
	return status.Rate{Requests: float64(sum.requests-sum.own-sum.left) / rateOver, Own: float64(sum.own) / rateOver, Left: float64(sum.left) / rateOver, In: float64(sum.in) / rateOver, Out: float64(sum.out) / rateOver}
}

// read is the course until now.
func (c *course) read(now time.Time) Course {
	return Course{Now: c.rate(now), Requests: c.requests.read(now.Add(-time.Second))}
}

// TokenKey names a token.
type TokenKey struct{ Pool, Label string }

// State is the state of a token in a step. Of several states in a step the greatest is stored.
type State uint8

const (
	Unknown State = iota // nobody looked
	Ready
	Partly  // put away, or used up, for some routes
	Used    // requests were sent with it
	Spent   // nothing is left of a limit
	Cooling // a site asked for a pause
	Disabled
	Quarantined
)

// states are the names of the states, of which a status.Token has some. Unknown has none.
var states = [...]string{"", "ready", "partly", "used", "spent", "cooling", "disabled", "quarantined"}

func (s State) String() string { return states[s] }

// StateOf is the state of a token that is not in use.
func StateOf(t *status.Token, now time.Time) State {
	state := State(max(slices.Index(states[:], t.State), 0))
	if state == Ready && (len(t.Routes) > 0 || !t.Partly(now).IsZero()) {
		return Partly
	}
	return state
}

// Timeline is the state of a token in each step, oldest first.
type Timeline [Points]State

// timeline has the samples of a token. The zero value is empty.
type timeline struct {
	states steps[State]
	uses   uint64
	began  bool
}

// add adds how a token is now.
func (l *timeline) add(now time.Time, t *status.Token) {
	state := StateOf(t, now)
	if t.State == "ready" && l.began && t.Uses != l.uses {
		state = Used
	}
	at := l.states.at(stepOf(now, Step))
	*at = max(*at, state)
	l.began, l.uses = true, t.Uses
}
