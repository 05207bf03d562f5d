package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

const (
	// streamBuffer bounds the buffered bytes of a body whose reader is slow. The connection
	// as a whole has no such bound: one slow reader would block the others.
	streamBuffer = 1 << 20

	pingAfter = 30 * time.Second // of silence
	pingWait  = 15 * time.Second

	// settingsTimeout bounds the time for which other requests wait for an origin to announce the
	// number of streams of a new connection.
	settingsTimeout = 10 * time.Second

	closeTimeout = 250 * time.Millisecond

	// maxRefused bounds how often a request is sent again after the origin said that it did not
	// process it.
	maxRefused = 5

	alpnHTTP2 = "h2"
)

const errStatus = malformedAnswer("the status is not a valid status code")

// http2Conn is the HTTP/2 side of a conn, and the connection that net/http uses.
type http2Conn struct {
	*tls.Conn
	c        *conn
	client   *http.ClientConn
	guard    *floodGuard
	endsDial bool // the pending dial of the host ends when the connection is published

	used    atomic.Bool  // a request was sent on it
	closing atomic.Bool  // no more requests: the origin sent GOAWAY, or the connection has ended
	steps   atomic.Int32 // calls of ready
	settled sync.Once

	// The pool's lock guards the fields below.
	streams int  // streams in use
	dead    bool // it takes no more streams
}

// newConn2 starts HTTP/2 on tc. The connection has one stream reserved. Other requests may
// use it when the origin's settings have arrived.
//
// net/http takes tc as a connection with HTTP/2 and without TLS: then it negotiates no
// protocol and accepts any net.Conn. Such a connection never retries a request.
func (t *Transport) newConn2(ctx context.Context, home *host, tc *tls.Conn, lead bool) (*conn, error) {
	s := &http2Conn{Conn: tc, guard: newFloodGuard(time.Now), endsDial: lead, streams: 1}
	c := &conn{t: t, home: home, nc: tc, raw: tc.NetConn(), metered: meteredConnOf(tc), multiplexed: s}
	s.c = c
	if c.metered != nil {
		c.metered.startRequest()
	}
	config := &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer, WriteByteTimeout: t.StallTimeout}
	if c.byteLimited() {
		// The first writes may have to wait for credit.
		stop := context.AfterFunc(ctx, func() { closeAtOnce(c.raw) })
		defer stop()
	} else {
		// net/http does not know when a byte limit pauses a connection, so only others are
		// pinged. A request that ends early closes a connection under a byte limit.
		config.SendPingTimeout, config.PingTimeout = pingAfter, pingWait
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return s, nil },
		Protocols:              &protocols,
		MaxResponseHeaderBytes: maxHeadBytes,
		DisableCompression:     true,
		HTTP2:                  config,
	}
	client, err := transport.NewClientConn(ctx, "http", "origin:80")
	if err != nil {
		return nil, err
	}
	s.client = client
	_ = client.Reserve() // a connection that has ended reports that to its first request
	return c, nil
}

// ready is called when the origin's settings are known and when nothing of the dial can fail
// any more. The second call makes the connection available to other requests.
func (s *http2Conn) ready() {
	switch {
	case s.steps.Add(1) < 2:
		time.AfterFunc(settingsTimeout, s.settle)
	case s.endsDial:
		s.c.t.pool.dialEnded(s.c.home, s.c, nil)
	default:
		s.c.t.pool.addHTTP2(s.c)
	}
}

// settle is called when the origin's settings are known or no longer waited for.
func (s *http2Conn) settle() { s.settled.Do(s.ready) }

func (s *http2Conn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if flood := s.guard.read(p[:n]); flood != nil {
		n, err = 0, flood
	}
	if err != nil || s.guard.wentAway() {
		s.end()
	}
	return n, err
}

// end makes the connection refuse further requests.
func (s *http2Conn) end() {
	if !s.closing.Swap(true) {
		s.c.t.pool.remove(s.c)
		s.settle() // releases the requests that wait for the connection
	}
}

// Write writes frames of net/http, which acknowledges the origin's settings when it has
// applied them.
func (s *http2Conn) Write(p []byte) (int, error) {
	if s.guard.wrote(p) {
		s.settle()
	}
	return s.Conn.Write(p)
}

// Close waits at most closeTimeout for a peer that does not read.
func (s *http2Conn) Close() error {
	s.end()
	timer := time.AfterFunc(closeTimeout, func() { s.Conn.NetConn().Close() })
	defer timer.Stop()
	return closeAtOnce(s.Conn)
}

// exchange is one request on an HTTP/2 connection. It is also the context of the request
// that net/http gets, so that net/http calls the exchange's trace. If this side ends the
// exchange early, the context's cause says why: an *Error for a timeout.
type exchange struct {
	context.Context // ends when the exchange ends
	cancel          context.CancelCauseFunc

	t      *Transport
	c      *conn
	caller context.Context

	trace         httptrace.ClientTrace
	informational int      // number of 1xx answers
	up            *upload2 // nil without a body
	body          body2

	mu       sync.Mutex
	written  bool // a part of the head may have been written
	answered bool // the head has arrived, or the exchange has ended

	timer       pausableTimer // for the head, then for each read of the body
	stopContext func() bool   // stops the context from ending the connection
	ended       sync.Once
}

