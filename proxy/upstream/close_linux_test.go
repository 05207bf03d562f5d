package upstream

import (
	"io"
	"sync"
	"testing"
)

// Bytes that arrived and were not read are counted once, though several goroutines close the
// connection at the same time.
func TestCloseCountsTheUnreadBytesOnce(t *testing.T) {
	far, origin := sockets(t)
	p := newHolding(1<<30, 64<<10)
	c := newMeteredConn(far, p)
	c.Write([]byte("?"))
	send(t, origin, string(make([]byte, 20_000)))
	soon(t, "coming", func() bool { have, _, _ := c.socket.wait(); return have == 20_000 })
	c.deadlines.endPauses()
	c.endHold(true)
	c.endHold(true) // as another goroutine does before the first has closed the socket
	c.Conn.Close()
	p.balanced(t)
}

// A connection that is closed while it is read and written, and while more arrives, has spent
// the bytes that passed and no others.
func TestCloseSpendsWhatPassed(t *testing.T) {
	for round := range 60 {
		far, origin := sockets(t)
		p := newHolding(1<<30, []int{32 << 10, 256 << 10}[round%2])
		c := newMeteredConn(far, p)
		c.Write([]byte("?"))
		var all, sender sync.WaitGroup
		sender.Go(func() {
			for {
				if _, err := origin.Write(make([]byte, 3000+round)); err != nil {
					return
				}
			}
		})
		some := make(chan struct{})
		all.Go(func() {
			io.ReadFull(c, make([]byte, 1+500*(round%30)))
			close(some)
			io.Copy(io.Discard, onlyReader{c})
		})
		<-some
		all.Go(func() { c.deadlines.endPauses(); c.Close() })
		all.Go(func() { c.Write([]byte("!")); c.Close() })
		all.Go(func() { c.requestComplete(); c.Close() })
		all.Wait()
		origin.Close()
		sender.Wait()
		p.balanced(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// Bytes that arrived without credit and were not read are not paid for after the close.
func TestNothingIsPaidAfterClose(t *testing.T) {
	far, origin := sockets(t)
	p := newHolding(1<<30, 64<<10)
	c := newMeteredConn(far, p)
	c.startRequest()
	c.Write([]byte("?"))
	c.deadlines.endPauses()
	c.requestComplete() // gives back the credit for the receive window
	send(t, origin, string(make([]byte, 20_000)))
	soon(t, "coming", func() bool { have, _, _ := c.socket.wait(); return have == 20_000 })
	c.endHold(true)
	if n, err := c.Read(make([]byte, 1000)); n > 0 || err == nil {
		t.Errorf("%d bytes of a closed connection were read, and the error is %v", n, err)
	}
	c.Conn.Close()
	p.balanced(t)
}
