package upstream

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// upload2 is a request body as the http2 package reads it. Between one read
// and the next the origin has to take what was read.
type upload2 struct {
	x       *exchange
	body    io.ReadCloser
	started atomic.Bool // a byte may be missing from body
	bad     atomic.Pointer[RequestBodyError]

	mu    sync.Mutex
	timer *patience // nil when there is no bound
	heard bool      // the head has come
	whole bool      // the body has been read to its end
	over  bool      // the exchange has ended

	closing sync.Once
}

func (u *upload2) Read(p []byte) (int, error) {
	u.mu.Lock()
	over := u.over
	if !over {
		u.started.Store(true)
	}
	u.mu.Unlock()
	if over {
		return 0, net.ErrClosed
	}
	u.expect(0)
	n, err := u.body.Read(p)
	switch err {
	case nil:
		u.expect(u.x.t.StallTimeout)
	case io.EOF:
		u.last()
	default:
		bad := &RequestBodyError{err}
		u.bad.CompareAndSwap(nil, bad)
		return n, bad
	}
	return n, err
}

// expect has the origin take what was read within d; 0 is without end.
func (u *upload2) expect(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.stop()
	}
	if d > 0 && !u.over {
		if u.timer == nil {
			u.timer = &patience{conn: u.x.c.gauge, do: u.x.stall}
		}
		u.timer.start(d)
	}
}

// last follows the body's last byte. When the origin has taken that is not to
// be seen from here, so the time to answer is added.
func (u *upload2) last() {
	t := u.x.t
	u.mu.Lock()
	u.whole = true
	heard := u.heard
	u.mu.Unlock()
	if heard || t.StallTimeout <= 0 || t.AnswerTimeout <= 0 {
		u.expect(0)
		return
	}
	u.expect(t.StallTimeout + t.AnswerTimeout)
}

// answered says that the head has come.
func (u *upload2) answered() {
	u.mu.Lock()
	u.heard = true
	whole := u.whole
	u.mu.Unlock()
	if whole {
		u.expect(0)
	}
}

// Close leaves a body alone that has not been touched, because it can still be
// sent on another connection. A Read that comes after it, from the goroutine that
// was about to begin, must not touch the body either: nobody would close it then.
func (u *upload2) Close() error {
	u.expect(0)
	u.mu.Lock()
	started := u.started.Load()
	if !started {
		u.over = true
	}
	u.mu.Unlock()
	if started {
		u.close()
	}
	return nil
}

func (u *upload2) close() {
	u.closing.Do(func() { u.body.Close() })
}

// end is for when the exchange has ended. A body that was never touched is
// closed here unless it is wanted again; any other the http2 package closes.
func (u *upload2) end(again bool) {
	u.mu.Lock()
	u.over = true
	u.mu.Unlock()
	u.expect(0)
	if !again && !u.started.Load() {
		u.close()
	}
}
