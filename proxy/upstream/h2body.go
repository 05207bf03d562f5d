package upstream

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errAbandoned ends an exchange whose body was closed before its end.
var errAbandoned = errors.New("the body was closed before its end")

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
	switch b.err = err; err {
	case io.EOF:
		maps.DeleteFunc(b.resp.Trailer, func(name string, _ []string) bool { return !allowedTrailer(name) })
		if b.x.up == nil {
			b.x.end(false)
		}
	case io.ErrUnexpectedEOF:
	default:
		b.err = b.x.fail(err, Stalled)
	}
	return n, b.err
}

// Close ends the stream if it has not ended.
func (b *body2) Close() error {
	ended := b.ended.Load()
	if !ended {
		b.x.cancel(errAbandoned)
	}
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

// upload2 is the request body that net/http's HTTP/2 reads. The origin has to accept the
// bytes of each read within StallTimeout: until the next read, or until the request has been
// written.
type upload2 struct {
	x       *exchange
	body    io.ReadCloser
	readErr atomic.Pointer[requestBodyError]
	timer   pausableTimer

	mu      sync.Mutex
	started bool // a byte of body may have been read
	ended   bool // body must not be read any more
	closing sync.Once
}

func (u *upload2) Read(p []byte) (int, error) {
	u.mu.Lock()
	ended := u.ended
	u.started = u.started || !ended
	u.mu.Unlock()
	if ended {
		return 0, net.ErrClosed
	}
	u.timer.stop()
	n, err := u.body.Read(p)
	if err != nil && err != io.EOF {
		bad := &requestBodyError{err}
		u.readErr.CompareAndSwap(nil, bad)
		return n, bad
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if d := u.x.t.StallTimeout; d > 0 && !u.ended {
		u.timer.start(d)
	}
	return n, err
}

// taken reports whether a byte of the body may have been read.
func (u *upload2) taken() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.started
}

// Close does not close a body that has not been read, because it can still be sent on
// another connection. A Read that begins after Close must not touch the body either:
// nothing would close it then.
func (u *upload2) Close() error {
	u.mu.Lock()
	started := u.started
	u.ended = u.ended || !started
	u.mu.Unlock()
	if started {
		u.closing.Do(func() { u.body.Close() })
	}
	return nil
}

// end is called when the exchange has ended. A body that was never read is closed here,
// unless it is sent again; net/http closes any other.
func (u *upload2) end(again bool) {
	u.mu.Lock()
	u.ended = true
	u.timer.stop()
	started := u.started
	u.mu.Unlock()
	if !again && !started {
		u.closing.Do(func() { u.body.Close() })
	}
}
