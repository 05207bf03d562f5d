package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/upstream"
)

// exchange is one request on its way: what was decided about it so far. It is
// one piece of memory for all that a request needs, because a request that
// needs twenty spends more time on them than on its own bytes.
type exchange struct {
	state  *state
	target policy.Target
	client *client
	conn   *clientConn
	writer answerWriter
	upload *upload // nil without a body
	start  time.Time
	wish   wish
	queued func() // see PermitAsk; nil: nobody wants to know

	// Filled by the request's path.
	site      string
	rule      *policy.Site // nil: no rule names the target
	meter     *metrics.Site
	number    uint64       // in the lines of log.level debug; 0: it has none yet
	method    string       // as the queue's limits see it
	path      string       // escaped in the usual way, without query
	prior     *queue.Limit // what robots.txt asks for
	turn      turn
	book      *book                   // what is known of its site's routes, where that is learned
	class     *ledger.Class           // of its route
	seen      uint64                  // the version of the book by which
	asking    bool                    // nothing is sent: somebody asks what would become of it
	own       string                  // whose budget its client's own credential is, "" if it has none
	estimate  int64                   // of the bytes of its answer, where those are limited
	lent      bool                    // somebody else sends it, and may never say what came of it
	declared  int64                   // what its client says that is; 0: nothing
	bytes     *purse                  // what its connection takes bytes from; nil: no limit of bytes
	body      []byte                  // kept for another attempt
	spool     *spool                  // the same, of one whose length nobody knew
	waiting   context.Context         // while it waits, where that can end by more than the client leaving
	broke     context.CancelCauseFunc // its body has broken off, or its client has left
	look      *time.Timer             // looks after its client while it waits; nil: net/http does
	looking   atomic.Bool             // it waits
	continues bool                    // its client waits for 100 before it sends the body
	held      atomic.Int64            // of retry.memory
	released  atomic.Bool             // nothing more is kept
	uploading time.Duration           // the client's part of the time before the wait
	first     time.Time               // when the upstream was first asked
	sent      time.Time               // when it was last asked
	answered  time.Time               // when its head had come
	download  download

	ctx pathContext
}

// pathContext is the context of a request on its path. It answers for the
// exchange, for the meter of its site and for the trace that hears of 1xx
// answers, which would be three contexts around each other otherwise.
type pathContext struct {
	context.Context
	x *exchange
}

type exchangeKey struct{}

func (c *pathContext) Value(key any) any {
	switch key {
	case exchangeKey{}:
		return c.x
	case upstream.SenderKey{}:
		return c.x
	case upstream.MeterKey{}:
		if c.x.bytes != nil {
			return c.x.bytes
		}
		if c.x.meter == nil {
			return nil
		}
		return c.x.meter
	case traceKey:
		if trace := c.x.writer.information(); trace != nil {
			return trace
		}
	}
	return c.Context.Value(key)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// begin makes r a request on its path.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) *http.Request {
	x.start = time.Now()
	x.writer = answerWriter{
		ResponseWriter: w, exchange: x, ctl: http.NewResponseController(w),
		proto: r.ProtoMajor*10 + r.ProtoMinor, unclear: unclear(r),
	}
	x.ctx = pathContext{Context: r.Context(), x: x}
	return r.WithContext(&x.ctx)
}

// placed says that the request has its place in the queue, or needs none.
func (x *exchange) placed() {
	if x.queued != nil {
		x.queued()
	}
}

// Held is called by the queue when the request has to wait.
func (x *exchange) Held(p *queue.Permit) {
	x.state.activity.waits(x, p)
	x.placed()
	if x.watched() {
		x.conn.withUpstream(false)
	}
	x.upload.hold()
	x.startLooking()
	if x.spool != nil && !x.continues {
		go func() {
			if err := x.spool.pump(); err != nil {
				x.broke(err)
			}
		}()
	}
}

// Sending is called when the request had to wait for a new connection: only from now
// on can it arrive, whenever it was let go.
func (x *exchange) Sending() {
	if x.turn.permit != nil {
		x.turn.permit.Sent()
	}
}

// resume is for the end of a wait.
func (x *exchange) resume() {
	x.stopLooking()
	if x.watched() {
		x.conn.withUpstream(true)
	}
	x.upload.resume()
	x.spool.pass(int(x.state.policy.Retry.Body))
}

// watched tells whether the end of the client's bytes is about this request alone.
func (x *exchange) watched() bool { return x.conn != nil && x.writer.proto/10 == 1 }

// end is for the handler's end. The upstream may still hold the request's body
// and the trace then; nothing of them may reach the response any more.
func (s *Server) end(x *exchange) {
	x.stopLooking()
	if x.spool != nil {
		x.spool.finish()
	}
	x.upload.finish()
	x.writer.finish()
	x.turn.finish()
	if x.bytes != nil {
		if x.download.total > 0 {
			s.sizes.heard(x.site, x.download.total)
		}
		s.empty(x)
	}
	if x.broke != nil {
		x.broke(nil)
	}
	s.release(x)
}

// traceKey is the key under which httptrace looks for a trace. It tells nobody,
// but it can be overheard.
var traceKey = func() any {
	var e eavesdropper
	httptrace.ContextClientTrace(&e)
	return e.key
}()

type eavesdropper struct {
	context.Context
	key any
}

func (e *eavesdropper) Value(key any) any { e.key = key; return nil }
