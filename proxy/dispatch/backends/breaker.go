package backends

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// Key names a breaker: it is a site's, or a backend's.
type Key struct{ Site, Backend string }

// Breakers block requests to sites and backends that fail again and again. Each site has a
// breaker, or each of its backends, while there is a failure to remember: a site that answers
// costs a look into a map that is usually empty.
type Breakers struct {
	lines *rate.Limiter // for the log: a crawl of dead hosts must not fill it
	mu    sync.Mutex    // held for a few instructions; guards the field below
	known map[Key]*breaker
}

// NewBreakers makes Breakers of which none is open.
func NewBreakers() *Breakers {
	return &Breakers{lines: rate.NewLimiter(1, 20), known: map[Key]*breaker{}}
}

// mostBreakers bounds the breakers that a crawl of dead hosts leaves behind.
const mostBreakers = 1 << 14

// Len returns the number of breakers.
func (s *Breakers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// Enter asks before an attempt. Leave must be called with the pass when the attempt has
// ended, or its method Cancel. until is the time to ask again, zero if the attempt may be made.
func (s *Breakers) Enter(of Key, rule policy.Breaker, now time.Time) (pass Pass, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(of, rule)
	if b == nil {
		return Pass{}, time.Time{}
	}
	pass, may := s.begin(b, now)
	if may {
		return pass, time.Time{}
	}
	if until = b.circuit.open(now); until.IsZero() {
		until = now.Add(time.Second) // another probe is on its way
	}
	return Pass{}, until
}

// Leave notes how an attempt went, and why it failed if it did. answered: the site has succeeded before. until is the end of the time in
// which nothing more is sent, zero when something may be. opened is true if the breaker was
// closed before. lasted is the length of an outage that has ended, or that goes on where the log is due to say so; else 0.
func (s *Breakers) Leave(of Key, rule policy.Breaker, pass Pass, how Health, cause string, answered bool, now time.Time) (until time.Time, opened bool, lasted time.Duration) {
	if rule.Failures == 0 {
		return time.Time{}, false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.known[of]
	if how != Ill {
		outage := b.outage(now, 0)
		pass.end(how, now)
		if how == Well && b != nil && b.works() {
			lasted = outage
		}
		return time.Time{}, false, lasted
	}
	if b == nil {
		if b = s.make(of); b == nil {
			return time.Time{}, false, 0
		}
	}
	worked := b.fail(cause, answered, rule)
	if pass.of == nil {
		var may bool
		if pass, may = s.begin(b, now); !may {
			return b.circuit.open(now), false, 0
		}
	}
	pass.end(Ill, now)
	until = b.circuit.open(now)
	return until, worked && !until.IsZero(), b.outage(now, fewestOpenings)
}

// Open returns the end of the time in which nothing is sent; zero when something may be.
func (s *Breakers) Open(of Key, rule policy.Breaker, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.find(of, rule); b != nil {
		return b.circuit.open(now)
	}
	return time.Time{}
}

// FirstOpen returns the breaker that is the first of several to let something through, and when.
// The time is zero when a breaker of them is not open.
func (s *Breakers) FirstOpen(of []Key, rule policy.Breaker, now time.Time) (first Key, until time.Time) {
	for _, one := range of {
		at := s.Open(one, rule, now)
		if at.IsZero() {
			return Key{}, time.Time{}
		}
		if until.IsZero() || at.Before(until) {
			first, until = one, at
		}
	}
	return first, until
}

// outage is the time after the first failure in which a site that has answered before is expected to
// come back, in pauses of its breaker.
const outage = 5

// ComesBack reports whether a site, or a backend, that fails is expected to come back soon: it has not failed for long, and
// for less time where it has never answered. unreached: no connection was made, so the failure is not the request's.
func (s *Breakers) ComesBack(of Key, rule policy.Breaker, unreached bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(of, rule)
	if b == nil {
		return false
	}
	soon := b.answered && now.Sub(b.circuit.began) < outage*rule.Pause || !b.answered && of.Backend == "" && b.circuit.openings <= givenUp
	return soon && (b.answered && unreached || !b.circuit.closed())
}

// givenUp is the number of openings, in 40 seconds, after which a site that has never answered is given up.
const givenUp = 12

// NeverCame reports whether a site has failed through so many openings and has not answered yet, as an unknown host.
func (s *Breakers) NeverCame(of Key, rule policy.Breaker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(of, rule)
	return b != nil && !b.answered && b.circuit.openings > givenUp
}

// find returns the breaker of a site; nil: there is none. s.mu is held, as for what follows.
func (s *Breakers) find(of Key, rule policy.Breaker) *breaker {
	if rule.Failures == 0 {
		return nil
	}
	return s.known[of]
}

// make adds the breaker of a site that begins to fail; nil when there is no room.
func (s *Breakers) make(of Key) *breaker {
	if len(s.known) >= mostBreakers {
		maps.DeleteFunc(s.known, func(_ Key, b *breaker) bool { return b.works() })
		if len(s.known) >= mostBreakers {
			return nil
		}
	}
	b := &breaker{}
	s.known[of] = b
	return b
}

// begin asks a breaker whether an attempt may be made.
func (s *Breakers) begin(b *breaker, now time.Time) (Pass, bool) {
	may := b.circuit.begin(now)
	return Pass{s, b, b.circuit.changes, !b.circuit.closed() && b.circuit.openings <= givenUp}, may
}

// Forget forgets all breakers: another rule holds.
func (s *Breakers) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// Try has the breakers of a site that are open let an attempt through at once.
func (s *Breakers) Try(site string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, b := range s.known {
		if of.Site == site && !b.circuit.open(now).IsZero() {
			b.circuit.until = now
		}
	}
}

// Loggable reports whether there is room in the log for a line about a breaker, and takes
// that room.
func (s *Breakers) Loggable() bool { return s.lines.Allow() }

// Status returns the state of one breaker, "failing" for a closed one whose site cannot be reached or
// fails each request. It is "" where there is none.
func (s *Breakers) Status(of Key, now time.Time) status.Breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[of].status(of, now)
}

func (b *breaker) status(of Key, now time.Time) status.Breaker {
	shown := status.Breaker{Site: of.Site, Backend: of.Backend}
	if b == nil {
		return shown
	}
	if c := &b.circuit; c.failures > 0 || !c.closed() {
		shown.State, shown.Until, shown.Why = c.state(now), c.open(now), b.cause
		if !c.closed() {
			shown.Since = c.began
		}
	}
	if t := b.streak; t.fails(now) && now.Sub(t.latest) < streakLasts {
		if shown.Since = t.since; shown.State == "" || shown.State == "closed" {
			shown.State, shown.Why = status.Failing, t.cause
		}
	}
	return shown
}

// Failing reports whether a site or backend is left alone, or fails each request.
func (s *Breakers) Failing(of Key, now time.Time) bool {
	state := s.Status(of, now).State
	return state != "" && state != "closed"
}

// All returns the states of all breakers: of the sites and backends that failed lately.
func (s *Breakers) All(now time.Time) []status.Breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []status.Breaker
	for of, b := range s.known {
		if shown := b.status(of, now); shown.State != "" {
			list = append(list, shown)
		}
	}
	return list
}