// roundTrip2 sends a request on an HTTP/2 connection. again means that the request may be
// sent once more, because the origin has certainly not processed it.
func (t *Transport) roundTrip2(ctx context.Context, c *conn, o *outgoing) (_ *http.Response, _ *Error, again bool) {
	x := &exchange{t: t, c: c, caller: ctx, stopContext: noStop}
	x.Context, x.cancel = context.WithCancelCause(ctx)
	if c.byteLimited() {
		x.stopContext = context.AfterFunc(ctx, x.abandonIfPaused)
	}
	x.timer.conn, x.timer.onExpire = c.metered, x.timedOut
	x.expectAnswer(true)
	used := c.multiplexed.used.Swap(true)
	resp, err := c.multiplexed.client.RoundTrip(x.request(o))
	x.headArrived()
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 999) {
		x.cancel(errStatus)
		resp.Body.Close()
		err = errStatus
	}
	if err != nil {
		e := x.fail(err, AnswerTimeout)
		if x.Err() == nil {
			e.Sent, again = x.outcome(err, used)
			e.Refused = strings.Contains(err.Error(), tooMuch)
		}
		e.Stale = used && e.Kind == Closed && connectionLost(err)
		o.bodyTaken = x.up != nil && x.up.taken()
		x.end(true)
		return nil, e, again
	}
	o.bodyTaken = o.bodyTaken || x.up != nil
	resp.Request = o.req
	bodiless := o.req.Method == http.MethodHead
	switch resp.StatusCode {
	case http.StatusNoContent, http.StatusNotModified:
		bodiless = true
		resp.ContentLength = 0
	default:
		// Without Content-Length, net/http's length 0 means that the stream has ended.
		bodiless = bodiless || resp.ContentLength == 0 && resp.Header["Content-Length"] == nil
	}
	if bodiless {
		resp.Body.Close()
		resp.Body = http.NoBody
		x.end(false)
		return resp, nil, false
	}
	x.body = body2{x: x, resp: resp, inner: resp.Body, stall: t.stallTimeout(ctx)}
	resp.Body = &x.body
	return resp, nil, false
}

// Texts of errors of net/http whose values and types are not exported. A request of which
// an error says something else counts as sent.
const (
	connectionFault = "connection error: "                       // begins an error about invalid HTTP/2
	goAwayRefused   = "http2: Transport received GOAWAY"         // begins the error of a new connection's first request
	goAwayGraceful  = "http2: Transport received Server's grace" // begins the error of another request that a GOAWAY leaves out
	goAway          = "GOAWAY"                                   // is in these and in the error of a connection closed after a GOAWAY
	wantsHTTP1      = "HTTP_1_1_REQUIRED"                        // is in the error of a stream or connection that the origin ended because of that
	tooMuch         = "ENHANCE_YOUR_CALM"                        // so is this
)

// Codes of a reset stream (RFC 9113, 7).
const (
	codeProtocol = 1 // invalid HTTP/2
	codeRefused  = 7 // the request was not processed
)

// streamError is net/http's error of one stream: errors.As fills in any type that has these
// fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

// outcome reports whether the origin may have processed a request that failed with err, and
// if not, whether the request may be sent again at once. It is called when net/http has
// finished the request. used means that the request was not the connection's first. An
// origin that ends a new connection with an error is not asked again: the next connection
// would fail, too.
func (x *exchange) outcome(err error, used bool) (sent, again bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var stream streamError
	switch text := err.Error(); {
	case strings.Contains(text, wantsHTTP1):
		x.t.pool.onlyHTTP1(x.c)
		return false, true
	case !x.written:
		return false, used && x.c.multiplexed.closing.Load()
	case errors.As(err, &stream):
		refused := stream.Code == codeRefused
		return !refused, refused
	case strings.HasPrefix(text, goAwayGraceful):
		return false, true
	default:
		return !strings.HasPrefix(text, goAwayRefused), false
	}
}

// connectionLost reports whether err is the end of the connection during a request.
func connectionLost(err error) bool {
	var stream streamError
	return closedByPeer(err) || !errors.As(err, &stream) && strings.Contains(err.Error(), goAway)
}

// request is the caller's request, changed so that net/http adds no header.
func (x *exchange) request(o *outgoing) *http.Request {
	req := o.req.WithContext(x)
	req.Close = false // other requests use the connection too
	req.Body, req.GetBody = nil, nil
	req.ContentLength = 0
	if o.length != 0 {
		x.up = &upload2{x: x, body: o.body, timer: pausableTimer{conn: x.c.metered, onExpire: x.stall}}
		req.Body, req.ContentLength = x.up, o.length
	}
	x.setTrace()
	_, agent := req.Header["User-Agent"]
	change := !agent
	for name := range req.Header {
		change = change || notForHTTP2(name)
	}
	if change {
		req.Header = maps.Clone(req.Header)
		maps.DeleteFunc(req.Header, func(name string, _ []string) bool { return notForHTTP2(name) })
		if !agent {
			req.Header["User-Agent"] = noAgent
		}
	}
	return req
}

