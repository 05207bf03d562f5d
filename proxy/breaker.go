package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

// breakers leave those alone who fail again and again. Each site has one, or each
// of its backends, while there is something to remember: a site that answers costs
// a look into a map that is usually empty.
type breakers struct {
	known sync.Map // :: party → *breaker
	n     atomic.Int64
	loud  *rate.Limiter // for the log: a crawl of dead hosts must not fill it
}

// breaker is of one site, or of one backend of it.
type breaker struct {
	gate  *gobreaker.TwoStepCircuitBreaker[struct{}]
	rule  policy.Breaker
	until atomic.Int64           // while it is open: when a probe may go, in nanoseconds
	cause atomic.Pointer[string] // of the last failure
}

// mostBreakers bounds what a crawl of dead hosts leaves behind.
const mostBreakers = 1 << 14

const becauseBroken = "it failed too often"

// health is what an attempt says about whether its site works at all.
type health uint8

const (
	unknown health = iota // the client's doing, or ours
	well
	ill
)

var (
	errIll       = errors.New("the site failed")
	errNoVerdict = errors.New("the attempt says nothing about the site")
)

// healthOf reads an attempt. A refusal is a sign of life.
func healthOf(status int, err error, v verdict) health {
	switch {
	case err != nil:
		return blame(err)
	case v.refused:
		return well
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return ill
	}
	return well
}

// blame tells whether an error is the site's.
func blame(err error) health {
	var e *upstream.Error
	if errors.As(err, &e) && e.Stale {
		return unknown // it has only tired of a connection
	}
	switch upstream.KindOf(err) {
	case upstream.Resolve, upstream.Refused, upstream.Unreachable, upstream.ConnectTimeout, upstream.TLS,
		upstream.AnswerTimeout, upstream.Stalled, upstream.Closed, upstream.Protocol:
		return ill
	}
	return unknown
}

func newBreaker(rule policy.Breaker) *breaker {
	b := &breaker{rule: rule}
	b.gate = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: rule.Pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= rule.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, _, now gobreaker.State) {
			until := int64(0)
			if now == gobreaker.StateOpen {
				// A little more, for the probe must not come too early.
				until = time.Now().Add(rule.Pause + time.Millisecond).UnixNano()
			}
			b.until.Store(until)
		},
	})
	return b
}

// ends is when an open breaker lets a probe through; zero when it is not open.
func (b *breaker) ends(now time.Time) time.Time {
	if at := b.until.Load(); at > now.UnixNano() {
		return time.Unix(0, at)
	}
	return time.Time{}
}

func (s *breakers) find(who party, rule policy.Breaker) *breaker {
	if rule.Failures == 0 || s.n.Load() == 0 {
		return nil
	}
	if known, ok := s.known.Load(who); ok {
		if b := known.(*breaker); b.rule == rule {
			return b
		}
		s.forget(who) // by other rules
	}
	return nil
}

func (s *breakers) forget(who party) {
	if _, was := s.known.LoadAndDelete(who); was {
		s.n.Add(-1)
	}
}

// reload forgets those that go by other rules than the new one.
func (s *breakers) reload(rule policy.Breaker) {
	s.known.Range(func(at, one any) bool {
		if one.(*breaker).rule != rule {
			s.forget(at.(party))
		}
		return true
	})
}

// make is the breaker of one that begins to fail; nil when there is no room.
func (s *breakers) make(who party, rule policy.Breaker) *breaker {
	if s.n.Load() >= mostBreakers {
		s.known.Range(func(at, one any) bool {
			if one.(*breaker).gate.State() == gobreaker.StateClosed {
				s.forget(at.(party))
			}
			return true
		})
		if s.n.Load() >= mostBreakers {
			return nil
		}
	}
	known, was := s.known.LoadOrStore(who, newBreaker(rule))
	if !was {
		s.n.Add(1)
	}
	return known.(*breaker)
}

// broken is until when nothing is sent to a party; zero when it may be.
func (s *breakers) broken(who party, rule policy.Breaker, now time.Time) time.Time {
	if b := s.find(who, rule); b != nil {
		return b.ends(now)
	}
	return time.Time{}
}

