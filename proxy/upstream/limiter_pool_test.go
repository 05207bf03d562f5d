//go:build unix

package upstream

import (
	"net"
	"testing"
)

func (f *flood) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// small asks for a short answer.
func (f *flood) small(t *testing.T, m byteMeter) {
	t.Helper()
	req, _ := f.get(t, m, "GET", "/small", nil)
	wantAnswer(t, f.tr, req, "hello")
}

func TestAConnectionFromBeforeALimitIsNotUsedUnderIt(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(1 << 20)
			p.free = true
			f.small(t, p)
			f.small(t, p)
			if n := f.dialed(); n != 1 {
				t.Fatalf("%d connections", n)
			}
			p.set(func() { p.free = false })
			f.small(t, p)
			f.small(t, p)
			if n := f.dialed(); n != 2 {
				t.Errorf("%d connections, want a new one for the limit", n)
			}
			p.set(func() { p.free = true })
			f.small(t, p)
			if n := f.dialed(); n != 2 {
				t.Errorf("%d connections, the narrow one is good enough", n)
			}
		})
	}
}

// The rest of an answer is not read away: it would cost as much as the answer.
func TestABodyThatIsClosedEarlyCostsItsConnection(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(1 << 20)
			req, _ := f.get(t, p, "GET", "/", nil)
			resp, err := f.tr.RoundTrip(req)
			if err != nil {
				t.Fatal(unwrapped(err))
			}
			resp.Body.Read(make([]byte, 1))
			resp.Body.Close()
			before := p.in.Load()
			f.tr.Close() // waits for the connection, which is not idle
			if n := p.in.Load() - before; n > maxCredit {
				t.Errorf("%d bytes came after the end", n)
			}
			p.balanced(t)
		})
	}
}

func TestAnHTTP2ConnectionThatOthersUseIsLeftToThem(t *testing.T) {
	f := flooding(t, "h2")
	p := newTestBudget(64 << 20)
	request, _ := f.get(t, p, "GET", "/", nil)
	first, err := f.tr.RoundTrip(request)
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	two, _ := f.get(t, p, "GET", "/", nil)
	second, err := f.tr.RoundTrip(two)
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	first.Body.Close()
	if _, err := second.Body.Read(make([]byte, 1<<10)); err != nil {
		t.Error(unwrapped(err))
	}
	if n := f.dialed(); n != 1 {
		t.Errorf("%d connections", n)
	}
	f.small(t, p)
	if n := f.dialed(); n != 2 {
		t.Errorf("%d connections: the first takes no more", n)
	}
	second.Body.Close()
	f.tr.Close()
	p.balanced(t)
}

func TestTheReceiveBufferIsSmallUnderALimit(t *testing.T) {
	f := flooding(t, "http")
	size := func(m byteMeter) int {
		t.Helper()
		c, err := f.dialer.Dial(withMeter(t.Context(), m), "example.com", f.port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return receiveBufferOf(t, c.(*meteredConn).Conn.(*net.TCPConn))
	}
	free := newTestBudget(0)
	free.free = true
	wide, narrow := size(free), size(newTestBudget(0))
	if narrow > beyond || narrow >= wide {
		t.Errorf("%d bytes, and %d without a limit", narrow, wide)
	}
}
