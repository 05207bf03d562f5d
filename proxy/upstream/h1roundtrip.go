package upstream

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// answer holds the parts of one HTTP/1 response, as one allocation.
type answer struct {
	resp http.Response
	body body
}

var chunkedCoding = []string{"chunked"}

// noStop is the stop of a context that does not end.
func noStop() bool { return true }

// roundTrip sends the request and reads the answer's head, on the caller's goroutine.
func (c *conn) roundTrip(ctx context.Context, o *outgoing) (resp *http.Response, e *Error) {
	c.begin()
	c.noReuse = c.noReuse || o.close
	stop := noStop
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.abortFn)
	}
	up, err := c.sendRequest(o)
	if err == nil {
		var h head
		if h, err = c.readAnswerHead(ctx, o); err == nil {
			resp, err = c.deliver(ctx, o, &h, stop, up)
		}
		if err == nil {
			return resp, nil
		}
	}
	stop()
	stale := c.reused && !c.answered && closedByPeer(err) && ctx.Err() == nil
	if up != nil {
		err = up.blame(err, c.readErr != nil)
	}
	e = c.fail(ctx, AnswerTimeout, err)
	if e.Stale = stale && e.Kind == Closed; e.Stale {
		c.t.pool.closeOlderThan(c)
	}
	c.releaseReader()
	c.aborted.Store(true) // close without TLS close_notify
	if up != nil {
		up.cancel(c)
	} else {
		c.close()
	}
	return nil, e
}

// sendRequest writes the request. A larger body is written by the returned upload, which
// runs concurrently.
func (c *conn) sendRequest(o *outgoing) (*upload, error) {
	o.auth = c.auth
	w := writers.Get().(*bufio.Writer)
	w.Reset((*connWriter)(c))
	o.writeHead(w)
	inline := o.length > 0 && o.length <= inlineBody && o.req.GetBody != nil
	var err error
	if inline {
		o.bodyTaken = true
		buf := uploadBuffers.Get().(*[uploadBuffer]byte)
		err = sendPlain(w, o.body, o.length, buf[:])
		uploadBuffers.Put(buf)
		o.body.Close()
	}
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	switch {
	case err != nil:
		return nil, err
	case o.length == 0 || inline:
		c.expectRead(c.t.AnswerTimeout)
		return nil, nil
	}
	c.expectRead(0) // until the body has been sent
	o.bodyTaken = true
	u := &upload{c: c, req: o.req, body: o.body, length: o.length, done: make(chan struct{})}
	go u.run()
	return u, nil
}

// readAnswerHead reads heads up to the first that is not informational.
func (c *conn) readAnswerHead(ctx context.Context, o *outgoing) (head, error) {
	for informational := 0; ; informational++ {
		text, lines, err := readHead(c.br, maxHeadBytes, true)
		if err != nil {
			return head{}, err
		}
		h, err := parseHead(text, lines)
		switch {
		case err != nil || h.code >= 200:
			return h, err
		case h.code == http.StatusSwitchingProtocols:
			if o.upgrade == "" || h.minor == 0 {
				return h, errSwitch
			}
			return h, nil
		case informational == maxInformational:
			return h, errEndless1xx
		case h.code != http.StatusContinue:
			if err := got1xx(httptrace.ContextClientTrace(ctx), h.code, h.header); err != nil {
				return h, err
			}
		}
	}
}

func got1xx(trace *httptrace.ClientTrace, code int, header http.Header) error {
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	if err := trace.Got1xxResponse(code, textproto.MIMEHeader(header)); err != nil {
		return &Error{Kind: Canceled, Err: err}
	}
	return nil
}

// deliver makes the response of a head. If there is no body, the connection is free before
// the caller gets the response.
func (c *conn) deliver(ctx context.Context, o *outgoing, h *head, stop func() bool, up *upload) (*http.Response, error) {
	a := &answer{resp: http.Response{
		Status: h.status, StatusCode: h.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: h.minor,
		Header: h.header, Trailer: h.trailer, ContentLength: h.length,
		Close: h.close, TLS: c.state, Request: o.req,
	}}
	resp, b := &a.resp, &a.body
	if h.minor == 0 {
		resp.Proto = "HTTP/1.0"
	}
	if h.chunked {
		resp.TransferEncoding = chunkedCoding
	}
	if up != nil {
		up.answerStarted()
	}
	if h.code == http.StatusSwitchingProtocols {
		var err error
		resp.ContentLength = 0
		resp.Body, err = c.takeOver(stop, up)
		return resp, err
	}

	*b = body{conn: c, ctx: ctx, stopContext: stop, resp: resp, upload: up}
	switch {
	case o.req.Method == http.MethodHead:
	case h.code == http.StatusNoContent, h.code == http.StatusNotModified:
		resp.ContentLength = 0
	case h.chunked:
		b.chunked = true
	case h.length >= 0:
		b.remaining = h.length
	default:
		b.remaining = untilClose
		resp.Close = true
	}
	b.reuse = !resp.Close
	if !b.chunked && b.remaining == 0 && (up == nil || up.wait()) {
		b.release(b.reuse)
		resp.Body = http.NoBody
		return resp, nil
	}
	if c.patience = c.t.stallTimeout(ctx); c.patience <= 0 {
		c.expectRead(0)
	}
	resp.Body = b
	return resp, nil
}

var errSwitchEarly = malformedAnswer("101 before the request's body was taken")

// switched is the connection after a 101 answer, as the body of that answer. It is a
// net.Conn whose first bytes may have been buffered.
type switched struct {
	bufferedConn
	c *conn
}

// takeOver takes the connection out of HTTP after a 101. The request's context does not
// close it any more.
func (c *conn) takeOver(stop func() bool, up *upload) (*switched, error) {
	if up != nil && !up.complete() {
		return nil, errSwitchEarly
	}
	if !stop() {
		return nil, net.ErrClosed // the context has ended
	}
	s := &switched{bufferedConn{Conn: c.nc}, c}
	if n := c.br.Buffered(); n > 0 {
		data, _ := c.br.Peek(n)
		s.buffered = append([]byte(nil), data...)
	}
	c.releaseReader()
	c.readBy, c.writeBy, c.patience = time.Time{}, time.Time{}, 0
	c.raw.SetDeadline(time.Time{})
	return s, nil
}

func (s *switched) Close() error {
	s.c.close()
	return nil
}

// NetConn is the connection underneath, or nil while buffered bytes are left.
func (s *switched) NetConn() net.Conn {
	if len(s.buffered) > 0 {
		return nil
	}
	return s.Conn
}
