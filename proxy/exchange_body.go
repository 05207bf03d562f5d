package proxy

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

var _ dispatch.Caller = &exchange{}

// Prepare begins to keep the request's body, so that it can be sent more than once. A small
// body is read before the request waits: net/http notices that a client has left only when
// nothing of the body remains to be read. A body of unknown length is kept while it is sent.
// The rest of a body that is larger than retry.body, or than what remains of retry.memory,
// streams and is sent once; some of it is read ahead while the request waits.
func (x *exchange) Prepare(r *http.Request) error {
	if x.upload == nil || x.Snapshot.Policy().Observes() {
		return nil
	}
	retry, conn := x.Snapshot.Policy().Retry, x.watchedConn()
	large := r.ContentLength > int64(retry.Body)
	if large && conn == nil {
		return nil
	}
	x.memory.begin(retry, r.ContentLength)
	if large || r.ContentLength < 0 {
		x.watch.watch(r.Context(), conn)
		if !large || !x.continues {
			x.replay.begin(x.upload, r.Trailer, &x.memory)
		}
		return nil
	}
	x.replay.begin(x.upload, nil, &x.memory)
	began := time.Now()
	err := x.replay.readAhead()
	x.Uploading = time.Since(began)
	if err == nil && !x.replay.whole() {
		x.watch.watch(r.Context(), conn)
	}
	return err
}

func (x *exchange) HasBody() bool { return x.upload != nil }

func (x *exchange) BeginWait() {
	x.SetSent(false)
	x.upload.hold()
	x.watch.start()
	x.memory.ahead.Store(true)
	if !x.continues && x.replay.growing() {
		go func() {
			if err := x.replay.readAhead(); err != nil {
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
	x.replay.beforeSend(x.memory.announced, int64(x.Snapshot.Policy().Retry.Body))
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
	case x.replay.source == nil:
		return r
	case r.ContentLength >= 0 && x.replay.whole():
		r.GetBody = func() (io.ReadCloser, error) {
			body, _ := x.replay.reader()
			return body, nil
		}
		r.Body, _ = r.GetBody()
		return r
	}
	next := r.WithContext(r.Context())
	url := *r.URL
	next.URL = &url
	next.Body, next.Trailer = x.replay.reader()
	return next
}

func (x *exchange) Whole() bool { return x.upload == nil || x.replay.intact() }

func (x *exchange) Replayable(r *http.Request) bool {
	return x.replay.intact() || r.Body == nil || r.Body == http.NoBody
}

func (x *exchange) Release() {
	x.memory.release()
	x.replay.drop()
}

func (x *exchange) BodyProblem(certain bool) *problem.Problem {
	if certain {
		x.upload.awaitFailure()
	}
	return x.upload.problem()
}

func (x *exchange) Spared() bool { return x.upload.spared() }
