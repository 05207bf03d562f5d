package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
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
// fit. It remembers why it failed, for the client's answer. One goroutine reads.
type upload struct {
	body  io.ReadCloser
	ctl   *http.ResponseController
	conn  *clientConn // nil under HTTP/2, where an end of the bytes is exact
	stall time.Duration
	until time.Time
	left  int64
	step  int // bytes since the deadline was last moved
	armed bool

	mu    sync.Mutex
	ended bool // read to its end
	fail  error
}

func newUpload(body io.ReadCloser, ctl *http.ResponseController, p *policy.Policy, conn *clientConn) *upload {
	return &upload{
		body: body, ctl: ctl, conn: conn,
		stall: p.Timeouts.Stall, until: time.Now().Add(p.Timeouts.Upload), left: int64(p.Bounds.Upload),
	}
}

func (u *upload) Read(p []byte) (int, error) {
	if !u.armed || u.step >= uploadStep {
		u.arm()
	}
	n, err := u.body.Read(p)
	u.step += n
	u.left -= int64(n)
	switch {
	case u.left < 0:
		return 0, u.failed(errUploadLarge)
	case err == io.EOF:
		u.disarm()
		u.mu.Lock()
		u.ended = true
		u.mu.Unlock()
		if u.conn != nil {
			u.conn.answering.Store(true)
		}
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
	u.armed, u.step = true, 0
	deadline := time.Now().Add(u.stall)
	if u.until.Before(deadline) {
		deadline = u.until
	}
	u.ctl.SetReadDeadline(deadline)
}

func (u *upload) disarm() {
	if u.armed {
		u.armed = false
		u.ctl.SetReadDeadline(time.Time{})
	}
}

// Close wakes a Read that waits for the client: net/http's own Close would wait
// for that Read. It is called when the upstream wants no more of the body.
func (u *upload) Close() error {
	u.mu.Lock()
	ended := u.ended
	u.mu.Unlock()
	if !ended {
		u.ctl.SetReadDeadline(time.Unix(1, 0))
		if u.conn != nil {
			u.conn.unread.Store(true)
		}
	}
	return u.body.Close()
}

func (u *upload) failed(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fail == nil {
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
