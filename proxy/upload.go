package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/proxy/problem"
)

// uploadStep is the number of bytes that a request body must bring in each timeouts.stall.
const uploadStep = 4 << 10

var (
	errUploadLarge = errors.New("the request body is larger than bounds.upload")
	errUploadSlow  = errors.New("the request body came too slowly")
)

// upload is the body of a client's request. It holds the body to bounds.upload,
// timeouts.stall and timeouts.upload, and records the first failure for the client's
// response. One goroutine reads the body. It may go on after the handler has returned, when
// the deadlines belong to the connection's next request. The zero value is that of a request without a body.
type upload struct {
	body     io.ReadCloser
	ctx      context.Context // of the request
	ctl      *http.ResponseController
	conn     *clientConn   // nil under HTTP/2, where the end of a body is exact
	stall    time.Duration // in which uploadStep bytes must come
	life     time.Duration // for the whole body, from the first read on
	until    time.Time     // end of life
	left     int64         // bytes until bounds.upload
	received atomic.Int64  // bytes that were read
	step     int           // bytes since the deadline was last moved
	armed    atomic.Bool   // a deadline is set
	reading  atomic.Bool

	mu       sync.Mutex
	held     bool  // the request waits, so the client need not send
	ended    bool  // the body was read to its end
	unwanted bool  // the upstream has closed the body
	present  bool  // the client had not left when the upstream closed the body
	finished bool  // the handler has returned
	failure  error // nil: the body has not failed
}

// size is the number of bytes that were read.
func (u *upload) size() int64 { return u.received.Load() }

func (u *upload) Read(p []byte) (int, error) {
	if u.step >= uploadStep || !u.armed.Load() {
		u.step = 0
		u.arm()
	}
	u.reading.Store(true)
	defer u.reading.Store(false)
	n, err := u.body.Read(p)
	u.step += n
	u.received.Add(int64(n))
	u.left -= int64(n)
	switch {
	case u.left < 0:
		return 0, u.fail(errUploadLarge)
	case err == io.EOF:
		u.end()
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, u.fail(errUploadSlow)
	case err != nil:
		return n, u.fail(err)
	}
	return n, nil
}

// arm moves the read deadline: uploadStep bytes must come within stall, so a client that
// sends one byte at a time does not keep its connection for ever.
func (u *upload) arm() {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unwanted || u.finished || u.held || u.ended {
		return
	}
	if u.until.IsZero() {
		u.until = now.Add(u.life)
	}
	deadline := now.Add(u.stall)
	if u.until.Before(deadline) {
		deadline = u.until
	}
	u.armed.Store(true)
	u.ctl.SetReadDeadline(deadline)
}

// hold is called when the request begins to wait: the client may wait too.
func (u *upload) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held, u.until = true, time.Time{}
	u.disarm()
}

// resume is called when the wait ends. A read that is under way gets a deadline again.
func (u *upload) resume() {
	u.mu.Lock()
	was := u.held
	u.held = false
	u.mu.Unlock()
	if was && u.reading.Load() {
		u.arm()
	}
}

// disarm removes the deadline. u.mu is held.
func (u *upload) disarm() {
	if u.armed.Swap(false) && !u.unwanted && !u.finished {
		u.ctl.SetReadDeadline(time.Time{})
	}
}

// end notes that the whole body was read.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.disarm()
}

// Close is called when the upstream wants no more of the body. Under HTTP/1 it ends a Read
// that waits for the client, because net/http's own Close would wait for that Read; HTTP/2
// does not need that.
func (u *upload) Close() error {
	u.mu.Lock()
	if !u.unwanted {
		u.unwanted, u.present = true, u.ctx.Err() == nil
		if !u.ended && !u.finished && u.conn != nil {
			u.ctl.SetReadDeadline(time.Unix(1, 0))
			u.conn.discards.Store(true)
		}
	}
	u.mu.Unlock()
	return u.body.Close()
}

// finish is called when the handler returns: nothing may use the response after that.
func (u *upload) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.finished = true
}

// spared reports whether the upstream closed the body while the client was there. net/http
// then cancels the request as if the client had left.
func (u *upload) spared() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unwanted && u.present
}

// whole reports whether the client has sent the whole body.
func (u *upload) whole() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.body == nil || u.ended
}

// awaitFailure waits up to 100 ms for a read that is about to fail: net/http cancels the
// request before that read returns.
func (u *upload) awaitFailure() {
	for range 100 {
		if !u.reading.Load() {
			return
		}
		<-time.After(time.Millisecond)
	}
}

func (u *upload) fail(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	// A failure after Close is a consequence of Close, unless Close is a consequence of the
	// failure: net/http cancels the request for a failure before it returns the error.
	if u.failure == nil && (!u.unwanted || !u.present && errors.Is(err, errUploadSlow)) {
		u.failure = err
	}
	return err
}

// problem is the client's response to a body that failed, nil if it has not.
func (u *upload) problem() *problem.Problem {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.failure == nil || errors.Is(u.failure, http.ErrBodyReadAfterClose):
		return nil
	case errors.Is(u.failure, errUploadLarge):
		return &problem.LargeBody
	case errors.Is(u.failure, errUploadSlow):
		return &problem.SlowBody
	default:
		return &problem.BadBody
	}
}
