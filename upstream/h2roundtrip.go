package upstream

//lint:file-ignore SA1019 what net/http has in its place does not tell which requests may be sent again

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// maxRefused is how often a request is sent again that the origin said it has
// not looked at.
const maxRefused = 5

var (
	errAgain  = errors.New("the origin did not take the request")
	errStatus = malformed("the status is not one")
)

type exchangeKey struct{}

// exchange is one request on an HTTP/2 connection.
type exchange struct {
	t      *Transport
	c      *conn
	ctx    context.Context // the caller's
	cancel context.CancelFunc

	given bool // the connection has been handed out
	early int  // 1xx answers
	up    *upload2

	mu      sync.Mutex
	heard   bool      // the head has come
	late    *patience // until the answer's head has come; nil without a bound
	overdue atomic.Bool
	unread  atomic.Bool // the body was closed before its end
	stalled atomic.Bool
	left    atomic.Bool
	stop    func() bool // takes the context's hand off the connection
}

// roundTrip2 asks on an HTTP/2 connection. again says that the request may be
// sent once more, because the origin has surely not acted on it.
func (t *Transport) roundTrip2(ctx context.Context, c *conn, o *outgoing) (_ *http.Response, _ *Error, again bool) {
	x := &exchange{t: t, c: c, ctx: ctx}
	inner, cancel := context.WithCancel(ctx)
	x.cancel = cancel
	if c.budgeted() {
		x.stop = context.AfterFunc(ctx, x.abandon)
	}
	if t.AnswerTimeout > 0 {
		x.late = &patience{conn: c.gauge, do: x.miss}
	}
	used := c.h2.used.Swap(true)
	resp, err := t.h2.RoundTrip(x.request(inner, o))
	x.come()
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 999) {
		cancel()
		resp.Body.Close()
		err = errStatus
	}
	if err != nil {
		e := x.fail(err, AnswerTimeout)
		e.Stale = used && e.Kind == Closed && lost(err)
		again = errors.Is(err, errAgain)
		o.begun = x.up != nil && x.up.started.Load()
		x.end(true)
		return nil, e, again
	}
	if x.up != nil {
		x.up.answered()
		o.begun = true
	}
	resp.Request = o.req
	bodiless := o.req.Method == http.MethodHead
	switch resp.StatusCode {
	case http.StatusNoContent, http.StatusNotModified:
		bodiless = true
		resp.ContentLength = 0
	default:
		// Without the field, a length of 0 is that of a stream that has ended.
		bodiless = bodiless || resp.ContentLength == 0 && resp.Header["Content-Length"] == nil
	}
	if bodiless {
		resp.Body.Close()
		resp.Body = http.NoBody
		x.end(false)
		return resp, nil, false
	}
	resp.Body = &body2{x: x, resp: resp, inner: resp.Body}
	return resp, nil, false
}

// lost tells whether the connection went away under the request.
func lost(err error) bool {
	var told http2.GoAwayError
	return hungUp(err) || errors.As(err, &told)
}

// request is the caller's as the http2 package needs it to add nothing.
func (x *exchange) request(inner context.Context, o *outgoing) *http.Request {
	req := o.req.WithContext(exchangeContext{inner, x})
	req.Close = false // other requests use the connection too
	req.Body, req.GetBody = nil, nil
	req.ContentLength = 0
	if o.length != 0 {
		x.up = &upload2{x: x, body: o.body}
		req.Body, req.ContentLength = x.up, o.length
		if o.req.GetBody != nil {
			// The body that is sent again is not taken from here: see rewind.
			req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		}
	} else if o.body != nil && o.body != http.NoBody {
		o.closeBody()
	}
	_, agent := req.Header["User-Agent"]
	if agent && !hasOurs(req.Header) {
		return req
	}
	header := make(http.Header, len(req.Header)+1)
	for name, values := range req.Header {
		if !ours(name) {
			header[name] = values
		}
	}
	if !agent {
		header["User-Agent"] = noAgent
	}
	delete(header, "Upgrade")
	req.Header = header
	return req
}

var noAgent = []string{""}

func hasOurs(h http.Header) bool {
	for name := range h {
		if ours(name) {
			return true
		}
	}
	return false
}

// exchangeContext leads the http2 package to the exchange, and shows it no
// trace but for the 1xx answers.
type exchangeContext struct {
	context.Context
	x *exchange
}

func (c exchangeContext) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.x
	}
	v := c.Context.Value(key)
	if key != traceKey {
		return v
	}
	trace, _ := v.(*httptrace.ClientTrace)
	if trace == nil && c.x.late == nil {
		return v
	}
	own := &httptrace.ClientTrace{WroteRequest: c.x.sent}
	if trace != nil {
		own.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
			if c.x.early++; c.x.early > maxInformational {
				return errEndless1xx
			}
			switch code {
			case http.StatusContinue:
				return nil
			case http.StatusSwitchingProtocols:
				return errSwitch
			}
			return got1xx(trace, code, http.Header(header))
		}
	}
	return own
}

