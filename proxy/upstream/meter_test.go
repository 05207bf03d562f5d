package upstream

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// tally is a Meter.
type tally struct{ in, out atomic.Int64 }

func (t *tally) Read(n int)  { t.in.Add(int64(n)) }
func (t *tally) Wrote(n int) { t.out.Add(int64(n)) }

func (t *tally) expect(test *testing.T, in, out int64) {
	test.Helper()
	if t.in.Load() != in || t.out.Load() != out {
		test.Errorf("counted %d in and %d out, want %d and %d", t.in.Load(), t.out.Load(), in, out)
	}
}

func TestTheMeterOfTheCallCountsWhatPasses(t *testing.T) {
	n := newNetwork()
	defer n.close()
	m := &tally{}
	d := &Dialer{connect: n.connect}
	c, err := d.Dial(withMeter(t.Context(), m), "8.8.8.8", 80)
	if err != nil {
		t.Fatal(err)
	}
	swap(t, c, n.open[1])
	m.expect(t, 5, 3)
}

// swap has 3 bytes go and 5 bytes come.
func swap(t *testing.T, c, there net.Conn) {
	t.Helper()
	var both sync.WaitGroup
	both.Go(func() {
		io.ReadFull(there, make([]byte, 3))
		io.WriteString(there, "12345")
	})
	io.WriteString(c, "abc")
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	both.Wait()
}

func TestAConnectionDialedWithoutAMeterCanGetOneLater(t *testing.T) {
	n := newNetwork()
	defer n.close()
	d := &Dialer{connect: n.connect}
	c, err := d.Dial(context.Background(), "8.8.8.8", 80)
	if err != nil {
		t.Fatal(err)
	}
	swap(t, c, n.open[1])
	item, two := &tally{}, &tally{}
	for _, m := range []byteMeter{item, two, two, nil, item} {
		c.(*meteredConn).setMeter(m)
		swap(t, c, n.open[1])
	}
	item.expect(t, 10, 6)
	two.expect(t, 10, 6)
}

func TestSettingTheSameMeterAgainAllocatesNothing(t *testing.T) {
	c := newMeteredConn(nil, nil)
	m := &tally{}
	c.setMeter(m)
	if n := testing.AllocsPerRun(100, func() { c.setMeter(m) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAMeteredConnectionHasNoWayAroundItsMeter(t *testing.T) {
	var c net.Conn = newMeteredConn(&net.TCPConn{}, nil)
	if _, ok := c.(io.ReaderFrom); ok {
		t.Error("it has ReadFrom")
	}
	if _, ok := c.(io.WriterTo); ok {
		t.Error("it has WriteTo")
	}
	if _, ok := c.(closeWriter); !ok {
		t.Error("it has no CloseWrite")
	}
	if _, ok := c.(*meteredConn).NetConn().(*net.TCPConn); !ok {
		t.Error("NetConn is not what was dialed")
	}
}

func TestViaIsKeptAndAddedTo(t *testing.T) {
	if got := ViaFrom(WithVia(t.Context(), "1.1 a, 1.0 b")); got != "1.1 a, 1.0 b" {
		t.Errorf("kept %q", got)
	}
	if got := ViaFrom(t.Context()); got != "" {
		t.Errorf("made up %q", got)
	}
	for _, c := range [][3]string{
		{"", "", ""}, {"", "1.1 me", "1.1 me"}, {"1.1 a", "", "1.1 a"}, {"1.1 a", "1.1 me", "1.1 a, 1.1 me"}, {"1.1 a, ", "1.1 me", "1.1 a, 1.1 me"},
	} {
		if got := JoinVia(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// withMeter has m count the bytes of the connections that are dialed or used under ctx.
func withMeter(ctx context.Context, m byteMeter) context.Context {
	return context.WithValue(ctx, MeterKey{}, m)
}
