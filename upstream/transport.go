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

	"golang.org/x/net/http2"
)

// defaultIdlePerHost is what a MaxIdlePerHost of zero means.
const defaultIdlePerHost = 32

// Transport sends requests to origins, over HTTP/1.1 and HTTP/2, and keeps
// connections for the next ones. Dial must be set; every duration that is zero
// is without end. It is safe for concurrent use, and not to be changed or
// copied after the first request.
//
//	t := &upstream.Transport{Dial: dialer.Dial, AnswerTimeout: time.Minute}
//	defer t.Close()
//	resp, err := t.RoundTrip(req)
//
// It is a plain http.RoundTripper: it follows nothing, adds no User-Agent or
// Accept-Encoding, and hands the body on as it comes. It runs on the caller's
// goroutine; only a request body that streams has one of its own.
type Transport struct {
	// Dial connects to an origin.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)
	// Forward, when set, connects to the next hop, to which requests for plain
	// http are sent in absolute form, with auth as their Proxy-Authorization.
	Forward func(ctx context.Context) (conn net.Conn, auth string, err error)

	TLS              *tls.Config
	HandshakeTimeout time.Duration // of TLS
	AnswerTimeout    time.Duration // from the end of the request to the end of the answer's head
	StallTimeout     time.Duration // of a body, either way, without a byte
	IdleTimeout      time.Duration // of a connection without a request

	MaxIdlePerHost int // 0 is 32; negative keeps none
	MaxIdle        int // in all; 0 is without bound, negative keeps none
	MaxHeaderBytes int // of an answer's head; 0 is 256 KiB

	start  sync.Once
	pool   pool
	both   *tls.Config // offers HTTP/2 and HTTP/1.1
	single *tls.Config // offers HTTP/1.1
	//lint:ignore SA1019 see h2conn.go
	h2      *http2.Transport
	byConn2 sync.Map       // *http2.ClientConn → *conn
	closing sync.WaitGroup // of bodies
}

// ErrTransportClosed is within the error of a request that came after Close. Nothing
// of it was sent.
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
	t.both.NextProtos = []string{http2.NextProtoTLS, "http/1.1"}
	t.single.NextProtos = []string{"http/1.1"}
	t.initHTTP2()
}

func (t *Transport) headerBytes() int {
	if t.MaxHeaderBytes <= 0 {
		return defaultHeaderBytes
	}
	return t.MaxHeaderBytes
}

// CloseIdle closes the connections that no request uses.
func (t *Transport) CloseIdle() {
	t.start.Do(t.init)
	t.pool.closeIdle()
}

// Close refuses new requests, closes idle connections and waits until those in
// use have gone. It ends no request: that is what their contexts are for.
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
		return nil, &Error{Kind: Invalid, Err: err}
	}
	o.forward = t.Forward != nil && !o.secure
	resp, e := t.send(req.Context(), &o)
	if e != nil {
		return nil, e
	}
	return resp, nil
}

// send finds a connection and asks on it, again only where the origin surely
// knows nothing of the request: whoever counts requests counts one, and who
// asked for one sending gets one. What may have arrived is for the caller to
// repeat.
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
	fresh := false // nothing that has idled
	for refused := 0; ; {
		c, e := t.connect(ctx, o, fresh)
		if e != nil {
			o.closeBody()
			return nil, e
		}
		if o.waited {
			o.waited = false
			if s, ok := ctx.Value(SenderKey{}).(Sender); ok {
				s.Sending()
			}
		}
		var resp *http.Response
		var again bool
		if c.h2 != nil {
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

// closeBody is for a body that nobody else closes.
func (o *outgoing) closeBody() {
	if o.body != nil && !o.begun {
		o.body.Close()
		o.body = nil
	}
}

// rewind readies the body for being sent again.
func (o *outgoing) rewind() bool {
	if !o.begun {
		return true
	}
	if o.req.GetBody == nil {
		return false
	}
	body, err := o.req.GetBody()
	if err != nil {
		return false
	}
	o.body, o.begun = body, false
	return true
}

// measure finds out whether a body without a length is one at all: callers say
// that it is none by nil or http.NoBody, but servers hand out empty bodies too.
// With a method that mostly has a body it is believed to be one.
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
			return &Error{Kind: Upload, Err: &RequestBodyError{err}}
		}
	}
}

// prefixed is a body of which the first byte has been read.
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
