package proxy

import (
	"time"

	"github.com/abide-proxy/abide/policy"
)

// unreadSilence is how long the log does not say again that a host passes unread.
const unreadSilence = 24 * time.Hour

// passesUnread counts a tunnel, and says in the log what would have its requests read.
func (s *Server) passesUnread(p *policy.Policy, to policy.Target, why policy.Unread) {
	s.metrics.Site(p.Match(to).Site).Unread(string(why))
	remedy := p.UnreadRemedy(why)
	switch why {
	case policy.UnreadRefused, policy.UnreadConstrained: // the log says it elsewhere
		return
	}
	if remedy != "" && s.lines.unread.due(to.HostPort(), time.Now()) {
		s.log.Warnf("https to %s passes unread (intercept: %s), so limits there are not seen: %s", to.Host, p.Intercept.Mode, remedy)
	}
}
