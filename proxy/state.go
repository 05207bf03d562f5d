package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"reflect"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

// state is what one loading of the configuration made. A request keeps the one
// that it started with.
type state struct {
	policy *policy.Policy
	plans  map[*policy.Site]*plan // :: rule → its limits; nil → those of sites that no rule names
	pools  pools
	own    map[string]*plan // :: site → that of limits which were set while abide runs
	made   uint64           // the generation of those limits, in the queue

	activity *activity // the server's
	*stack
}

// stack is everything that reaches upstreams. It outlives a reload that does
// not concern it, so that pooled connections stay.
type stack struct {
	guard    *upstream.Guard
	dialer   *upstream.Dialer
	nextHop  *upstream.NextHop // nil: direct
	upstream *upstream.Transport
}

func (s *Server) newState(p *policy.Policy, old *state) (*state, error) {
	loaded, err := s.loadPools(p)
	if err != nil {
		return nil, err
	}
	st := &state{policy: p, activity: s.activity}
	if old != nil && sameStack(old.policy, p) {
		st.stack = old.stack
	} else if st.stack, err = s.newStack(p); err != nil {
		return nil, err
	}
	var before pools
	if old != nil {
		before = old.pools
	}
	if st.pools, err = s.take(p, loaded, before); err != nil {
		return nil, err
	}
	if st.plans, err = s.plansOf(p, st.pools); err != nil {
		return nil, err
	}
	st.own, err = s.overridden(st)
	return st, err
}

// planOf is what holds for a site that a rule names, or none.
func (st *state) planOf(site string, rule *policy.Site) *plan {
	if len(st.own) > 0 {
		if p := st.own[site]; p != nil {
			return p
		}
	}
	return st.plans[rule]
}

// newStack makes what reaches upstreams.
func (s *Server) newStack(p *policy.Policy) (*stack, error) {
	roots, err := loadRoots(p.Egress.Roots)
	if err != nil {
		return nil, err
	}
	st := &stack{}
	st.guard = &upstream.Guard{
		Local: p.Local(),
		Allow: p.Egress.Allow,
		Own:   s.own.has,
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
		st.nextHop = &upstream.NextHop{URL: p.Egress.NextHop(), Dialer: st.dialer, Via: s.name, TLS: st.upstream.TLS}
		st.upstream.Dial = st.nextHop.Tunnel
		st.upstream.Forward = st.nextHop.Forward
	}
	return st, nil
}

// sameStack tells whether two policies reach upstreams alike.
func sameStack(a, b *policy.Policy) bool {
	return a.Listen == b.Listen && a.Open == b.Open && a.Timeouts == b.Timeouts && a.Bounds == b.Bounds && reflect.DeepEqual(a.Egress, b.Egress)
}

// mayForward checks what a next hop is asked for in the open: abide dials the
// hop then, so no dial of its own sees the target.
func (s *stack) mayForward(t policy.Target) error {
	if s.nextHop == nil || t.Scheme != "http" || s.dialer.Named(t.Host, t.Port) {
		return nil
	}
	return s.guard.CheckHost(t.Host, t.Port)
}

// close ends idle connections and waits for those in use.
func (s *stack) close() { s.upstream.Close() }

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
