package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// rejectionSilence is how long one client's distrust is not mentioned again.
const rejectionSilence = 10 * time.Minute

// rejections remembers which clients did not accept a certificate of abide's CA: for
// which hosts, so that their https passes unread.
type rejections struct {
	mu    sync.Mutex
	hosts *refusedHosts
}

// keyOf is what a refusal of a connection is remembered by.
func keyOf(addr netip.Addr, who *client, host string) refusedKey {
	if who != nil {
		return refusedKey{who.name, host}
	}
	return refusedKey{addr.String(), host}
}

// rejected notes that a client gave up a connection that abide had opened: for certain
// because of the certificate, or without a word, as Node does in the middle of the
// handshake and wget after it.
func (s *Server) rejected(addr netip.Addr, who *client, to policy.Target, certain bool) {
	j, now, p := &s.rejections, time.Now(), s.policy()
	// Where a rule needs the requests, a client that is let through unread would get
	// around it.
	needed := p.Interception(to.Host, to.Port, true).Needed
	var period time.Duration // for which the host passes unread
	if !needed {
		j.mu.Lock()
		period = j.hosts.rejected(now, keyOf(addr, who, to.Host), certain)
		j.mu.Unlock()
	}
	// A crawler that does not trust the CA makes one line and not a thousand.
	said := false
	switch {
	case period > 0:
		said = s.lines.refused.due(addr.String()+" "+to.Host+" "+period.String(), now)
	case certain && needed:
		said = s.lines.trust.due(addr.String(), now)
	case !certain:
		said = s.lines.doubt.due(addr.String(), now)
	}
	if period > 0 {
		s.learnedSome()
	}
	switch {
	case !said:
	case period > 0:
		s.log.Warnf("the client at %s does not accept the certificate of abide's CA for %s: its https to this host passes unread for %s, then abide tries again, so limits there are not seen meanwhile; %s", addr, to.Host, inWords(period), p.TrustRemedy())
	case certain:
		s.log.Warnf("the client at %s does not trust abide's CA, so it cannot reach %s: %s", addr, to.Host, p.TrustRemedy())
	default:
		s.log.Warnf("the client at %s opened TLS to %s and closed it without a request: if it complains about the certificate, %s", addr, to.Host, p.TrustRemedy())
	}
}

// inWords is a duration of whole minutes or hours.
func inWords(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	if d%time.Hour == 0 {
		n, unit = int(d/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// openedConnState is the ConnState of connections that abide has opened. The first byte
// of a request shows that the client has accepted the certificate, a connection that
// ends without any may show that it has not.
func (s *Server) openedConnState(c net.Conn, state http.ConnState) {
	served(c, state)
	conn := bareConn(c)
	if conn == nil || conn.target == nil || conn.target.Scheme != "https" {
		return
	}
	switch state {
	case http.StateActive:
		if !conn.asked.Swap(true) {
			s.rejections.mu.Lock()
			defer s.rejections.mu.Unlock()
			s.rejections.hosts.accepted(keyOf(conn.addr, conn.client, conn.target.Host))
		}
	case http.StateClosed:
		if !conn.asked.Load() && !s.tunnels.ending() {
			s.rejected(conn.addr, conn.client, *conn.target, false)
		}
	}
}

// refusedNow is the refusal because of which a client's https to a host passes unread.
func (j *rejections) refusedNow(key refusedKey) (refusedHost, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts.passes(time.Now(), key)
}

// passesRefused tells whether a client's https to a host passes unread because of a
// refusal. The log says it where the refusal is from before a restart.
func (s *Server) passesRefused(key refusedKey) bool {
	one, passes := s.rejections.refusedNow(key)
	if passes && one.restored && s.lines.restored.due(key.client+" "+key.host, time.Now()) {
		s.log.Warnf("https of the client %s to %s passes unread until %s, so limits there are not seen: the client did not accept the certificate of abide's CA before the restart; then abide tries again",
			key.client, key.host, one.Until.Local().Format(time.DateTime))
	}
	return passes
}

// ForgetRejections has https opened again that clients had refused to have opened.
func (s *Server) ForgetRejections() {
	s.rejections.mu.Lock()
	defer s.rejections.mu.Unlock()
	s.rejections.hosts.forget()
}

// findRejections are the refused hosts, to be kept over a restart.
func (s *Server) findRejections(now time.Time, to findings) {
	s.rejections.mu.Lock()
	all := s.rejections.hosts.all(now)
	s.rejections.mu.Unlock()
	for _, one := range all {
		if value, err := json.Marshal(one); err == nil {
			to.add(kindOfRefusedHost, one.Client+between+one.Host, value, one.keptUntil())
		}
	}
}

func (s *Server) restoreRejections() {
	now := time.Now()
	for _, value := range s.memory.recallAll(kindOfRefusedHost) {
		var one refusedHost
		if json.Unmarshal(value, &one) == nil {
			s.rejections.hosts.restore(now, one)
		}
	}
}
