package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// clientCheck is the time between two checks whether the client of a waiting request has
// left.
const clientCheck = time.Second

var errClientLeft = errors.New("the client has left")

// clientWatch ends the waits of a request when its client leaves or its body fails.
// net/http notices that a client has left only after the whole body was read. The zero value
// watches nothing.
type clientWatch struct {
	ctx     context.Context // of the waits; nil: the request's own
	cancel  context.CancelCauseFunc
	timer   *time.Timer // checks the client; nil: net/http does
	waiting atomic.Bool
}

// watch begins to watch conn, whose request has the context ctx. conn is nil if the end of
// the connection says nothing about the request.
func (c *clientWatch) watch(ctx context.Context, conn *clientConn) {
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if conn != nil && rawConnOf(conn.Conn) != nil {
		c.timer = time.AfterFunc(clientCheck, func() {
			if !c.waiting.Load() {
				return
			}
			if conn.hasLeft() {
				c.cancel(errClientLeft)
				return
			}
			c.timer.Reset(clientCheck)
		})
		c.timer.Stop()
	}
}

// start is called when a wait begins.
func (c *clientWatch) start() {
	if !c.waiting.Swap(true) && c.timer != nil {
		c.timer.Reset(clientCheck)
	}
}

// stop is called when a wait ends.
func (c *clientWatch) stop() {
	if c.waiting.Swap(false) && c.timer != nil {
		c.timer.Stop()
	}
}

// close ends the context of the waits.
func (c *clientWatch) close() {
	if c.cancel != nil {
		c.cancel(nil)
	}
}
