package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// kind is what a service says of its limits.
type kind string

const (
	announced kind = "announced" // headers of each answer say what is left
	named     kind = "named"     // a refusal says for how long
	silent    kind = "silent"    // nothing says anything
)

// service is a simulated service.
type service struct {
	name   string
	source string // where its limits are documented
	host   string
	kind   kind
	paths  []string // requested in turn, with another method than GET before; %d is the number of the request
	body   string   // of an answer; "": {}

	requests int                                       // of a run: about 20 windows
	latency  time.Duration                             // mean time of an answer; 0: usualLatency
	rules    func(path string) []rule                  // of one token, for one path; the first that refuses answers
	shared   func() []rule                             // of all tokens together
	scope    func(path string) string                  // which paths share rules; nil: all
	atOnce   int                                       // how many requests may be in flight; 0: any number
	cost     func(n int) float64                       // of a request; nil: 1
	polite   int                                       // how many the service asks to have in flight at most; 0: any number
	overload func(at time.Duration) bool               // the service is overloaded at a time of the run
	noise    float64                                   // share of the requests that are refused at random, as overdone says
	seed     uint64                                    // of noise
	denied   func(token string, at time.Duration) bool // the token is answered with 401; nil: none

	// announce writes headers of an answer, and answers a refusal.
	announce func(s *said, h http.Header)
	refuse   func(s *said, h http.Header) (status int, body string)
	busy     func(h http.Header) (status int, body string) // because of requests in flight
	overdone func(h http.Header) (status int, body string) // because of an overload

	goal goal
}

// said is what an answer may say.
type said struct {
	now   time.Time
	rules []rule
	path  string
	cost  float64
	next  time.Time // when the request would be accepted
}

// wait is how long until the request would be accepted.
func (s *said) wait() time.Duration { return max(s.next.Sub(s.now), 0) }

// seconds is a time in whole seconds, rounded up.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds() - 1e-9))) }

// site is a service during one run.
type site struct {
	*service
	began    time.Time
	skew     time.Duration     // the clock of the service is ahead by it
	budgets  map[string][]rule // :: token and scope → rules
	common   []rule
	inFlight int
	random   *rand.Rand

	served  []time.Time
	refused []time.Time
}

func newSite(s *service, began time.Time, skew time.Duration) *site {
	item := &site{service: s, began: began, skew: skew, budgets: map[string][]rule{}, random: rand.New(rand.NewPCG(7, 7+s.seed))}
	if s.shared != nil {
		item.common = s.shared()
	}
	return item
}

func (s *site) of(token, path string) []rule {
	scope := ""
	if s.scope != nil {
		scope = s.scope(path)
	}
	key := token + " " + scope
	if _, known := s.budgets[key]; !known {
		var rules []rule
		if s.rules != nil {
			rules = s.rules(path)
		}
		s.budgets[key] = append(rules, s.common...)
	}
	return s.budgets[key]
}

// next returns the time at which a request would be accepted. Rules live by the clock of the service.
func (s *site) next(now time.Time, token, path string, cost float64) time.Time {
	at := now.Add(s.skew)
	rules := s.of(token, path)
	for _, r := range rules {
		if f, ok := r.(*foreign); ok {
			f.elapse(at)
		}
	}
	for i := 0; i < len(rules); i++ {
		if t := rules[i].next(at, cost); t.After(at) {
			at, i = t, -1 // the others may refuse at that time
		}
	}
	return at.Add(-s.skew)
}

// take counts a request that is accepted.
func (s *site) take(now time.Time, token, path string, cost float64) {
	for _, r := range s.of(token, path) {
		r.take(now.Add(s.skew), cost)
	}
}

// refusedHeader marks refusals, for the simulation: some have the status 200.
const refusedHeader = "Simulated-Refusal"

// costOf is the cost of a request.
func (s *site) costOf(n int) float64 {
	if s.cost == nil {
		return 1
	}
	return s.cost(n)
}

// answer answers a request that arrives at now. done must be called when the answer has left.
func (s *site) answer(now time.Time, token, path string, n int) (status int, h http.Header, body string, done func()) {
	clock := now.Add(s.skew)
	h = http.Header{"Date": {clock.UTC().Format(http.TimeFormat)}}
	s.inFlight++
	done = func() { s.inFlight-- }
	if s.denied != nil && s.denied(token, now.Sub(s.began)) {
		return http.StatusUnauthorized, h, "{}", done
	}
	rules, cost := s.of(token, path), s.costOf(n)
	next := s.next(now, token, path, cost)
	refuse := true
	switch {
	case s.noise > 0 && s.random.Float64() < s.noise, s.overload != nil && s.overload(now.Sub(s.began)):
		status, body = s.overdone(h)
	case s.atOnce > 0 && s.inFlight > s.atOnce:
		status, body = s.busy(h)
	case next.After(now):
		for _, r := range rules {
			if r.next(clock, cost).After(clock) {
				r.refuse(clock)
			}
		}
		told := &said{now: clock, rules: rules, path: path, cost: cost, next: s.next(now, token, path, cost).Add(s.skew)}
		status, body = s.refuse(told, h)
		if s.announce != nil {
			s.announce(told, h)
		}
	default:
		refuse = false
		s.take(now, token, path, cost)
		s.served = append(s.served, now)
		if s.announce != nil {
			s.announce(&said{now: clock, rules: rules, path: path, cost: cost, next: clock}, h)
		}
		status, body = http.StatusOK, cmp.Or(s.body, "{}")
	}
	if refuse {
		h.Set(refusedHeader, "yes")
		s.refused = append(s.refused, now)
	}
	return status, h, body, done
}

// path is the path of a request.
func (s *service) path(n int) string {
	_, path := s.line(n)
	return path
}

// line is the method and the path of a request.
func (s *service) line(n int) (method, path string) {
	pattern := "/items/%d"
	if len(s.paths) > 0 {
		pattern = s.paths[n%len(s.paths)]
	}
	method, path, other := strings.Cut(pattern, " ")
	if !other {
		method, path = http.MethodGet, pattern
	}
	return method, strings.ReplaceAll(path, "%d", strconv.Itoa(n))
}
