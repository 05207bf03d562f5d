package upstream

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// payingAhead is a testBudget that is paid for what may come.
type payingAhead struct {
	*testBudget
	buffer atomic.Int64
}

func newPayingAhead(credit, buffer int) *payingAhead {
	p := &payingAhead{testBudget: newTestBudget(credit)}
	p.buffer.Store(int64(buffer))
	return p
}

func (p *payingAhead) Buffer() int   { return int(p.buffer.Load()) }
func (p *payingAhead) Window() int64 { return 1 }

func (p *payingAhead) CountedOnly() bool { return false }
func (p *payingAhead) Pay(int)           {}
func (p *payingAhead) Hold(int)          {}

func (p *payingAhead) Open(done <-chan struct{}, n, least int) (int, error) {
	return p.take(done, n, least)
}

func (p *payingAhead) Refill(done <-chan struct{}, n, least int, _ time.Duration) (int, error) {
	return p.take(done, n, least)
}

func TestTheReceiveBufferIsAsLargeAsTheLimitAllows(t *testing.T) {
	f := flooding(t, "http")
	held := func(m byteMeter) (buffer int, room int) {
		t.Helper()
		nc, err := f.dialer.Dial(WithMeter(t.Context(), m), "example.com", f.port)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := nc.(*meteredConn)
		if c.bufferSizedLate.Load() {
			t.Error("it is not new")
		}
		return receiveBufferOf(t, c.Conn.(*net.TCPConn)), c.roomSize()
	}
	system, _ := held(nil)
	conn := int(maxSystemReceiveBuffer())
	for _, size := range []int{4608, 32 << 10, 256 << 10} {
		if got, room := held(newPayingAhead(0, size)); got != size || room != size {
			t.Errorf("%d bytes are held, and %d are paid for, of %d", got, room, size)
		}
	}
	if got, room := held(newPayingAhead(0, conn)); got != system || room != conn {
		t.Errorf("%d bytes are held, and %d are paid for; the system's own are %d, up to %d", got, room, system, conn)
	}
}

// A connection whose buffer is too large for a limit takes no more requests under it,
// and one whose buffer is smaller does.
func TestAConnectionThatIsTooWideForALimitIsNotUsedUnderIt(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			expect := func(what string, p *payingAhead, conns int) {
				t.Helper()
				f.small(t, p)
				f.small(t, p)
				if n := f.dialed(); n != conns {
					t.Errorf("%s: %d connections, not %d", what, n, conns)
				}
			}
			wide, other, tight := newPayingAhead(8<<20, 1<<20), newPayingAhead(8<<20, 512<<10), newPayingAhead(8<<20, 32<<10)
			expect("wide", wide, 1)
			wide.buffer.Store(2 << 20)
			expect("looser", wide, 1)
			wide.buffer.Store(512 << 10)
			expect("hardly tighter", wide, 1)
			expect("another's", other, 1)
			expect("tight", tight, 2)
			expect("narrow", other, 2)
			other.buffer.Store(8 << 10)
			expect("tighter", other, 3)
			f.tr.Close()
			for _, p := range []*payingAhead{wide, other, tight} {
				p.balanced(t)
			}
		})
	}
}

// What has come is asked for at once, however little of it is read at a time.
func TestManySmallReadsAskOnce(t *testing.T) {
	far, origin := sockets(t)
	p, other := newPayingAhead(1<<30, 1<<20), newPayingAhead(1<<30, 1<<20)
	c := newMeteredConn(far, p)
	c.Write([]byte("?"))
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
	expect := func(p *payingAhead, want int) {
		t.Helper()
		if _, asked, _ := p.look(); asked != want {
			t.Errorf("asked %d times, not %d", asked, want)
		}
	}
	expect(p, 1) // for the question, and the room
	read(100)
	expect(p, 2)
	c.setMeter(other) // pays for the next reads, and for the room
	read(100)
	expect(other, 1)
	if granted, _, _ := p.look(); granted != 40_001 {
		t.Errorf("%d bytes are paid for that came or went, not %d", granted, 40_001)
	}
	other.set(func() { other.free = true })
	read(10)
	expect(other, 1)
	if n := other.in.Load(); n != 11_000 {
		t.Errorf("%d read", n)
	}
	c.Close()
}

func TestBytesUnderAWideLimitStayWithinTheCredit(t *testing.T) {
	for _, speaks := range floods {
		t.Run(speaks, func(t *testing.T) {
			const size = 256 << 10
			p := newPayingAhead(4*size, size)
			f, from, end := floodedBy(t, p, speaks)
			var reader sync.WaitGroup
			reader.Go(func() { io.Copy(io.Discard, onlyReader{from}) })
			most := int64(-1 << 30)
			for _, step := range []int{1, 100_000, 5 << 20, 17, 5 << 20} {
				p.grant(step)
				soon(t, "using the credit", func() bool {
					wrote := p.out.Load()
					left := f.acknowledged()
					granted, _, waiting := p.look()
					most = max(most, left-(granted-wrote))
					return waiting > 0 && p.empty()
				})
			}
			if most > 0 {
				t.Errorf("%d bytes came beyond the credit", most)
			}
			_, asked, _ := p.look()
			if n := p.in.Load(); n < 10<<20 || int64(asked) > n/(4<<10) {
				t.Errorf("asked %d times for %d bytes", asked, n)
			}
			end()
			reader.Wait()
			soon(t, "giving back", func() bool {
				granted, _, waiting := p.look()
				unread := granted - p.in.Load() - p.out.Load()
				return waiting == 0 && unread >= 0 && unread <= size
			})
		})
	}
}
