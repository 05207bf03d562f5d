// Package samples keeps what the page draws of the last 15 minutes: requests and bytes of each
// site, how many requests waited, and the states of tokens. All of it is in memory.
//
// The usual call:
//
//	r := samples.New(samples.Sources{Sites: m.Sites, Tokens: proxy.Tokens, Waiting: held})
//	go r.Run(ctx)
//	last := r.Snapshot(time.Now())
package samples

import (
	"context"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
)

const (
	// Step is the time that a point of a Course, and of a Timeline, stands for.
	Step = 10 * time.Second
	// Points is the number of points in memory.
	Points = 90
	// Kept is the age of the oldest point.
	Kept = Points * Step

	// every is the time from one sample to the next.
	every = time.Second
	// maxSites is the largest number of sites with a course. The others have none.
	maxSites = 2000
	// maxTokens is the largest number of tokens with a timeline. The others have none.
	maxTokens = 2000
)

// Sources are the functions that are sampled.
type Sources struct {
	Sites   func() []metrics.SiteCount
	Tokens  func() status.Tokens
	Waiting func() int // how many requests wait
}

// Recorder takes samples. It is safe for concurrent use.
type Recorder struct {
	from Sources

	mu      sync.Mutex
	last    time.Time // the last sample
	total   course
	waiting series
	sites   map[string]*course     // :: site, at most maxSites
	tokens  map[TokenKey]*timeline // at most maxTokens
}

// New makes a Recorder without samples. It starts no goroutine.
func New(from Sources) *Recorder {
	return &Recorder{from: from, sites: map[string]*course{}, tokens: map[TokenKey]*timeline{}}
}

// Run takes a sample each second until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	r.Take(time.Now())
	for range clock.Ticks(ctx, every) {
		r.Take(time.Now())
	}
}

// Take takes a sample, unless there is one of the same second.
func (r *Recorder) Take(now time.Time) {
	if !r.due(now) {
		return
	}
	counts, tokens, waiting := r.from.Sites(), r.from.Tokens(), r.from.Waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.highest(now, float32(waiting))
	r.takeSites(now, counts)
	r.takeTokens(now, tokens)
}

// due tells whether a sample is to be taken, and counts on that it is.
func (r *Recorder) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < every/2 {
		return false
	}
	r.last = now
	return true
}

// takeSites adds what was counted of each site. A site that is no longer counted is forgotten.
func (r *Recorder) takeSites(now time.Time, counts []metrics.SiteCount) {
	var all Counters
	seen := make(map[string]bool, len(counts))
	for _, one := range counts {
		c := Counters{one.Requests, one.In, one.Out}
		all.add(c)
		seen[one.Name] = true
		known := r.sites[one.Name]
		if known == nil {
			if len(r.sites) >= maxSites {
				continue
			}
			known = &course{}
			r.sites[one.Name] = known
		}
		known.add(now, c)
	}
	r.total.add(now, all)
	for name := range r.sites {
		if !seen[name] {
			delete(r.sites, name)
		}
	}
}

// takeTokens adds the state of each token. A token that has left its pool is forgotten.
func (r *Recorder) takeTokens(now time.Time, tokens status.Tokens) {
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
	for key := range r.tokens {
		if !seen[key] {
			delete(r.tokens, key)
		}
	}
}

// Snapshot returns all points until now. It shares nothing with the Recorder.
type Snapshot struct {
	End     time.Time // of the last step of Tokens, which is not over. The others have steps that are over
	Total   Course
	Waiting []float32 // the most in each step
	Sites   map[string]Course
	Tokens  map[TokenKey]Timeline
}

// Snapshot has all points until now.
func (r *Recorder) Snapshot(now time.Time) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Snapshot{
		End: now.Truncate(Step).Add(Step), Total: r.total.read(now), Waiting: r.waiting.read(now.Add(-Step), 1),
		Sites: make(map[string]Course, len(r.sites)), Tokens: make(map[TokenKey]Timeline, len(r.tokens)),
	}
	for name, one := range r.sites {
		s.Sites[name] = one.read(now)
	}
	for key, one := range r.tokens {
		s.Tokens[key], _ = one.states.read(now)
	}
	return s
}

// stepOf is the number of the step that a time is in.
func stepOf(at time.Time) int64 { return at.Unix() / int64(Step/time.Second) }

// steps has a value for each of the last steps. The zero value is empty.
type steps[T comparable] struct {
	values *[Points]T // :: step modulo Points → its value; nil: nothing but zero values
	last   int64      // the last step that has a value
}

// at is the value of the present step, which is made the last one.
func (s *steps[T]) at(now time.Time) *T {
	var none T
	step := stepOf(now)
	if s.values == nil {
		s.values, s.last = new([Points]T), step
	}
	for next := max(s.last+1, step-Points+1); next <= step; next++ {
		s.values[next%Points] = none
	}
	s.last = max(s.last, step)
	return &s.values[step%Points]
}

// read are the values of all steps until now, oldest first. some tells whether any is not zero.
func (s *steps[T]) read(now time.Time) (list [Points]T, some bool) {
	var none T
	for i := range list {
		if step := stepOf(now) - Points + 1 + int64(i); s.values != nil && step > s.last-Points && step <= s.last {
			list[i] = s.values[step%Points]
			some = some || list[i] != none
		}
	}
	return list, some
}

// series has a number for each of the last steps.
type series struct{ steps[float32] }

// more adds to the number of the present step.
func (s *series) more(now time.Time, n float32) {
	if n > 0 {
		*s.at(now) += n
	}
}

// highest raises the number of the present step to n.
func (s *series) highest(now time.Time, n float32) {
	if n > 0 {
		at := s.at(now)
		*at = max(*at, n)
	}
}

// read are the numbers of all steps until now, times a factor, oldest first; nil where there
// are only zeros.
func (s *series) read(now time.Time, factor float32) []float32 {
	list, some := s.steps.read(now)
	if !some {
		return nil
	}
	for i := range list {
		list[i] *= factor
	}
	return list[:]
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

// Add adds the rates of another site.
func (c *Course) Add(other Course) {
	c.Now = Rate{c.Now.Requests + other.Now.Requests, c.Now.In + other.Now.In, c.Now.Out + other.Now.Out}
	if c.Requests == nil {
		c.Requests = make([]float32, len(other.Requests))
	}
	for i := range min(len(c.Requests), len(other.Requests)) {
		c.Requests[i] += other.Requests[i]
	}
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
	states steps[State]
	uses   uint64
	began  bool
}

// add adds how a token is now.
func (l *timeline) add(now time.Time, t *status.Token) {
	state := StateOf(t)
	if t.State == "ready" && l.began && t.Uses != l.uses {
		state = Used
	}
	at := l.states.at(now)
	*at = max(*at, state)
	l.began, l.uses = true, t.Uses
}
