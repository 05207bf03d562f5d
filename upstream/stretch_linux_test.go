package upstream

import (
	"io"
	"net"
	"sync"
	"testing"
)

// generous is a purse that lends, as long as there is something.
type generous struct {
	*purse
	slack int64
	lent  int64
	times int
}

func newGenerous(credit int, slack int64) *generous {
	return &generous{purse: newPurse(credit), slack: slack}
}

func (g *generous) Slack() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slack
}

func (g *generous) Stretch(sizes ...int64) (int64, func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times++
	for _, n := range sizes {
		if g.lent+n <= g.slack {
			g.lent += n
			return n, sync.OnceFunc(func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.lent -= n
			})
		}
	}
	return 0, nil
}

// lends is how much it has lent, and how often it was asked.
func (g *generous) lends() (n int64, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lent, g.times
}

func (g *generous) wantLent(t *testing.T, want int64) {
	t.Helper()
	if n, _ := g.lends(); n != want {
		t.Errorf("%d bytes are lent, not %d", n, want)
	}
}

// own is the largest receive buffer of the system's own.
var own = receiveSizes()[0]

func TestTheReceiveBufferIsAsLargeAsTheLimitAllows(t *testing.T) {
	f := flooding(t, "http")
	for _, c := range []struct{ slack, lent int64 }{
		{0, 0}, {leastWide - 1, 0}, {leastWide, leastWide}, {own / 2, receiveSizes()[1]}, {own, own}, {1 << 40, own},
	} {
		g := newGenerous(0, c.slack)
		nc, err := f.dialer.Dial(WithMeter(t.Context(), g), "example.com", f.port)
		if err != nil {
			t.Fatal(err)
		}
		g.wantLent(t, c.lent)
		is, most := int64(receiveBufferOf(t, nc.(*meteredConn).Conn.(*net.TCPConn))), max(c.lent, beyond)
		if is > most || c.lent < own && is < most {
			t.Errorf("%d bytes of %d: %d are held", c.lent, c.slack, is)
		}
		if nc.(*meteredConn).late.Load() {
			t.Errorf("%d bytes of %d: it is not new", c.lent, c.slack)
		}
		nc.Close()
		nc.Close()
		g.wantLent(t, 0)
	}
}

func TestWhatAConnectionThatCannotBeDialedWasLentComesBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	d := &Dialer{Resolve: map[string]string{"example.com:80": l.Addr().String()}}
	g := newGenerous(0, 1<<40)
	if _, err := d.Dial(WithMeter(t.Context(), g), "example.com", 80); err == nil {
		t.Fatal("it was dialed")
	}
	if n, times := g.lends(); n != 0 || times != 1 {
		t.Errorf("%d bytes are lent, asked %d times", n, times)
	}
}

// A connection whose buffer is too large for a limit takes no more requests under it,
// and one whose buffer still fits does.
func TestAConnectionThatIsTooWideForALimitIsNotUsedUnderIt(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			expect := func(what string, g *generous, conns int, lent int64) {
				t.Helper()
				f.small(t, g)
				f.small(t, g)
				if n := f.dialed(); n != conns {
					t.Errorf("%s: %d connections, not %d", what, n, conns)
				}
				soon(t, what, func() bool { n, _ := g.lends(); return n == lent })
			}
			wide, other, tight := newGenerous(1<<20, 2*own), newGenerous(1<<20, own), newGenerous(1<<20, 0)
			expect("wide", wide, 1, own)
			wide.set(func() { wide.slack = own })
			expect("still wide enough", wide, 1, own)
			expect("another's", other, 1, own)
			wide.wantLent(t, 0)
			expect("tight", tight, 2, 0)
			other.wantLent(t, 0)
			expect("narrow", other, 2, 0)
			f.tr.Close()
			for _, g := range []*generous{wide, other, tight} {
				g.balanced(t)
				g.wantLent(t, 0)
			}
		})
	}
}

func TestAConnectionFromBeforeAWideLimitStaysWide(t *testing.T) {
	f := flooding(t, "http")
	g := newGenerous(1<<20, own)
	g.free = true
	f.small(t, g)
	g.wantLent(t, 0)
	g.set(func() { g.free = false })
	f.small(t, g)
	g.wantLent(t, own)
	if n := f.dialed(); n != 1 {
		t.Errorf("%d connections", n)
	}
	f.tr.Close()
	g.wantLent(t, 0)
}

// What has come is asked for at once, however little of it is read at a time.
func TestManySmallReadsAskOnce(t *testing.T) {
	far, origin := sockets(t)
	g, other := newGenerous(1<<30, own), newGenerous(1<<30, own)
	c := newMeteredConn(far, g)
	send(t, origin, string(make([]byte, 40_000)))
	soon(t, "coming", func() bool { have, _, _ := c.arrival.wait(); return have == 40_000 })
	read := func(n int) {
		t.Helper()
		for range n {
			if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(g *generous, asked int, granted int64) {
		t.Helper()
		if is, times, _ := g.look(); times != asked || is != granted {
			t.Errorf("asked %d times, for %d; want %d times, for %d", times, is, asked, granted)
		}
	}
	read(100)
	expect(g, 1, 40_000)
	c.setMeter(other) // pays for the rest
	expect(g, 1, 10_000)
	read(100)
	expect(other, 1, 30_000)
	other.set(func() { other.free = true })
	read(10)
	expect(other, 1, 10_000)
	other.set(func() { other.free = false })
	read(10)
	expect(other, 2, 29_000)
	if n := other.in.Load(); n != 12_000 {
		t.Errorf("%d read", n)
	}
	c.Close() // what has come has passed
	if n := other.in.Load(); n != 30_000 {
		t.Errorf("%d came", n)
	}
	g.wantLent(t, 0)
	other.wantLent(t, 0)
}

func TestBytesUnderAWideLimitStayWithinTheCreditAndTheBuffer(t *testing.T) {
	for _, speaks := range floods {
		t.Run(speaks, func(t *testing.T) {
			size := int64(256 << 10)
			g := newGenerous(1<<20, size) // HTTP/2 has something to say while it reads the head
			f, from, end := floodedBy(t, g, speaks)
			var reader sync.WaitGroup
			reader.Go(func() { io.Copy(io.Discard, onlyReader{from}) })
			most := int64(0)
			for _, step := range []int{1, 100_000, 5 << 20, 17, 5 << 20} {
				g.grant(step)
				soon(t, "using the credit", func() bool {
					wrote := g.out.Load()
					left := f.acknowledged()
					granted, _, _ := g.look()
					most = max(most, left-(granted-wrote))
					return g.empty()
				})
			}
			if most > size || most <= beyond {
				t.Errorf("%d bytes beyond the credit, and %d are lent", most, size)
			}
			_, asked, _ := g.look()
			if n := g.in.Load(); n < 10<<20 || int64(asked) > n/(4<<10) {
				t.Errorf("asked %d times for %d bytes", asked, n)
			}
			end()
			reader.Wait()
			g.balanced(t)
			soon(t, "giving back", func() bool { n, _ := g.lends(); return n == 0 })
		})
	}
}