// enter asks before an attempt. left must hear of what it gave. The time is when
// to ask again, zero if the attempt may be made.
func (s *breakers) enter(who party, rule policy.Breaker, now time.Time) (done func(error), until time.Time) {
	b := s.find(who, rule)
	if b == nil {
		return nil, time.Time{}
	}
	done, err := b.gate.Allow()
	if err == nil {
		return done, time.Time{}
	}
	if until = b.ends(now); until.IsZero() {
		until = now.Add(time.Second) // somebody else's probe is on its way
	}
	return nil, until
}

// causeOf says why an attempt failed, in words that name nothing.
func causeOf(status int, err error) string {
	if err != nil {
		return upstreamAnswer(err).title
	}
	return fmt.Sprintf("it answered %d", status)
}

// why is the cause of the last failure.
func (b *breaker) why() string {
	if cause := b.cause.Load(); cause != nil {
		return *cause
	}
	return ""
}

// left hears how an attempt went, and why it failed if it did. The time is until
// when nothing more is sent to the party; zero when it may be. Opened says that it
// worked until now.
func (s *breakers) left(who party, rule policy.Breaker, done func(error), how health, cause string, now time.Time) (until time.Time, opened bool) {
	if rule.Failures == 0 {
		return time.Time{}, false
	}
	b := s.find(who, rule)
	switch {
	case how == unknown:
		if done != nil {
			done(errNoVerdict)
		}
	case how == well:
		if done != nil {
			done(nil)
		}
		if b != nil && b.gate.State() == gobreaker.StateClosed {
			s.forget(who)
		}
	default:
		if b == nil {
			if b = s.make(who, rule); b == nil {
				return time.Time{}, false
			}
		}
		b.cause.Store(&cause)
		worked := b.gate.State() == gobreaker.StateClosed
		if done == nil {
			var err error
			if done, err = b.gate.Allow(); err != nil {
				return b.ends(now), false
			}
		}
		done(errIll)
		until = b.ends(now)
		return until, worked && !until.IsZero()
	}
	return time.Time{}, false
}

// judged tells the breaker of a party how an attempt went. The time is until when
// nothing more is sent to it.
func (s *Server) judged(who party, probe func(error), how health, status int, err error, now time.Time) time.Time {
	cause := ""
	if how == ill {
		cause = causeOf(status, err)
	}
	rule := s.policy().Breaker
	until, opened := s.breakers.left(who, rule, probe, how, cause, now)
	if opened && s.breakers.loud.Allow() {
		name := who.site
		if who.backend != "" {
			name += ", backend " + who.backend
		}
		s.log.Warnf("%s is left alone for %v and then tried again: failures in a row: %d, the last because %s", name, rule.Pause, rule.Failures, cause)
	}
	return until
}

// Broken is a site, or a backend of it, that is being left alone or tried again.
type Broken struct {
	Site    string
	Backend string    // "" is the site itself
	State   string    // open | half-open | closed
	Until   time.Time // when it lets a probe through
	Why     string    // it failed last
}

// Breakers are those of all that failed lately.
func (s *Server) Breakers() []Broken {
	var list []Broken
	now := time.Now()
	s.breakers.known.Range(func(at, one any) bool {
		b := one.(*breaker)
		who := at.(party)
		list = append(list, Broken{who.site, who.backend, b.gate.State().String(), b.ends(now), b.why()})
		return true
	})
	return list
}

// brokenSite refuses at once where nothing would be sent for a while: a client that
// knows can do something else. What is held already goes on waiting.
func (s *Server) brokenSite(x *exchange) *answer {
	rule := s.policy().Breaker
	if s.breakers.n.Load() == 0 || x.state.policy.Observes() {
		return nil
	}
	now := time.Now()
	p := x.state.plans[x.rule]
	if p == nil || len(p.backends) == 0 {
		if until := s.breakers.broken(x.party(), rule, now); !until.IsZero() {
			return s.leftAlone(x.party(), until, now)
		}
		return nil
	}
	var first time.Time
	var who party
	for i := range p.backends {
		one := partyOf(x.site, &p.backends[i])
		until := s.breakers.broken(one, rule, now)
		if until.IsZero() {
			return nil
		}
		if first.IsZero() || until.Before(first) {
			first, who = until, one
		}
	}
	return s.leftAlone(who, first, now)
}

// leftAlone is the answer for who is left alone until then, and why.
func (s *Server) leftAlone(who party, until, now time.Time) *answer {
	return answerBroken.until(becauseBroken, until, now).after(s.broken(who).Why)
}
