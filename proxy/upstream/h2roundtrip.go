package upstream

import (
	"context"
	"errors"
	"fmt"
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

// maxRefused bounds how often a request is sent again after the origin said that it did not
// process it.
const maxRefused = 5

const errStatus = malformedAnswer("the status is not a valid status code")

// exchange is one request on an HTTP/2 connection. It is also the context of the request
// that net/http gets, so that net/http calls the exchange's trace.
type exchange struct {
	context.Context // ends when the exchange ends
	cancel          context.CancelFunc

	t      *Transport
	c      *conn
	caller context.Context

	trace         httptrace.ClientTrace
	informational int // number of 1xx answers
	up            *upload2
	body          body2

	mu             sync.Mutex
	stream         uint32 // 0 before the head was written
	answered       bool   // the head has arrived, or the exchange has ended
	streamReleased bool   // the stream was given back to the pool

	timer         pausableTimer // for the head, then for each read of the body
	headTimedOut  atomic.Bool
	bodyAbandoned atomic.Bool // the body was closed before its end
	bodyStalled   atomic.Bool // a body made no progress
	stopContext   func() bool // stops the context from ending the connection
}

// roundTrip2 sends a request on an HTTP/2 connection. again means that the request may be
// sent once more, because the origin has certainly not processed it.
func (t *Transport) roundTrip2(ctx context.Context, c *conn, o *outgoing) (_ *http.Response, _ *Error, again bool) {
	x := &exchange{t: t, c: c, caller: ctx}
	x.Context, x.cancel = context.WithCancel(ctx)
	if c.byteLimited() {
		x.stopContext = context.AfterFunc(ctx, x.abandonIfPaused)
	}
	x.timer.conn, x.timer.onExpire = c.metered, x.timedOut
	x.await()
	used := c.multiplexed.used.Swap(true)
	resp, err := c.multiplexed.client.RoundTrip(x.request(o))
	x.headArrived()
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 999) {
		x.cancel()
		resp.Body.Close()
		err = errStatus
	}
	if err != nil {
		e := x.fail(err, AnswerTimeout)
		if x.Err() == nil {
			e.Sent, again = x.outcome(used)
		}
		e.Stale = used && e.Kind == Closed && x.connectionLost(err)
		o.bodyTaken = x.up != nil && x.up.started.Load()
		x.end(true)
		return nil, e, again
	}
	if x.up != nil {
		x.up.answered()
		o.bodyTaken = true
	}
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

// outcome reports whether the origin may have processed a failed request, and if not,
// whether the request may be sent again at once. It is called when net/http has finished
// the request. used means that the request was not the connection's first.
func (x *exchange) outcome(used bool) (sent, again bool) {
	x.mu.Lock()
	stream := x.stream
	x.mu.Unlock()
	if stream == 0 {
		return false, used && x.c.multiplexed.netConn.closing.Load()
	}
	unprocessed, again := x.c.multiplexed.netConn.frames.unprocessed(stream)
	return !unprocessed, again
}

// connectionLost reports whether the connection ended during the request.
func (x *exchange) connectionLost(err error) bool {
	var stream streamError
	return closedByPeer(err) || x.c.multiplexed.netConn.frames.hasGoAway.Load() && !errors.As(err, &stream)
}

// request is the caller's request, changed so that net/http adds no header.
func (x *exchange) request(o *outgoing) *http.Request {
	req := o.req.WithContext(x)
	req.Close = false // other requests use the connection too
	req.Body, req.GetBody = nil, nil
	req.ContentLength = 0
	if o.length != 0 {
		x.up = &upload2{x: x, body: o.body}
		req.Body, req.ContentLength = x.up, o.length
	} else if o.body != nil && o.body != http.NoBody {
		o.closeBody()
	}
	x.setTrace()
	_, agent := req.Header["User-Agent"]
	if agent && !hasOurs(req.Header) {
		return req
	}
	header := make(http.Header, len(req.Header)+1)
	for name, values := range req.Header {
		if !isConnectionField(name) {
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
		if isConnectionField(name) {
			return true
		}
	}
	return false
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
	if x.up != nil && x.t.AnswerTimeout > 0 {
		x.trace.WroteRequest = func(httptrace.WroteRequestInfo) { x.await() }
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

// headWritten is called when the request's head has been written, or could not be, before
// anything else is written on the connection.
func (x *exchange) headWritten() {
	frames := x.c.multiplexed.netConn.frames
	stream := frames.claim()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stream = stream
	switch {
	case x.streamReleased:
		frames.forget(stream)
	case x.up != nil && !x.answered:
		x.timer.stop() // until the body has been sent
	}
}

// await starts the timeout of the answer's head, unless the head has arrived.
func (x *exchange) await() {
	if x.t.AnswerTimeout <= 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered {
		x.timer.start(x.t.AnswerTimeout)
	}
}

// headArrived records that the head has arrived, or that the exchange has ended.
func (x *exchange) headArrived() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	if x.t.AnswerTimeout > 0 {
		x.timer.stop()
	}
}

// timedOut ends the exchange because the head did not arrive, or the body made no progress,
// in time.
func (x *exchange) timedOut() {
	x.mu.Lock()
	answered := x.answered
	x.mu.Unlock()
	if answered {
		x.stall()
		return
	}
	x.headTimedOut.Store(true)
	x.cancel()
}

// end gives the stream back.
func (x *exchange) end(again bool) {
	x.mu.Lock()
	left, stream := x.streamReleased, x.stream
	x.streamReleased = true
	x.mu.Unlock()
	if left {
		return
	}
	x.cancel()
	if x.stopContext != nil {
		x.stopContext()
	}
	if x.up != nil {
		x.up.end(again)
	}
	frames := x.c.multiplexed.netConn.frames
	frames.forget(stream)
	if x.endedEarly() && (x.c.byteLimited() || frames.headerBlockOpen()) {
		x.t.pool.retire(x.c)
	}
	x.t.pool.releaseStream(x.c)
}

// abandonIfPaused closes a connection that a byte limit pauses, so that a caller whose
// context ended is not blocked. A connection that other requests use is not closed; then
// the caller is released when the connection moves.
func (x *exchange) abandonIfPaused() {
	if x.t.pool.retire(x.c) {
		x.c.close()
	}
}

// endedEarly tells whether the connection must be closed: the exchange was ended from this
// side and the origin may still send its answer, which a byte limit should not pay for, or
// the origin has begun a header block and not ended it.
func (x *exchange) endedEarly() bool {
	return x.bodyAbandoned.Load() || x.caller.Err() != nil || x.bodyStalled.Load() || x.headTimedOut.Load()
}

// stall ends the exchange because a body made no progress.
func (x *exchange) stall() {
	x.bodyStalled.Store(true)
	x.cancel()
}

// streamError is net/http's error of one stream: errors.As fills in any type that has these
// fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

const codeProtocol = 1 // stream error code: the origin sent invalid HTTP/2

// connectionFault is the prefix of net/http's errors about invalid HTTP/2, whose type is
// not exported.
const connectionFault = "connection error: "

// fail makes an *Error of an error of net/http.
func (x *exchange) fail(err error, waiting Kind) *Error {
	e := &Error{Kind: Closed, Sent: true, Err: err}
	var ours *Error
	var bad malformedAnswer
	var stream streamError
	var timeout net.Error
	switch {
	case x.caller.Err() != nil:
		e.Kind, e.Err = Canceled, x.caller.Err()
	case x.bodyStalled.Load():
		e.Kind = Stalled
	case x.headTimedOut.Load():
		e.Kind = AnswerTimeout
	case budgetErrorOf(err) != nil:
		e.Kind = Budget
	case x.up != nil && x.up.readErr.Load() != nil:
		e.Kind, e.Err = Upload, x.up.readErr.Load()
	case errors.As(err, &stream):
		// The cause wraps an error of this package if this side ended the stream.
		switch {
		case errors.As(stream.Cause, &ours):
			e.Kind = ours.Kind
		case stream.Code == codeProtocol:
			e.Kind = Protocol
		}
	case errors.As(err, &bad), strings.HasPrefix(err.Error(), connectionFault):
		e.Kind = Protocol
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = waiting
	}
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
