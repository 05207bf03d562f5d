package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// patienceOfProxy is the Abide-Max-Wait of a request that may wait as long as it takes. A proxy
// shortens it to its own queue.wait.
const patienceOfProxy = 24 * time.Hour

// Through is a Sender through a running abide. proxy chooses the proxy of a request, roots are
// what is trusted; nil: what the system trusts. client is the name that requests count for.
func Through(proxy func(*http.Request) (*url.URL, error), roots *x509.CertPool, client string) Sender {
	return &through{&http.Transport{
		Proxy: proxy, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 30 * time.Second,
		ProxyConnectHeader: http.Header{"Abide-Max-Wait": {patienceOfProxy.String()}, "Abide-Client": {client}},
	}}
}

type through struct{ transport *http.Transport }

// Close ends idle connections.
func (s *through) Close() { s.transport.CloseIdleConnections() }

// Send sends a request and follows its redirects. The Abide-* headers are for the proxy. A
// request of https has none, because the proxy may pass it unread: its CONNECT has them.
func (s *through) Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error) {
	wait := patienceOfProxy
	if o.Wait > 0 {
		wait = o.Wait
	}
	return follow(ctx, throughTrip{s.transport, o, wait}, r)
}

// throughTrip sends one request, without following redirects.
type throughTrip struct {
	transport *http.Transport
	options   Options
	wait      time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t throughTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.transport.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Abide-Priority", strconv.Itoa(t.options.Priority))
	r.Header.Set("Abide-Max-Wait", t.wait.String())
	if t.options.Client != "" {
		r.Header.Set("Abide-Client", t.options.Client)
	}
	return t.transport.RoundTrip(r)
}
