package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/abide-proxy/abide/internal/replay"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// exchange is the HTTP side of a dispatch.Request: the client's connection, the request's
// body and the response. All parts are values in one piece of memory, because a request that
// needs twenty pieces spends more time on them than on its own bytes.
type exchange struct {
	dispatch.Request
	conn      *clientConn
	writer    responseWriter
	upload    upload // has no body without one
	download  download
	replay    replay.Body // nothing is kept before Prepare
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
	case upstream.TraceKey:
		if trace := c.x.writer.informational(); trace != nil {
			return trace
		}
	}
	return c.Context.Value(key)
}

// begin connects the exchange with its handler's arguments. It returns r with the exchange's
// context.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) *http.Request {
	x.Start = time.Now()
	x.Caller = x
	x.Address = x.conn.name()
	x.writer = responseWriter{
		ResponseWriter: w, request: &x.Request, ctl: http.NewResponseController(w),
		proto: r.ProtoMajor*10 + r.ProtoMinor, unclear: problem.UnclearEnd(r), upload: &x.upload,
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
	p := x.Snapshot.Policy()
	x.upload = upload{
		body: r.Body, ctx: r.Context(), ctl: x.writer.ctl, conn: conn,
		stall: p.Timeouts.Stall, life: p.Timeouts.Upload, left: int64(p.Bounds.Upload),
	}
	r.Body = &x.upload
}

