package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
)

// answer is what one HTTP/1 response needs, in one piece of memory.
type answer struct {
	resp http.Response
	body body
}

var chunkedCoding = []string{"chunked"}

// roundTrip asks on c and reads the answer's head, all on the caller's
// goroutine.
func (c *conn) roundTrip(ctx context.Context, o *outgoing) (resp *http.Response, e *Error) {
	c.begin()
	c.once = c.once || o.close
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.abortFn)
	}
	up, err := c.ask(o)
	if err == nil {
		var h head
		if h, err = c.hear(ctx, o); err == nil {
			resp, err = c.deliver(ctx, o, &h, stop, up)
		}
		if err == nil {
			return resp, nil
		}
	}
	if stop != nil {
		stop()
	}
	stale := c.reused && !c.heard && hungUp(err) && ctx.Err() == nil
	if up != nil {
		if bad := up.readFailure(); bad != nil {
			err = bad
		} else if still := up.still(); still != nil {
			err = still
		} else if c.readErr != nil && up.stalled() {
			err = &Error{Kind: Stalled, Err: up.err}
		}
	}
	e = c.fail(ctx, AnswerTimeout, err)
	if e.Stale = stale && e.Kind == Closed; e.Stale {
		c.t.pool.distrust(c)
	}
	c.releaseReader()
	c.aborted.Store(true) // no goodbye
	if up != nil {
		up.cancel(c)
	} else {
		c.close()
	}
	return nil, e
}

// ask sends the request, or its head and an upload on the way.
func (c *conn) ask(o *outgoing) (*upload, error) {
	o.auth = c.auth
	w := writers.Get().(*bufio.Writer)
	w.Reset((*connWriter)(c))
	o.writeHead(w)
	inline := o.length > 0 && o.length <= inlineBody && o.req.GetBody != nil
	var err error
	if inline {
		err = sendInline(w, o)
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
	return startUpload(c, o), nil
}

// hear reads heads up to the one that counts.
func (c *conn) hear(ctx context.Context, o *outgoing) (head, error) {
	for informational := 0; ; informational++ {
		text, lines, err := readHead(c.br, c.t.headerBytes(), true)
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

// deliver makes the response of a head. When there is no body to come, the
// connection is free again before the caller sees it.
func (c *conn) deliver(ctx context.Context, o *outgoing, h *head, stop func() bool, up *upload) (*http.Response, error) {
	a := &answer{resp: http.Response{
		Status: h.status, StatusCode: h.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: h.minor,
		Header: h.header, Trailer: h.trailer, ContentLength: h.length,
		Close: h.closes, TLS: c.state, Request: o.req,
	}}
	resp, b := &a.resp, &a.body
	if h.minor == 0 {
		resp.Proto = "HTTP/1.0"
	}
	if h.chunked {
		resp.TransferEncoding = chunkedCoding
	}
	if up != nil {
		up.heard()
	}
	if h.code == http.StatusSwitchingProtocols {
		var err error
		resp.ContentLength = 0
		resp.Body, err = c.switchOver(stop, up)
		return resp, err
	}

	*b = body{c: c, ctx: ctx, stop: stop, resp: resp, up: up}
	switch {
	case o.req.Method == http.MethodHead:
	case h.code == http.StatusNoContent, h.code == http.StatusNotModified:
		resp.ContentLength = 0
	case h.chunked:
		b.chunked = true
	case h.length >= 0:
		b.left = h.length
	default:
		b.left = untilClose
		resp.Close = true
	}
	b.reuse = !resp.Close
	if !b.chunked && b.left == 0 && (up == nil || up.wait()) {
		b.release(b.reuse)
		resp.Body = http.NoBody
		return resp, nil
	}
	if c.patience = c.t.StallTimeout; c.patience <= 0 {
		c.expectRead(0)
	}
	resp.Body = b
	return resp, nil
}

// still is the byte limit that ended the upload, if one did.
func (u *upload) still() error {
	select {
	case <-u.done:
		if e := stillFor(u.err); e != nil {
			return e
		}
	default:
	}
	return nil
}

// stalled tells whether the origin stopped taking the body.
func (u *upload) stalled() bool {
	var timeout net.Error
	return u.wait() && errors.As(u.err, &timeout) && timeout.Timeout()
}
