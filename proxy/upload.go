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

	"github.com/abide-proxy/abide/policy"
)

// uploadStep is how much a request body must bring in each timeouts.stall.
const uploadStep = 4 << 10

var (
	errUploadLarge = errors.New("the request body is larger than bounds.upload")
	errUploadSlow  = errors.New("the request body came too slowly")
)

// upload is a request's body on its way: it must keep moving, end in time and
// fit. It remembers why it failed, for the client's answer. One goroutine reads,
// which may go on after the handler has returned, when the response that the
// deadlines belong to is no more.
type upload struct {
	body  io.ReadCloser
	ctx   context.Context // of the request
	ctl   *http.ResponseController
	conn  *clientConn // nil under HTTP/2, where an end of the bytes is exact
	stall time.Duration
	life  time.Duration // for all of it, from the first read on
	until time.Time
	left  int64
	read  atomic.Int64 // bytes that were read of it
	step  int          // bytes since the deadline was last moved
	armed atomic.Bool
	busy  atomic.Bool // a read goes on

	mu    sync.Mutex
	held  bool // its request waits for its turn, and so may the client
	ended bool // read to its end
	shut  bool // the upstream wants no more of it
	spare bool // and the client was still there then
	over  bool // the handler has returned
	fail  error
}

func newUpload(r *http.Request, ctl *http.ResponseController, p *policy.Policy, conn *clientConn) *upload {
	return &upload{
		body: r.Body, ctx: r.Context(), ctl: ctl, conn: conn,
		stall: p.Timeouts.Stall, life: p.Timeouts.Upload, left: int64(p.Bounds.Upload),
	}
}

// size is how many bytes of the body were read. It may be called on nil.
func (u *upload) size() int64 {
	if u == nil {
		return 0
	}
	return u.read.Load()
}

func (u *upload) Read(p []byte) (int, error) {
	if u.step >= uploadStep || !u.armed.Load() {
		u.step = 0
		u.arm()
	}
	u.busy.Store(true)
	defer u.busy.Store(false)
	n, err := u.body.Read(p)
	u.step += n
	u.read.Add(int64(n))
	u.left -= int64(n)
	switch {
	case u.left < 0:
		return 0, u.failed(errUploadLarge)
	case err == io.EOF:
		u.end()
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, u.failed(errUploadSlow)
	case err != nil:
		return n, u.failed(err)
	}
	return n, nil
}

// arm moves the deadline; in each stall a step must come, so a client that
// drips a byte at a time does not hold its place for ever.
func (u *upload) arm() {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shut || u.over || u.held || u.ended {
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

// hold is for a time in which the request waits: it is not the client who is slow.
func (u *upload) hold() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held, u.until = true, time.Time{}
	u.disarm()
}

// resume is for its end. A read that goes on has to come to something from now on.
func (u *upload) resume() {
	if u == nil {
		return
	}
	u.mu.Lock()
	was := u.held
	u.held = false
	u.mu.Unlock()
	if was && u.busy.Load() {
		u.arm()
	}
}

// disarm takes the deadline away; u.mu is held.
func (u *upload) disarm() {
	if u.armed.Swap(false) && !u.shut && !u.over {
		u.ctl.SetReadDeadline(time.Time{})
	}
}

// end is for a body that has been read whole.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.disarm()
}

// Close is called when the upstream wants no more of the body. Under HTTP/1 it
// wakes a Read that waits for the client, because net/http's own Close would
// wait for that Read; under HTTP/2 that is not so.
func (u *upload) Close() error {
	u.mu.Lock()
	if !u.shut {
		u.shut, u.spare = true, u.ctx.Err() == nil
		if !u.ended && !u.over && u.conn != nil {
			u.ctl.SetReadDeadline(time.Unix(1, 0))
			u.conn.unread.Store(true)
		}
	}
	u.mu.Unlock()
	return u.body.Close()
}

// finish is for the handler's end: nothing may touch the response after it.
func (u *upload) finish() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}

// spared tells whether the upstream wanted no more of the body while the client
// was there: what net/http takes for a client that has left is then our doing.
func (u *upload) spared() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shut && u.spare
}

// whole tells whether the client has sent all of the body.
func (u *upload) whole() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// settled waits a moment for a read that is about to say why it failed: net/http
// cancels the request from within it.
func (u *upload) settled() {
	if u == nil {
		return
	}
	for range 100 {
		if !u.busy.Load() {
			return
		}
		<-time.After(time.Millisecond)
	}
}

func (u *upload) failed(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	// What fails after Close fails because of it, unless Close came of this failure:
	// net/http cancels the request for it before it tells the reader.
	if u.fail == nil && (!u.shut || !u.spare && errors.Is(err, errUploadSlow)) {
		u.fail = err
	}
	return err
}

// answer says what to tell the client about a body that failed, nil when it
// did not.
func (u *upload) answer() *answer {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.fail == nil || errors.Is(u.fail, http.ErrBodyReadAfterClose):
		return nil
	case errors.Is(u.fail, errUploadLarge):
		return &answerLargeBody
	case errors.Is(u.fail, errUploadSlow):
		return &answerSlowBody
	default:
		return &answerBadBody
	}
}
