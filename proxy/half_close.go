package proxy

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
)

// halfClose delays the end of a client's bytes (EOF) while a request of the connection is
// sent. net/http watches the connection while a handler runs, takes EOF for a client that
// has left, and cancels the request. A client that has closed only its sending side still
// reads its response.
type halfClose struct {
	delays atomic.Bool // EOF is delayed

	mu      sync.Mutex
	expired bool          // the read deadline lies in the past
	waiting chan struct{} // closed to end a wait; nil: nothing waits
}

// delay sets whether EOF is delayed from now on. While a request waits in the queue, EOF is
// not delayed: a client that closes its sending side then has left, and nothing is spent on
// its request.
func (h *halfClose) delay(yes bool) {
	if h.delays.Load() == yes {
		return
	}
	h.delays.Store(yes)
	if !yes {
		h.mu.Lock()
		h.wake()
		h.mu.Unlock()
	}
}

// wait returns io.EOF after dispatch.HalfCloseGrace, or earlier when EOF is no longer
// delayed. It returns os.ErrDeadlineExceeded when the read deadline passes first: net/http
// ends its watch by a read deadline in the past.
func (h *halfClose) wait() error {
	h.mu.Lock()
	if h.expired {
		h.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	woken := make(chan struct{})
	h.waiting = woken
	h.mu.Unlock()
	grace := time.NewTimer(dispatch.HalfCloseGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-woken:
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.expired {
			return os.ErrDeadlineExceeded
		}
	}
	return io.EOF
}

// setDeadline follows the connection's read deadline. The zero time is no deadline.
func (h *halfClose) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expired = !t.IsZero() && t.Before(time.Now())
	if h.expired {
		h.wake()
	}
}

// close ends waits for good.
func (h *halfClose) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expired = true
	h.wake()
}

// wake ends a wait. h.mu is held.
func (h *halfClose) wake() {
	if h.waiting != nil {
		close(h.waiting)
		h.waiting = nil
	}
}
