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
	"errors"
	"net/http"
	"net/url"
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
