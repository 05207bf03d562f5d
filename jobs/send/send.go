// Package send sends the requests of jobs: by a dispatcher of this process, or through a running
// abide. Both keep the limits, sign, learn and send again; this package adds nothing of that.
//
//	s := send.New(dispatcher)                   // or send.Through(proxy, client, roots)
//	resp, err := s.Send(ctx, r, send.Options{}) // waits as long as it takes
//	answer, err := send.Read(resp, err, now)    // the body, or a *send.Failure
//
// Refusals of abide are answers as the proxy gives them, with a Proxy-Status header, so that
// Read need not know which way a request went.
package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Options holds what a job says about a request.
type Options struct {
	Priority int           // 0, the most urgent, to 7
	Wait     time.Duration // the longest wait; 0: as long as it takes
	Client   string        // the name that the request counts for, such as the job's
}

// Sender sends requests with absolute URLs. It is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error)
	// Close ends idle connections.
	Close()
}

// longestWait is the wait of a request that may wait as long as it takes.
const longestWait = 400 * 24 * time.Hour

// maxRedirects bounds the redirects that a request follows.
const maxRedirects = 10

// follow sends a request and follows redirects within the origin of the request. A redirect to
// another origin is returned as it is, because the headers of a job are for one origin.
func follow(ctx context.Context, by http.RoundTripper, r *http.Request) (*http.Response, error) {
	client := http.Client{Transport: by, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if len(before) > maxRedirects || !SameOrigin(next.URL, r.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r = r.Clone(ctx)
	if r.Header.Get("Accept-Encoding") == "" {
		r.Header.Set("Accept-Encoding", "gzip") // Read decodes gzip
	}
	resp, err := client.Do(r)
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL, which may have a secret
	}
	return resp, err
}

// SameOrigin tells whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

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
