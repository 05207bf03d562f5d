package proxy

import (
	"time"

	"github.com/abide-proxy/abide/policy"
)

// unreadSilence is how long the log does not say again that a host passes unread.
const unreadSilence = 24 * time.Hour

// interception decides on https to a host: for a CONNECT, and for who asks what would
// become of one. trusting says that the client trusts the CA; whether it has refused a
// certificate for the host is asked only where that counts.
func (s *Server) interception(p *policy.Policy, host string, port uint16, trusting bool, refused func() bool) policy.Interception {
	https := p.Interception(host, port, trusting)
	switch {
	case https.Open && !https.Needed && refused():
		return policy.Interception{Why: policy.UnreadRefused}
	case https.Open && !s.ca.Vouches(host):
		return policy.Interception{Why: policy.UnreadConstrained}
	}
	return https
}

// passesUnread counts a tunnel, and says in the log what would have its requests read.
func (s *Server) passesUnread(p *policy.Policy, to policy.Target, why policy.Unread) {
	s.metrics.Site(p.Match(to).Site).Unread(string(why))
	switch why {
	case policy.UnreadAuto, policy.UnreadUnlisted:
	default: // it is meant to, or the log says it elsewhere
		return
	}
	if s.lines.unread.due(to.HostPort(), time.Now()) {
		s.log.Warnf("https to %s passes unread (intercept: %s), so limits there are not seen: %s", to.Host, p.Intercept.Mode, p.UnreadRemedy(why))
	}
}
