package proxy

import (
	"context"
	"errors"
	"time"
)

// clientLook is how often the client of a held request is looked after whom net/http does
// not watch, because something that it sent is still to be read.
const clientLook = time.Second

var errLeft = errors.New("the client has left")

// hasLeft tells whether the client has closed its connection, or its sending side.
func (c *clientConn) hasLeft() (left bool) {
	if raw := descriptorOf(c.Conn); raw != nil {
		err := raw.Control(func(fd uintptr) { left = hasEnded(fd) })
		left = left || err != nil
	}
	return left
}

// lookAfter has the request's waits end when its client leaves, also where a part of its
// body is still to be read.
func (x *exchange) lookAfter(ctx context.Context) {
	x.waiting, x.broke = context.WithCancelCause(ctx)
	if x.watched() && descriptorOf(x.conn.Conn) != nil {
		x.look = time.AfterFunc(clientLook, func() {
			if !x.looking.Load() {
				return
			}
			if x.conn.hasLeft() {
				x.broke(errLeft)
				return
			}
			x.look.Reset(clientLook)
		})
		x.look.Stop()
	}
}

// startLooking is for the begin of a wait.
func (x *exchange) startLooking() {
	if !x.looking.Swap(true) && x.look != nil {
		x.look.Reset(clientLook)
	}
}

// stopLooking is for its end.
func (x *exchange) stopLooking() {
	if x.looking.Swap(false) && x.look != nil {
		x.look.Stop()
	}
}

// leftWhileHeld tells whether the client of a request that was held has left.
func (x *exchange) leftWhileHeld() bool {
	return x.turn.waited > 0 && x.watched() && x.conn.hasLeft()
}
