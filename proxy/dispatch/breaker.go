package dispatch

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// siteBreakers are the breakers of sites and backends, with their lines in the log.
type siteBreakers struct {
	*backends.Breakers
	rule  func() policy.Breaker // of the configuration that holds
	clock clock.Clock
	log   *logrus.Logger
}

// causeOf says why an attempt failed, in words that name nothing.
func causeOf(status int, err error) string {
	if err != nil {
		return problem.OfUpstream(err).Title
	}
	return fmt.Sprintf("it answered %d", status)
}

// update tells a breaker how an attempt went. The time is until when nothing more is sent.
func (s *siteBreakers) update(of backends.Key, pass backends.Pass, how backends.Health, status int, err error, now time.Time) time.Time {
	cause := ""
	if how == backends.Ill {
		cause = causeOf(status, err)
	}
	rule := s.rule()
	until, opened := s.Leave(of, rule, pass, how, cause, now)
	if opened && s.Loggable() {
		name := of.Site
		if of.Backend != "" {
			name += ", backend " + of.Backend
		}
		s.log.Warnf("%s is left alone for %v and then tried again: failures in a row: %d, the last because %s", name, rule.Pause, rule.Failures, cause)
	}
	return until
}

// refuse refuses a request at once where nothing would be sent for a while: a client that
// knows can do something else. What is held already goes on waiting.
func (s *siteBreakers) refuse(x *Request) *problem.Problem {
	if s.Len() == 0 || x.Snapshot.policy.Observes() {
		return nil
	}
	keys, now := []backends.Key{x.breaker()}, s.clock.Now()
	if p := x.Snapshot.plans[x.rule]; p != nil && len(p.Backends.Hosts) > 0 {
		keys = keys[:0]
		for i := range p.Backends.Hosts {
			keys = append(keys, breakerOf(x.site, &p.Backends.Hosts[i]))
		}
	}
	key, until := s.FirstOpen(keys, s.rule(), now)
	if until.IsZero() {
		return nil
	}
	return problem.Broken.Until(sitelog.SiteFailed, until, now).LastCause(s.Status(key, now).Why)
}
