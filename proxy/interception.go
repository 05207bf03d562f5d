package proxy

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

const (
	// unreadSilence is the time during which the log does not repeat that https to a host is
	// tunnelled.
	unreadSilence = 24 * time.Hour
	// constrainedSilence is the time during which the log does not repeat that the CA may not
	// sign for a host.
	constrainedSilence = time.Hour
)

// interception decides whether the https of a CONNECT is opened or tunnelled.
type interception struct {
	ca       *ca.CA
	metrics  *metrics.Metrics
	log      *logrus.Logger
	refusals *certificateRefusals

	unreadLines, constrainedLines sitelog.LineLimit
}

func newInterception(authority *ca.CA, m *metrics.Metrics, log *logrus.Logger) *interception {
	return &interception{
		ca: authority, metrics: m, log: log, refusals: newCertificateRefusals(log),
		unreadLines: sitelog.LineLimit{Every: unreadSilence}, constrainedLines: sitelog.LineLimit{Every: constrainedSilence},
	}
}

// decide decides on https to a host. trusting says that the client trusts the CA; refused
// reports whether the client has refused a certificate for the host, and is called only where
// that matters.
func (i *interception) decide(p *policy.Policy, host string, port uint16, trusting bool, refused func() bool) policy.Interception {
	https := p.Interception(host, port, trusting)
	switch {
	case https.Open && !https.Needed && refused():
		return policy.Interception{Why: policy.UnreadRefused}
	case https.Open && !i.ca.Vouches(host):
		return policy.Interception{Why: policy.UnreadConstrained}
	}
	return https
}

// warnConstrained logs that the CA may not sign a certificate for a host: the operator's CA
// certificate has name constraints, and clients would refuse a certificate that violates
// them. Https to such a host is tunnelled.
func (i *interception) warnConstrained(host, site string) {
	if i.constrainedLines.Due(host, time.Now()) {
		i.log.WithField("site", site).Warnf("the name constraints of ca.cert do not permit %s, so its https passes unread: its limits and tokens hold for plain http alone", host)
	}
}

// countTunnel counts a tunnel, and logs which setting would open its https.
func (i *interception) countTunnel(p *policy.Policy, to policy.Target, why policy.Unread) {
	site := p.Match(to).Site
	i.metrics.Site(site).Unread(string(why))
	switch why {
	case policy.UnreadAuto, policy.UnreadUnlisted:
	default: // the configuration wants a tunnel, or another line was logged
		return
	}
	if i.unreadLines.Due(to.HostPort(), time.Now()) {
		i.log.WithFields(logrus.Fields{"site": site, "reason": string(why)}).Warnf("https to %s passes unread (intercept: %s), so limits there are not seen: %s", to.Host, p.Intercept.Mode, p.UnreadRemedy(why))
	}
}

// Unread is for dispatch.View. A client that has refused the CA's certificate had said
// that it trusts the CA, and is expected to say so again.
func (i *interception) Unread(p *policy.Policy, to policy.Target, x *dispatch.Request) (policy.Unread, time.Time) {
	refusal, refused := i.refusals.current(x.ClientName(), to.Host)
	trusting := x.Client != nil && x.Client.OpensAll ||
		refused && !p.Open.Off && !p.Interception(to.Host, to.Port, true).Needed
	https := i.decide(p, to.Host, to.Port, trusting, func() bool { return refused })
	if https.Why != policy.UnreadRefused {
		refusal.Until = time.Time{}
	}
	return https.Why, refusal.Until
}

// innerListener is the listener of the inner server. Its connections are those inside
// CONNECTs, which do not come from the network.
type innerListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// give hands a connection to Accept. It is false if the listener is closed.
func (l *innerListener) give(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *innerListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *innerListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *innerListener) Addr() net.Addr { return &net.UnixAddr{Name: "intercepted", Net: "abide"} }

// interceptedConn is an intercepted TLS connection, as net/http has it for HTTP/1.
// net/http watches a client by a read of one byte, on a new goroutine for each request. In
// TLS that read needs more stack than a goroutine begins with, and growing the stack costs
// more than sending a small response. So the read first waits below TLS, where little stack
// is needed.
type interceptedConn struct {
	*tls.Conn
	client *clientConn
}

func (c *interceptedConn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.client.noBody.Load() {
		if err := c.client.waitReadable(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// Write replaces the error responses that net/http writes by itself.
func (c *interceptedConn) Write(p []byte) (int, error) { return c.client.errors.write(c.Conn, p) }

// NetConn is the TLS connection and not the TCP connection below: a relay must not pass on
// encrypted bytes.
func (c *interceptedConn) NetConn() net.Conn { return c.Conn }
