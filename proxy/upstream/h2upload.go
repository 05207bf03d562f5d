package upstream

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// upload2 is the request body that net/http's HTTP/2 reads. Between two reads the origin
// has to accept the bytes of the first.
type upload2 struct {
	x       *exchange
	body    io.ReadCloser
	started atomic.Bool // a byte of body may have been read
	readErr atomic.Pointer[requestBodyError]

	mu            sync.Mutex
	timer         *pausableTimer // nil: no timeout
	answerStarted bool           // the answer's head has arrived
	complete      bool           // the body has been read to its end
	exchangeEnded bool           // the exchange has ended

	closing sync.Once
}

func (u *upload2) Read(p []byte) (int, error) {
	u.mu.Lock()
	over := u.exchangeEnded
	if !over {
		u.started.Store(true)
	}
	u.mu.Unlock()
	if over {
		return 0, net.ErrClosed
	}
	u.startTimer(0)
	n, err := u.body.Read(p)
	switch err {
	case nil:
		u.startTimer(u.x.t.StallTimeout)
	case io.EOF:
		u.lastByteRead()
	default:
		bad := &requestBodyError{err}
		u.readErr.CompareAndSwap(nil, bad)
		return n, bad
	}
	return n, err
}

// startTimer requires the origin to accept the read bytes within d; 0: no timeout.
func (u *upload2) startTimer(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.stop()
	}
	if d > 0 && !u.exchangeEnded {
		if u.timer == nil {
			u.timer = &pausableTimer{conn: u.x.c.metered, onExpire: u.x.stall}
		}
		u.timer.start(d)
	}
}

// lastByteRead is called after the body's last byte. When the origin has accepted it cannot
// be observed, so the timeout includes the time to answer.
func (u *upload2) lastByteRead() {
	t := u.x.t
	u.mu.Lock()
	u.complete = true
	heard := u.answerStarted
	u.mu.Unlock()
	if heard || t.StallTimeout <= 0 || t.AnswerTimeout <= 0 {
		u.startTimer(0)
		return
	}
	u.startTimer(t.StallTimeout + t.AnswerTimeout)
}

// answered records that the answer's head has arrived.
func (u *upload2) answered() {
	u.mu.Lock()
	u.answerStarted = true
	whole := u.complete
	u.mu.Unlock()
	if whole {
		u.startTimer(0)
	}
}

// Close does not close a body that has not been read, because it can still be sent on
// another connection. A Read that begins after Close must not touch the body either:
// nothing would close it then.
func (u *upload2) Close() error {
	u.startTimer(0)
	u.mu.Lock()
	started := u.started.Load()
	if !started {
		u.exchangeEnded = true
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

// end is called when the exchange has ended. A body that was never read is closed here,
// unless it is sent again; net/http closes any other.
func (u *upload2) end(again bool) {
	u.mu.Lock()
	u.exchangeEnded = true
	u.mu.Unlock()
	u.startTimer(0)
	if !again && !u.started.Load() {
		u.close()
	}
}
