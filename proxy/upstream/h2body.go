package upstream

import (
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body2 is the body of an HTTP/2 answer.
type body2 struct {
	x     *exchange
	resp  *http.Response
	inner io.ReadCloser
	stall time.Duration // the longest silence; 0: any
	err   error
	ended atomic.Bool // err was returned to the reader
}

func (b *body2) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.stall > 0 {
		b.x.timer.start(b.stall)
	}
	n, err := b.inner.Read(p)
	if b.stall > 0 {
		b.x.timer.stop()
	}
	if err == nil {
		return n, nil
	}
	b.ended.Store(true)
	switch err {
	case io.EOF:
		maps.DeleteFunc(b.resp.Trailer, func(name string, _ []string) bool { return !allowedTrailer(name) })
		if b.x.up == nil {
			b.x.end(false)
		}
		b.err = err
	case io.ErrUnexpectedEOF:
		b.err = err
	default:
		b.err = b.x.fail(err, Stalled)
	}
	return n, b.err
}

// Close ends the stream if it has not ended.
func (b *body2) Close() error {
	ended := b.ended.Load()
	b.x.bodyAbandoned.Store(!ended)
	if ended || !b.x.c.byteLimited() {
		b.x.end(false)
		b.inner.Close()
		return nil
	}
	// Closing may write to a connection that is paused for another request. It ends with
	// the connection, at the latest.
	closing := &b.x.t.closing
	closing.Add(1)
	b.x.end(false)
	go func() {
		defer closing.Done()
		b.inner.Close()
	}()
	return nil
}

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
