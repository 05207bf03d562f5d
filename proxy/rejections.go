package proxy

import (
	"net/netip"
	"sync"
	"time"
)

// rejectionSilence is how long one client's distrust is not mentioned again.
const rejectionSilence = 10 * time.Minute

// rejections remembers which clients were told about, so that a crawler that
// does not trust the CA makes one line and not a thousand. The zero value is
// ready.
type rejections struct {
	mu       sync.Mutex
	told     map[netip.Addr]time.Time // client address → when it was told about for certain
	wondered map[netip.Addr]time.Time // and when it was wondered about
}

func (j *rejections) tell(s *Server, who netip.Addr, host string) {
	if !j.due(&j.told, who, time.Now()) {
		return
	}
	s.log.Warnf("the client at %s does not trust abide's CA, so it cannot reach %s: run `abide ca env` and set what it prints in the client's environment, or `abide ca install` for the whole machine", who, host)
}

// wonder is for clients that say nothing when they distrust a certificate and
// just close: Node in the middle of the handshake, wget after it.
func (j *rejections) wonder(s *Server, who netip.Addr, host string) {
	if !j.due(&j.wondered, who, time.Now()) {
		return
	}
	s.log.Warnf("the client at %s opened TLS to %s and closed it without a request: if it complains about the certificate, run `abide ca env` and set what it prints in the client's environment", who, host)
}

func (j *rejections) due(said *map[netip.Addr]time.Time, who netip.Addr, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if last, ok := (*said)[who]; ok && now.Sub(last) < rejectionSilence {
		return false
	}
	if *said == nil || len(*said) >= 1000 {
		*said = map[netip.Addr]time.Time{}
	}
	(*said)[who] = now
	return true
}