// Answered notes an answer by the cause of its failure, "" for a sign of life. A sign of life counts if the request was
// sent after the first failure. certain: it is an outage already. began tells that an outage begins with it. An outage that it ends had lasted for ended; 0: none ends.
func (s *Breakers) Answered(of Key, cause string, certain bool, sent, now time.Time) (began bool, ended time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.known[of]
	if b == nil && cause != "" {
		b = s.make(of)
	}
	if b == nil {
		return false, 0
	}
	before := b.streak
	if cause == "" && before.cause != "" && sent.Before(before.since) {
		return false, 0
	}
	b.streak = before.add(cause, certain, now)
	if before.fails(now) && cause == "" {
		ended = now.Sub(before.since)
	}
	if cause == "" && now.Sub(b.streak.latest) >= remembered {
		if b.streak = (streak{}); b.circuit.failures == 0 && b.circuit.closed() {
			delete(s.known, of)
		}
	}
	return b.streak.outage && !before.outage, ended
}

// Streak returns the number of answers in a row that failed alike, and the time since the first of these.
func (s *Breakers) Streak(of Key, now time.Time) (n int, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.known[of]; b != nil {
		return b.streak.n, now.Sub(b.streak.since)
	}
	return 0, 0
}

const (
	// fewestFailing answers in a row that fail alike, over shortestOutage, are an outage, unless a site that fails some
	// requests at random would show as many in a row with a probability of byChance: how many it fails is remembered.
	// Without another answer an outage is told for streakLasts.
	fewestFailing  = 5
	byChance       = 1e-6
	remembered     = 24 * time.Hour // after the last failure
	shortestOutage = 10 * time.Second
	streakLasts    = 15 * time.Minute
)

// streak counts the answers in a row that failed alike. The zero value has none.
type streak struct {
	cause          string
	n              int
	since, latest  time.Time // of the failures
	outage         bool
	failed, worked int // answers before, since the first failure: without those of an outage
}

// fails reports whether the site fails each request: it has for so long, in half of which failures came at least.
func (t streak) fails(now time.Time) bool {
	lasts := now.Sub(t.since)
	return t.outage || t.n >= fewestFailing && lasts >= shortestOutage && 2*t.latest.Sub(t.since) >= lasts && t.unlikely()
}

// unlikely reports whether chance hardly explains so many failures in a row.
func (t streak) unlikely() bool {
	return t.worked == 0 || math.Pow(float64(t.failed+1)/float64(t.failed+t.worked+2), float64(t.n)) < byChance
}

