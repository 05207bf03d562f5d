package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// exchange is the HTTP side of a dispatch.Request: the client's connection, the request's
// body and the response. All parts are values in one piece of memory, because a request that
// needs twenty pieces spends more time on them than on its own bytes.
type exchange struct {
	dispatch.Request
	conn      *clientConn
	writer    responseWriter
	upload    *upload // nil without a body
	download  download
	replay    replayBody // nothing is kept before Prepare
	memory    replayMemory
	watch     clientWatch
	continues bool // the client waits for 100 Continue before it sends the body
	ctx       exchangeContext
}

// exchangeContext is the context of a client's request. It has the exchange, and the trace
// that receives 1xx responses, which would need two contexts around each other otherwise.
type exchangeContext struct {
	context.Context
	x *exchange
}

type exchangeKey struct{}

func (c *exchangeContext) Value(key any) any {
	switch key {
	case exchangeKey{}:
		return c.x
	case traceKey:
		if trace := c.x.writer.informational(); trace != nil {
			return trace
		}
	}
	return c.Context.Value(key)
}

// exchangeOf finds the exchange of a request's context.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// begin connects the exchange with its handler's arguments. It returns r with the exchange's
// context.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) *http.Request {
	x.Start = time.Now()
	x.Caller = x
	x.Address = x.conn.name()
	x.writer = responseWriter{
		ResponseWriter: w, request: &x.Request, ctl: http.NewResponseController(w),
		proto: r.ProtoMajor*10 + r.ProtoMinor, unclear: problem.UnclearEnd(r),
	}
	x.ctx = exchangeContext{Context: r.Context(), x: x}
	return r.WithContext(x.Bind(&x.ctx))
}

// beginUpload makes r's body the exchange's upload.
func (x *exchange) beginUpload(r *http.Request) {
	conn := x.conn
	if r.ProtoMajor == 1 {
		// Full duplex: an upstream's response may come before the body has ended.
		x.writer.ctl.EnableFullDuplex()
	} else {
		conn = nil
	}
	x.upload = newUpload(r, x.writer.ctl, x.Snapshot.Policy(), conn)
	x.writer.upload = x.upload
	r.Body = x.upload
}

// end is called when the handler returns. The upstream may still have the request's body
// and the trace. Neither may use the response after that.
func (x *exchange) end(d *dispatch.Dispatcher) {
	x.watch.stop()
	x.memory.ahead.Store(false)
	x.replay.finish()
	x.upload.finish()
	x.writer.finish()
	x.Uploaded = x.upload.size()
	d.End(&x.Request, x.download.total)
	x.watch.close()
}

// watchedConn is the client's connection if its end says that the client has left this
// request, else nil: over HTTP/2 a connection has several requests.
func (x *exchange) watchedConn() *clientConn {
	if x.writer.proto/10 != 1 {
		return nil
	}
	return x.conn
}

// traceKey is the key under which httptrace looks for a trace in a context. httptrace does
// not export the key, so it is found by a context that records which key is asked for.
var traceKey = func() any {
	var r keyRecorder
	httptrace.ContextClientTrace(&r)
	return r.key
}()

type keyRecorder struct {
	context.Context
	key any
}

func (r *keyRecorder) Value(key any) any { r.key = key; return nil }
