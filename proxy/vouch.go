package proxy

import "time"

// vouchSilence is how long a host that the CA may not vouch for is not mentioned
// again.
const vouchSilence = time.Hour

// vouches tells whether the CA may sign a certificate for a host, and the log when
// it may not: a certificate of the operator's has name constraints, and clients
// would refuse what is signed against them. Such a host is tunnelled.
func (s *Server) vouches(host string) bool {
	if s.ca.Vouches(host) {
		return true
	}
	if s.lines.vouch.due(host, time.Now()) {
		s.log.Warnf("the name constraints of ca.cert do not permit %s, so its https passes unread: its limits and tokens hold for plain http alone", host)
	}
	return false
}
