package proxy

import "time"

// vouchSilence is how long a host that the CA may not vouch for is not mentioned
// again.
const vouchSilence = time.Hour

// tellConstrained has the log say that the CA may not sign a certificate for a host: a
// certificate of the operator's has name constraints, and clients would refuse what is
// signed against them. Such a host is tunnelled.
func (s *Server) tellConstrained(host string) {
	if s.lines.vouch.due(host, time.Now()) {
		s.log.Warnf("the name constraints of ca.cert do not permit %s, so its https passes unread: its limits and tokens hold for plain http alone", host)
	}
}