// add returns the streak with another answer.
func (t streak) add(cause string, certain bool, now time.Time) streak {
	if t.cause != cause || now.Sub(t.latest) >= streakLasts {
		if !t.outage {
			t.failed += t.n
		}
		t = streak{cause: cause, since: now, latest: t.latest, failed: t.failed, worked: t.worked}
	}
	if cause == "" {
		t.worked++
		return t
	}
	t.n, t.latest = t.n+1, now
	t.outage = t.fails(now) || certain && t.unlikely()
	return t
}

// breaker is the breaker of one site, or of one backend of the site.
type breaker struct {
	circuit  circuit
	streak   streak
	cause    string // of the last failure
	answered bool   // the site has succeeded before
}

// fewestOpenings is the number of openings from which the log says that an outage goes on, at each power of two.
const fewestOpenings = 16

// outage returns for how long a site has failed whose breaker has opened least times, or where least is not 0 a larger
// power of two; else 0.
func (b *breaker) outage(now time.Time, least int) time.Duration {
	if b == nil {
		return 0
	}
	if n := b.circuit.openings; b.circuit.closed() || n < least || least > 0 && n&(n-1) != 0 {
		return 0
	}
	return now.Sub(b.circuit.began)
}

// works forgets the failures of a breaker that is closed, and reports whether it is.
func (b *breaker) works() (closed bool) {
	if closed = b.circuit.closed(); closed {
		b.circuit.failures = 0
	}
	return closed
}

// fail notes the cause of a failure. It reports whether the breaker is closed.
func (b *breaker) fail(cause string, answered bool, rule policy.Breaker) (closed bool) {
	b.cause, b.answered, b.circuit.most, b.circuit.pause = cause, answered, rule.Failures, rule.Pause
	if t, c := &b.streak, &b.circuit; t.outage && c.closed() && t.n > c.failures+1 { // so far they were taken for refusals
		c.failures, c.began, c.openings, c.opened = t.n-1, t.since, 1, t.since
	}
	return b.circuit.closed()
}

// Pass is given by a breaker to an attempt that may be made. The zero Pass is for an attempt
// without a breaker.
type Pass struct {
	all     *Breakers
	of      *breaker
	changes uint64
	probe   bool
}

// Probes reports whether the attempt tries for all others a site that has not failed for long: its failure is not its request's.
func (p Pass) Probes() bool { return p.probe }

// Cancel ends an attempt that says nothing about its site.
func (p Pass) Cancel() {
	if p.of != nil {
		p.all.mu.Lock()
		defer p.all.mu.Unlock()
		p.end(Unknown, time.Time{})
	}
}

// end notes how the attempt went.
func (p Pass) end(how Health, now time.Time) {
	if p.of != nil {
		p.of.circuit.end(p.changes, how, now)
	}
}

// circuit decides whether attempts may be made. It is closed until failures follow each
// other, open for a pause after that, and half-open then: one attempt is made as a probe,
// which closes or opens it. A pause is a third of the time since it opened. It is pure, and not safe for concurrent use.
type circuit struct {
	most  int           // failures that follow each other
	pause time.Duration // the longest for which it is open

	failures int       // that follow each other
	began    time.Time // the first of these
	openings int       // that follow each other
	opened   time.Time // the first of these
	until    time.Time // when it becomes half-open; zero is closed
	probing  bool      // a probe is on its way
	changes  uint64    // of its state: an attempt from before the last change does not count
}

// closed reports whether every attempt may be made.
func (c *circuit) closed() bool { return c.until.IsZero() }

// open returns the end of the time in which no attempt may be made; zero when one may be.
func (c *circuit) open(now time.Time) time.Time {
	if now.Before(c.until) {
		return c.until
	}
	return time.Time{}
}

// state returns the name of the state.
func (c *circuit) state(now time.Time) string {
	switch {
	case c.closed():
		return "closed"
	case now.Before(c.until):
		return "open"
	}
	return "half-open"
}

// begin reports whether an attempt may be made, and counts a probe.
func (c *circuit) begin(now time.Time) bool {
	if c.closed() {
		return true
	}
	if now.Before(c.until) || c.probing {
		return false
	}
	c.probing = true
	return true
}

// end adds how an attempt went that began after so many changes.
func (c *circuit) end(changes uint64, how Health, now time.Time) {
	if changes != c.changes {
		return
	}
	c.probing = false
	switch {
	case how == Unknown:
	case how == Well:
		c.failures, c.openings = 0, 0
		if !c.closed() {
			c.until = time.Time{}
			c.changes++
		}
	default:
		if c.failures == 0 {
			c.began = now
		}
		if c.failures++; c.failures >= c.most || !c.closed() {
			if c.openings++; c.openings == 1 {
				c.opened = now
			}
			c.until = now.Add(min(max(now.Sub(c.opened)/3, time.Second), c.pause))
			c.changes++
		}
	}
}
