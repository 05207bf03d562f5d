package upstream

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// holdingBudget is a testBudget of which connections hold the size of their receive buffers.
type holdingBudget struct {
	*testBudget
	buffer atomic.Int64
	held   atomic.Int64
}

func newHolding(credit, buffer int) *holdingBudget {
	p := &holdingBudget{testBudget: newTestBudget(credit)}
	p.buffer.Store(int64(buffer))
	return p
}

func (p *holdingBudget) Buffer() int { return int(p.buffer.Load()) }

func (p *holdingBudget) Open(done <-chan struct{}, _ *time.Time, size, n int) (granted, held int, err error) {
	got, err := p.take(done, size+n, size+1)
	if err != nil {
		return 0, 0, err
	}
	p.held.Add(int64(size))
	return got - size, size, nil
}

func (p *holdingBudget) Release(held, back int) {
	p.held.Add(-int64(held))
	p.Refund(back)
}

func TestTheReceiveBufferIsAsLargeAsTheLimitAllows(t *testing.T) {
	f := flooding(t, "http")
	held := func(m byteMeter) (buffer int, room int) {
		t.Helper()
		nc, err := f.dialer.Dial(withMeter(t.Context(), m), "example.com", f.port)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := nc.(*meteredConn)
		if c.bufferSizedLate.Load() {
			t.Error("it is not new")
		}
		return receiveBufferOf(t, c.Conn.(*net.TCPConn)), int(c.room.Load())
	}
	system, _ := held(nil)
	conn := int(maxSystemReceiveBuffer())
	for _, size := range []int{4608, 32 << 10, 256 << 10} {
		if got, room := held(newHolding(0, size)); got != size || room != size {
			t.Errorf("%d bytes are held, and %d are held, of %d", got, room, size)
		}
	}
	if got, room := held(newHolding(0, conn)); got != system || room != conn {
		t.Errorf("%d bytes are held, and %d are held; the system's own are %d, up to %d", got, room, system, conn)
	}
}

// A connection whose buffer is too large for a limit takes no more requests under it,
// and one whose buffer is smaller does.
func TestAConnectionThatIsTooWideForALimitIsNotUsedUnderIt(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			expect := func(what string, p *holdingBudget, conns int) {
				t.Helper()
				f.small(t, p)
				f.small(t, p)
				if n := f.dialed(); n != conns {
					t.Errorf("%s: %d connections, not %d", what, n, conns)
				}
			}
			wide, other, tight := newHolding(8<<20, 1<<20), newHolding(8<<20, 512<<10), newHolding(8<<20, 32<<10)
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
			for _, p := range []*holdingBudget{wide, other, tight} {
				p.balanced(t)
			}
		})
	}
}

func TestBytesUnderAWideLimitStayWithinTheCredit(t *testing.T) {
	for _, speaks := range floods {
		t.Run(speaks, func(t *testing.T) {
			const size = 256 << 10
			p := newHolding(4*size, size)
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
