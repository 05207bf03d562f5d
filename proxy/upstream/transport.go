package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// defaultIdlePerHost is what a MaxIdlePerHost of zero means.
const defaultIdlePerHost = 32

// Transport sends requests to origins, over HTTP/1.1 and HTTP/2, and keeps idle
// connections. Dial must be set; a zero duration means no timeout. It is safe for
// concurrent use, and must not be changed or copied after the first request.
//
// It is an http.RoundTripper. It follows no redirects, adds no User-Agent or
// Accept-Encoding, and passes the body on as it arrives. It runs on the caller's goroutine;
// only a streamed request body has a goroutine of its own.
type Transport struct {
	// Dial connects to an origin.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)
	// Forward, if set, connects to the next hop, which gets plain http requests in absolute
	// form, with auth as their Proxy-Authorization.
	Forward func(ctx context.Context) (conn net.Conn, auth string, err error)

	TLS              *tls.Config
	HandshakeTimeout time.Duration // of TLS
	AnswerTimeout    time.Duration // from the end of the request to the end of the answer's head
	StallTimeout     time.Duration // of a body in either direction, without a byte
	IdleTimeout      time.Duration // of an idle connection

	MaxIdlePerHost int // 0: 32; negative: none
	MaxIdle        int // in all; 0: no bound, negative: none
	MaxHeaderBytes int // of an answer's head; 0: 256 KiB

	start   sync.Once
	pool    pool
	both    *tls.Config     // offers HTTP/2 and HTTP/1.1
	single  *tls.Config     // offers HTTP/1.1
	h2      *http.Transport // HTTP/2 on dialed connections
	closing sync.WaitGroup  // bodies that are being closed
}

// ErrTransportClosed is wrapped in the error of a request after Close. Nothing of the
// request was sent.
var ErrTransportClosed = errors.New("the transport has been closed")

func (t *Transport) init() {
	t.pool.init(t.MaxIdlePerHost, t.MaxIdle, t.IdleTimeout)
	base := t.TLS
	if base == nil {
		base = &tls.Config{}
	}
	t.both, t.single = base.Clone(), base.Clone()
	if base.ClientSessionCache == nil {
		t.both.ClientSessionCache = tls.NewLRUClientSessionCache(1024)
		t.single.ClientSessionCache = t.both.ClientSessionCache
	}
	t.both.NextProtos = []string{alpnHTTP2, "http/1.1"}
	t.single.NextProtos = []string{"http/1.1"}
	if withoutHTTP2() {
		t.both.NextProtos = t.single.NextProtos
	}
	t.initHTTP2()
}

func (t *Transport) headerBytes() int {
	if t.MaxHeaderBytes <= 0 {
		return defaultHeaderBytes
	}
	return t.MaxHeaderBytes
}

// CloseIdle closes idle connections.
func (t *Transport) CloseIdle() {
	t.start.Do(t.init)
	t.pool.closeIdle()
}

// Close refuses new requests, closes idle connections and waits until connections in use
// have ended. Running requests end by their contexts.
func (t *Transport) Close() {
	t.start.Do(t.init)
	t.pool.close()
	t.closing.Wait()
}

// RoundTrip implements http.RoundTripper. Its errors are *Error.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.start.Do(t.init)
	o, err := prepare(req)
	if err != nil {
		closeBody(req)
		return nil, &Error{Kind: invalid, Err: err}
	}
	o.forward = t.Forward != nil && !o.secure
	resp, e := t.send(req.Context(), &o)
	if e != nil {
		return nil, e
	}
	return resp, nil
}

// send finds a connection and sends the request on it. It sends the request again only
// where the origin certainly has not processed it, so each call counts as one request. A
// request that may have been processed is left to the caller.
func (t *Transport) send(ctx context.Context, o *outgoing) (*http.Response, *Error) {
	if err := ctx.Err(); err != nil {
		closeBody(o.req)
		return nil, &Error{Kind: Canceled, Err: err}
	}
	if o.length == 0 && o.body != nil {
		if e := o.measure(ctx); e != nil {
			return nil, e
		}
	}
	fresh := false // exclude connections that have been idle
	for refused := 0; ; {
		c, e := t.connect(ctx, o, fresh)
		if e != nil {
			o.closeBody()
			return nil, e
		}
		if o.waitedForConn {
			o.waitedForConn = false
			if s, ok := ctx.Value(SenderKey{}).(sendObserver); ok {
				s.Sending()
			}
		}
		var resp *http.Response
		var again bool
		if c.multiplexed != nil {
			if resp, e, again = t.roundTrip2(ctx, c, o); again {
				refused++
				again = refused <= maxRefused && pause(ctx, refused)
			}
		} else {
			resp, e = c.roundTrip(ctx, o)
			again = e != nil && e.Stale && !e.Sent && !fresh
			fresh = true
		}
		if e == nil {
			return resp, nil
		}
		if !again || ctx.Err() != nil || !o.rewind() {
			o.closeBody()
			return nil, e
		}
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// closeBody closes the body unless another owner does.
func (o *outgoing) closeBody() {
	if o.body != nil && !o.bodyTaken {
		o.body.Close()
		o.body = nil
	}
}

// rewind makes the body readable again from its start.
func (o *outgoing) rewind() bool {
	if !o.bodyTaken {
		return true
	}
	if o.req.GetBody == nil {
		return false
	}
	body, err := o.req.GetBody()
	if err != nil {
		return false
	}
	o.body, o.bodyTaken = body, false
	return true
}

// measure detects an empty body without a length: clients mark it by nil or http.NoBody,
// but servers pass on empty bodies, too. It looks only with methods that rarely have a
// body.
func (o *outgoing) measure(ctx context.Context) *Error {
	switch o.req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete, http.MethodTrace, "PROPFIND", "SEARCH":
	default:
		o.length = -1
		return nil
	}
	var first [1]byte
	body := o.body
	stop := context.AfterFunc(ctx, func() { body.Close() })
	defer stop()
	for {
		n, err := body.Read(first[:])
		switch {
		case n > 0:
			o.length = -1
			o.body = &prefixed{first: first, ReadCloser: body}
			return nil
		case err == io.EOF:
			body.Close()
			o.body = nil
			return nil
		case err != nil && ctx.Err() != nil:
			body.Close()
			return &Error{Kind: Canceled, Err: ctx.Err()}
		case err != nil:
			body.Close()
			return &Error{Kind: Upload, Err: &requestBodyError{err}}
		}
	}
}

// prefixed is a body whose first byte has been read.
type prefixed struct {
	first [1]byte
	given bool
	io.ReadCloser
}

func (p *prefixed) Read(b []byte) (int, error) {
	if p.given || len(b) == 0 {
		return p.ReadCloser.Read(b)
	}
	p.given = true
	b[0] = p.first[0]
	return 1, nil
}