// traceKey is the key of a context's trace, which net/http/httptrace keeps to itself.
var traceKey = func() any {
	var asked askedFor
	httptrace.ContextClientTrace(&asked)
	return asked.key
}()

// askedFor is a context that remembers what it was asked for.
type askedFor struct {
	context.Context
	key any
}

func (a *askedFor) Value(key any) any {
	a.key = key
	return nil
}

// sent starts the wait for the head, unless it has come already.
func (x *exchange) sent(httptrace.WroteRequestInfo) {
	if x.late == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.heard {
		x.late.start(x.t.AnswerTimeout)
	}
}

// come says that the head has come, or nothing will.
func (x *exchange) come() {
	if x.late == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = true
	x.late.stop()
}

// miss ends the exchange because the head did not come.
func (x *exchange) miss() {
	x.overdue.Store(true)
	x.cancel()
}

// end gives the stream back.
func (x *exchange) end(again bool) {
	if x.left.Swap(true) {
		return
	}
	x.cancel()
	if x.stop != nil {
		x.stop()
	}
	if x.up != nil {
		x.up.end(again)
	}
	if x.broken() && (x.c.budgeted() || x.c.h2.nc.frames.mid()) {
		x.t.pool.retire(x.c)
	}
	x.t.pool.leave(x.c)
}

// abandon frees a caller that left from a connection that is held still. One
// that others use too is left to them, and frees the caller when it moves.
func (x *exchange) abandon() {
	if x.t.pool.retire(x.c) {
		x.c.close()
	}
}

// broken tells whether the exchange was ended from here, so that the origin may
// still send some of its answer. Under a byte limit that is not worth reading. Nor is
// the connection of any use when its origin has begun a header block and not ended it.
func (x *exchange) broken() bool {
	return x.unread.Load() || x.ctx.Err() != nil || x.stalled.Load() || x.overdue.Load()
}

// stall ends the exchange because a body did not move.
func (x *exchange) stall() {
	x.stalled.Store(true)
	x.cancel()
}

// fail turns what the http2 package said into an *Error.
func (x *exchange) fail(err error, waiting Kind) *Error {
	e := &Error{Kind: Closed, Sent: true, Err: err}
	var own *Error
	var bad malformed
	var stream http2.StreamError
	var connection http2.ConnectionError
	var timeout net.Error
	switch {
	case x.ctx.Err() != nil:
		e.Kind, e.Err = Canceled, x.ctx.Err()
	case x.stalled.Load():
		e.Kind = Stalled
	case x.overdue.Load():
		e.Kind = AnswerTimeout
	case stillFor(err) != nil:
		e.Kind = Budget
	case x.up != nil && x.up.bad.Load() != nil:
		e.Kind, e.Err = Upload, x.up.bad.Load()
	case errors.Is(err, errAgain):
		e.Sent = false
	case errors.As(err, &stream):
		// What the cause wraps is ours, if it was us who ended the stream.
		switch {
		case errors.As(stream.Cause, &own):
			e.Kind = own.Kind
		case stream.Code == http2.ErrCodeProtocol:
			e.Kind = Protocol
		}
	case errors.As(err, &connection), errors.As(err, &bad):
		e.Kind = Protocol
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = waiting
	}
	return e
}

// pause waits a little longer each time before a request is sent again; not at
// all the first time.
func pause(ctx context.Context, refused int) bool {
	if refused < 2 {
		return ctx.Err() == nil
	}
	d := 25 * time.Millisecond << refused
	timer := time.NewTimer(d + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// body2 is an HTTP/2 answer's body.
type body2 struct {
	x     *exchange
	resp  *http.Response
	inner io.ReadCloser
	timer *patience
	err   error
	ended atomic.Bool // err has been told
}

func (b *body2) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if d := b.x.t.StallTimeout; d > 0 {
		if b.timer == nil {
			b.timer = &patience{conn: b.x.c.gauge, do: b.x.stall}
		}
		b.timer.start(d)
	}
	n, err := b.inner.Read(p)
	if b.timer != nil {
		b.timer.stop()
	}
	if err == nil {
		return n, nil
	}
	b.ended.Store(true)
	switch err {
	case io.EOF:
		maps.DeleteFunc(b.resp.Trailer, func(name string, _ []string) bool { return !allowedTrailer(name) })
		if b.x.up == nil {
			b.x.end(false)
		}
		b.err = err
	case io.ErrUnexpectedEOF:
		b.err = err
	default:
		b.err = b.x.fail(err, Stalled)
	}
	return n, b.err
}

// Close ends the stream if it has not ended.
func (b *body2) Close() error {
	ended := b.ended.Load()
	b.x.unread.Store(!ended)
	if ended || !b.x.c.budgeted() {
		b.x.end(false)
		b.inner.Close()
		return nil
	}
	// It may have something to say on a connection that is held still for another
	// request. That is over when the connection is, at the latest.
	closing := &b.x.t.closing
	closing.Add(1)
	b.x.end(false)
	go func() {
		defer closing.Done()
		b.inner.Close()
	}()
	return nil
}
