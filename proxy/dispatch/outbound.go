package dispatch

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"reflect"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// outbound is everything that reaches upstreams. It outlives a reload that does
// not concern it, so that pooled connections stay.
type outbound struct {
	name         pseudonym
	ownAddresses *ownAddresses // of this process and its store
	guard        *upstream.Guard
	dialer       *upstream.Dialer
	nextHop      *upstream.NextHop // nil: direct
	upstream     *upstream.Transport
	sends        http.RoundTripper // upstream, or what an option has made of it
}

// newOutbound makes what reaches upstreams.
func (c *configuration) newOutbound(p *policy.Policy) (*outbound, error) {
	roots, err := loadRoots(p.Egress.Roots)
	if err != nil {
		return nil, err
	}
	st := &outbound{name: c.name, ownAddresses: &c.own}
	st.guard = &upstream.Guard{
		Local: p.Local(),
		Allow: p.Egress.Allow,
		Own:   c.own.has,
	}
	t := p.Timeouts
	st.dialer = &upstream.Dialer{Guard: st.guard, Resolve: p.Egress.Resolve, Timeout: t.Connect}
	st.upstream = &upstream.Transport{
		Dial:             st.dialer.Dial,
		TLS:              &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(4096)},
		HandshakeTimeout: t.Handshake,
		AnswerTimeout:    t.Answer,
		StallTimeout:     t.Stall,
		IdleTimeout:      t.Idle,
		MaxIdlePerHost:   p.Bounds.IdlePerHost,
		MaxIdle:          p.Bounds.Idle,
	}
	if p.Egress.Proxy != nil {
		st.nextHop = &upstream.NextHop{URL: p.Egress.NextHop(), Dialer: st.dialer, Via: string(c.name), TLS: st.upstream.TLS}
		st.upstream.Dial = st.nextHop.Tunnel
		st.upstream.Forward = st.nextHop.Forward
	}
	st.sends = st.upstream
	if c.changeUpstream != nil {
		st.sends = c.changeUpstream(st.upstream)
	}
	return st, nil
}

// sameOutbound tells whether two policies reach upstreams alike.
func sameOutbound(a, b *policy.Policy) bool {
	return a.Listen == b.Listen && a.Open == b.Open && a.Timeouts == b.Timeouts && a.Bounds == b.Bounds && reflect.DeepEqual(a.Egress, b.Egress)
}

// mayForward checks what a next hop is asked for in the open: abide dials the
// hop then, so no dial of its own sees the target.
func (s *outbound) mayForward(t policy.Target) error {
	if s.nextHop == nil || t.Scheme != "http" || s.dialer.Named(t.Host, t.Port) {
		return nil
	}
	return s.guard.CheckHost(t.Host, t.Port)
}

// close ends idle connections and waits for those in use.
func (s *outbound) close() { s.upstream.Close() }

// mostRoots is how many bytes of egress.roots are read.
const mostRoots = 16 << 20

// CheckRoots answers why the file of egress.roots cannot be used.
func CheckRoots(file string) error {
	_, err := loadRoots(file)
	return err
}

// loadRoots adds the certificates of a file to the system's.
func loadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := policy.ReadFile(file, mostRoots)
	if err != nil {
		return nil, fmt.Errorf("reading egress.roots %s: %w", file, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("egress.roots: %s has no PEM certificate in it", file)
	}
	return pool, nil
}