// end is called when the handler returns. The upstream may still have the request's body
// and the trace. Neither may use the response after that.
func (x *exchange) end(d *dispatch.Dispatcher) {
	x.watch.stop()
	x.memory.ahead.Store(false)
	x.replay.Finish()
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

var _ dispatch.Caller = &exchange{}

// Prepare begins to keep the request's body, so that it can be sent more than once. A small
// body is read before the request waits: net/http notices that a client has left only when
// nothing of the body remains to be read. A body of unknown length is kept while it is sent.
// The rest of a body that is larger than retry.body, or than what remains of retry.memory,
// streams and is sent once; some of it is read ahead while the request waits.
func (x *exchange) Prepare(r *http.Request) error {
	if !x.HasBody() || x.Snapshot.Policy().Observes() {
		return nil
	}
	retry, conn := x.Snapshot.Policy().Retry, x.watchedConn()
	large := r.ContentLength > int64(retry.Body)
	if large && conn == nil {
		return nil
	}
	x.memory.maxBody, x.memory.maxTotal, x.memory.announced = int64(retry.Body), int64(retry.Memory), r.ContentLength
	if large || r.ContentLength < 0 {
		x.watch.watch(r.Context(), conn)
		if !large || !x.continues {
			x.replay.Begin(&x.upload, r.Trailer, &x.memory)
		}
		return nil
	}
	x.replay.Begin(&x.upload, nil, &x.memory)
	began := time.Now()
	stop := context.AfterFunc(r.Context(), func() { x.upload.Close() }) // the read may be waiting for the client
	err := x.replay.ReadAhead()
	stop()
	x.Uploading = time.Since(began)
	if err == nil && !x.replay.Whole() {
		x.watch.watch(r.Context(), conn)
	}
	return err
}

func (x *exchange) HasBody() bool { return x.upload.body != nil }

func (x *exchange) BeginWait() {
	x.SetSent(false)
	x.upload.hold()
	x.watch.start()
	x.memory.ahead.Store(true)
	if !x.continues && x.replay.Growing() {
		go func() {
			if err := x.replay.ReadAhead(); err != nil {
				x.watch.cancel(err)
			}
		}()
	}
}

func (x *exchange) EndWait() {
	x.watch.stop()
	x.memory.ahead.Store(false)
	x.SetSent(true)
	x.upload.resume()
	most := int64(x.Snapshot.Policy().Retry.Body)
	if x.memory.announced > most {
		most = -1
	}
	x.replay.Once(most)
}

func (x *exchange) WaitContext(ctx context.Context) context.Context {
	if x.watch.ctx != nil {
		return x.watch.ctx
	}
	return ctx
}

func (x *exchange) SetSent(sent bool) {
	if conn := x.watchedConn(); conn != nil {
		conn.halfClose.delay(sent)
	}
}

func (x *exchange) HasLeft() bool {
	conn := x.watchedConn()
	return x.Waited() > 0 && conn != nil && conn.hasLeft()
}

// Attempt is the request for the next attempt. The attempt before may still read its body.
func (x *exchange) Attempt(r *http.Request) *http.Request {
	switch {
	case !x.replay.Begun():
		return r
	case r.ContentLength >= 0 && x.replay.Whole():
		r.GetBody = func() (io.ReadCloser, error) {
			body, _ := x.replay.Reader()
			return body, nil
		}
		r.Body, _ = r.GetBody()
		return r
	}
	next := r.WithContext(r.Context())
	url := *r.URL
	next.URL = &url
	next.Body, next.Trailer = x.replay.Reader()
	return next
}

func (x *exchange) Replayable(r *http.Request) bool {
	return x.replay.Intact() || r.Body == nil || r.Body == http.NoBody
}

func (x *exchange) Release() {
	x.memory.release()
	x.replay.Drop()
}

func (x *exchange) BodyProblem(certain bool) *problem.Problem {
	if certain {
		x.upload.awaitFailure()
	}
	return x.upload.problem()
}

func (x *exchange) Spared() bool { return x.upload.spared() }

// replayStep is the least memory in bytes that a body takes at a time. Memory is taken for
// bytes that have come and not for a length that was announced.
const replayStep = 16 << 10

// maxReadAhead bounds the bytes read of a body that is too large to be stored, while its
// request waits: the end of a client that has left comes after what the client has sent.
// Half of retry.memory is not available for that.
const maxReadAhead = 8 << 20

// replayMemory is the part of retry.memory that one request's body takes.
type replayMemory struct {
	total     *atomic.Int64 // bytes that all requests take
	maxBody   int64         // retry.body
	maxTotal  int64         // retry.memory
	announced int64         // length of the body; negative: unknown
	taken     atomic.Int64  // bytes that this request takes
	ahead     atomic.Bool   // the request waits, and its body is read ahead
	released  atomic.Bool   // nothing more may be taken
}

// Take returns the number of bytes by which a buffer with have bytes may grow, 0 if not at
// all. There is one byte more than announced or allowed, for EOF itself: net/http looks at the client only
// after EOF. Only one goroutine may call Take at a time.
func (m *replayMemory) Take(have int) int {
	most, memory := m.maxBody+1, m.maxTotal
	switch ahead := m.ahead.Load(); {
	case ahead && (int64(have) >= most || m.announced >= most):
		most, memory = max(most, maxReadAhead+1), memory/2
	case m.announced >= most:
		most = 0 // nothing is stored of a body that is too large
	}
	if m.announced >= 0 {
		most = min(most, m.announced+1)
	}
	step := min(max(replayStep, have), int(most)-have)
	if step <= 0 || m.total.Add(int64(step)) > memory {
		m.total.Add(-int64(max(step, 0)))
		return 0
	}
	m.taken.Add(int64(step))
	if m.released.Load() { // by the end of the handler, meanwhile
		m.total.Add(-m.taken.Swap(0))
		return 0
	}
	return step
}

// release gives the memory back. Nothing more is taken.
func (m *replayMemory) release() {
	m.released.Store(true)
	m.total.Add(-m.taken.Swap(0))
}

// clientCheck is the time between two checks whether the client of a waiting request has
// left.
const clientCheck = time.Second

var errClientLeft = errors.New("the client has left")

// clientWatch ends the waits of a request when its client leaves or its body fails.
// net/http notices that a client has left only after the whole body was read. The zero value
// watches nothing.
type clientWatch struct {
	ctx     context.Context // of the waits; nil: the request's own
	cancel  context.CancelCauseFunc
	timer   *time.Timer // checks the client; nil: net/http does
	waiting atomic.Bool
}

// watch begins to watch conn, whose request has the context ctx. conn is nil if the end of
// the connection says nothing about the request.
func (c *clientWatch) watch(ctx context.Context, conn *clientConn) {
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if conn != nil && upstream.RawConn(conn.Conn) != nil {
		c.timer = time.AfterFunc(clientCheck, func() {
			if !c.waiting.Load() {
				return
			}
			if conn.hasLeft() {
				c.cancel(errClientLeft)
				return
			}
			c.timer.Reset(clientCheck)
		})
		c.timer.Stop()
	}
}

// start is called when a wait begins.
func (c *clientWatch) start() {
	if !c.waiting.Swap(true) && c.timer != nil {
		c.timer.Reset(clientCheck)
	}
}

// stop is called when a wait ends.
func (c *clientWatch) stop() {
	if c.waiting.Swap(false) && c.timer != nil {
		c.timer.Stop()
	}
}

// close ends the context of the waits.
func (c *clientWatch) close() {
	if c.cancel != nil {
		c.cancel(nil)
	}
}

// transport sends requests through the dispatcher, for goproxy and WebSockets.
type transport struct {
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Metrics
}

// RoundTrip sends every request that abide can see, whether it came without CONNECT, in a
// cleartext CONNECT, or intercepted over HTTP/1 or HTTP/2. A refusal of abide becomes a
// response.
func (t *transport) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	x.HTTP = r
	resp, err := t.dispatcher.Do(r.Context(), &x.Request)
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return t.respond(x, r, p), nil
	}
	return x.deliver(resp), err
}

// respond is the response to a request that abide answers itself.
func (t *transport) respond(x *exchange, r *http.Request, p *problem.Problem) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	if p == problem.Left {
		panic(http.ErrAbortHandler) // the client has left
	}
	t.metrics.Refused(p.Reason)
	if x.Snapshot.Debugs() {
		x.LogDecision("answered by abide: %d %s", p.Status, p.Reason)
	}
	return p.Response(r, x.Site())
}

// emptyHeader is the header that goproxy sees: responseWriter has the real one. Nothing
// writes to emptyHeader.
var emptyHeader = http.Header{}

// deliver makes an upstream's response the client's.
func (x *exchange) deliver(resp *http.Response) *http.Response {
	stripHop(resp.Header)
	x.RewriteRedirects(resp.Header)
	x.writer.head, resp.Header = resp.Header, emptyHeader
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if resp.Body != http.NoBody {
		x.download = download{body: resp.Body, writer: &x.writer, left: resp.ContentLength}
		resp.Body = &x.download
	}
	return resp
}
