package upstream

import (
	"net"
	"testing"
)

// BenchmarkRead reads 4 KiB at a time from a socket: bare, counted, and under a
// limit that always has credit.
func BenchmarkRead(b *testing.B) {
	broad := newTestBudget(1 << 62)
	free := newTestBudget(0)
	free.free = true
	for _, c := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"bare", func(nc net.Conn) net.Conn { return nc }},
		{"no meter", func(nc net.Conn) net.Conn { return newMeteredConn(nc, nil) }},
		{"meter", func(nc net.Conn) net.Conn { return newMeteredConn(nc, &tally{}) }},
		{"limiter without a limit", func(nc net.Conn) net.Conn { return newMeteredConn(nc, free) }},
		{"limiter", func(nc net.Conn) net.Conn { return newMeteredConn(nc, broad) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			far, origin := sockets(b)
			ours := c.wrap(far)
			piece := make([]byte, 4<<10)
			b.SetBytes(int64(len(piece)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := origin.Write(piece); err != nil {
					b.Fatal(err)
				}
				for left := len(piece); left > 0; {
					n, err := ours.Read(piece)
					if err != nil {
						b.Fatal(err)
					}
					left -= n
				}
			}
		})
	}
}

// nothing is a connection that costs nothing.
type nothing struct{ net.Conn }

func (nothing) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkReadAlone is what a Read costs beside the system's.
func BenchmarkReadAlone(b *testing.B) {
	broad := newTestBudget(1 << 62)
	free := newTestBudget(0)
	free.free = true
	for name, m := range map[string]byteMeter{"no meter": nil, "meter": &tally{}, "limiter without a limit": free, "limiter": broad} {
		b.Run(name, func(b *testing.B) {
			c := newMeteredConn(nothing{}, m)
			piece := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				c.Read(piece)
			}
		})
	}
}