// noAgent makes net/http send no User-Agent.
var noAgent = []string{""}

func notForHTTP2(field string) bool { return field == "Upgrade" || isConnectionField(field) }

// TraceKey is the context key of a trace. net/http/httptrace does not export it, so it is
// read through a context that records the key it is asked for.
var TraceKey = func() any {
	var asked keyRecorder
	httptrace.ContextClientTrace(&asked)
	return asked.key
}()

// keyRecorder is a context that records the key it is asked for.
type keyRecorder struct {
	context.Context
	key any
}

func (a *keyRecorder) Value(key any) any {
	a.key = key
	return nil
}

// Value implements context.Context. net/http gets the exchange's trace and no other.
func (x *exchange) Value(key any) any {
	if key == TraceKey {
		return &x.trace
	}
	return x.Context.Value(key)
}

// setTrace sets the functions of the trace.
func (x *exchange) setTrace() {
	x.trace.WroteHeaders = x.headWritten
	if x.up != nil {
		x.trace.WroteRequest = func(httptrace.WroteRequestInfo) {
			x.up.timer.stop()
			x.expectAnswer(true)
		}
	}
	theirs, _ := x.Context.Value(TraceKey).(*httptrace.ClientTrace)
	if theirs == nil {
		return
	}
	x.trace.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
		if x.informational++; x.informational > maxInformational {
			return errEndless1xx
		}
		switch code {
		case http.StatusContinue:
			return nil
		case http.StatusSwitchingProtocols:
			return errSwitch
		}
		return got1xx(theirs, code, http.Header(header))
	}
}

// headWritten is called when the request's head has been written, or could not be, before
// anything else is written on the connection.
func (x *exchange) headWritten() {
	x.mu.Lock()
	x.written = x.c.multiplexed.guard.claim()
	x.mu.Unlock()
	if x.up != nil {
		x.expectAnswer(false) // until the body has been sent
	}
}

// expectAnswer starts or stops the timeout of the answer's head, unless the head has
// arrived.
func (x *exchange) expectAnswer(now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answered || x.t.AnswerTimeout <= 0:
	case now:
		x.timer.start(x.t.AnswerTimeout)
	default:
		x.timer.stop()
	}
}

// headArrived records that the head has arrived, or that the exchange has ended.
func (x *exchange) headArrived() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	x.timer.stop()
}

// timedOut ends the exchange because the head did not arrive, or the body made no progress,
// in time.
func (x *exchange) timedOut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		x.stall()
	} else {
		x.cancel(&Error{Kind: AnswerTimeout})
	}
}

// stall ends the exchange because a body made no progress.
func (x *exchange) stall() { x.cancel(&Error{Kind: Stalled}) }

// end gives the stream back. If this side has ended the exchange, the origin may still send
// its answer, which a byte limit should not pay for: then the connection is closed.
func (x *exchange) end(again bool) {
	x.ended.Do(func() {
		early := x.Err() != nil
		x.cancel(nil)
		x.stopContext()
		if x.up != nil {
			x.up.end(again)
		}
		if early && x.c.byteLimited() {
			x.t.pool.retire(x.c)
		}
		x.t.pool.releaseStream(x.c)
	})
}

// abandonIfPaused closes a connection that a byte limit pauses, so that a caller whose
// context ended is not blocked. A connection that other requests use is not closed; then
// the caller is released when the connection moves.
func (x *exchange) abandonIfPaused() {
	if x.t.pool.retire(x.c) {
		x.c.close()
	}
}

// fail makes an *Error of an error of net/http.
func (x *exchange) fail(err error, waiting Kind) *Error {
	var ours *Error
	var stream streamError
	switch {
	case errors.As(context.Cause(x), &ours):
		err = ours
	case budgetErrorOf(err) != nil:
	case x.up != nil && x.up.readErr.Load() != nil:
		err = x.up.readErr.Load()
	case errors.As(err, &stream) && errors.As(stream.Cause, &ours): // this side ended the stream
		err = ours
	case stream.Code == codeProtocol, strings.HasPrefix(err.Error(), connectionFault):
		err = malformedAnswer(err.Error())
	}
	e := failure(x.caller, waiting, err)
	e.Sent = true
	return e
}

// pause waits before a request is sent again: longer each time, not at all the first time.
func pause(ctx context.Context, refused int) bool {
	if refused < 2 {
		return ctx.Err() == nil
	}
	d := 25 * time.Millisecond << refused
	return clock.Sleep(ctx, d+rand.N(d/2)) == nil
}
