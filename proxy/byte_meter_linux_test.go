package proxy

import (
	"net"
	"sort"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// buffer is the size in bytes of a receive buffer that nothing reads. The kernel doubles the
// configured size.
const buffer = 32 << 10

// originConn is the site's end of a connection. The kernel tells how many bytes the other
// end has received or sent.
type originConn struct {
	*net.TCPConn
	mu   sync.Mutex
	of   string // address of the connection
	was  int64
	over bool
}

// bytesPassed is how many bytes have been sent and acknowledged, or received.
func (g *originConn) bytesPassed() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return g.was
	}
	raw, err := g.SyscallConn()
	if err != nil {
		return g.was
	}
	_ = raw.Control(func(fd uintptr) { // a closed connection has no state
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			g.was = int64(info.Bytes_acked + info.Bytes_received)
		}
	})
	return g.was
}

func (g *originConn) Close() error {
	g.bytesPassed()
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	return g.TCPConn.Close()
}

func (g *originConn) addressOf() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of
}

// byteMeter measures the bytes at the sockets of a site.
type byteMeter struct {
	net.Listener
	mu      sync.Mutex
	conns   []*originConn
	samples []sample
}

// sample is how many bytes had passed at a time, which lies between two clock readings.
type sample struct {
	from, to time.Time
	all      int64
	of       map[string]int64
}

func (s *byteMeter) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &originConn{TCPConn: c.(*net.TCPConn)}
	s.mu.Lock()
	s.conns = append(s.conns, g)
	s.mu.Unlock()
	return g, nil
}

func (s *byteMeter) takeSample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := sample{from: time.Now(), of: map[string]int64{}}
	for _, c := range s.conns {
		n := c.bytesPassed()
		item.all += n
		item.of[c.addressOf()] += n
	}
	item.to = time.Now()
	s.samples = append(s.samples, item)
}

// measure takes a sample every millisecond until a time.
func (s *byteMeter) measure(until time.Time) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for time.Now().Before(until) {
		s.takeSample()
		<-look.C
	}
}

// at is how many bytes had passed by a time, from the last sample before, which must be at
// most long old.
func (s *byteMeter) at(when time.Time, of string, long time.Duration) (n int64, ok bool) {
	i := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].to.After(when) })
	if i == 0 || when.Sub(s.samples[i-1].to) > long {
		return 0, false
	}
	return s.samples[i-1].amount(of), true
}

// unchanged tells whether the last two samples before a time are equal and recent. Then the
// last one has all bytes from before.
func (s *byteMeter) unchanged(when time.Time, of string) bool {
	i := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].to.After(when) })
	return i > 1 && when.Sub(s.samples[i-1].to) < 5*time.Millisecond && s.samples[i-1].amount(of) == s.samples[i-2].amount(of)
}

func (s *sample) amount(of string) int64 {
	if of == "" {
		return s.all
	}
	return s.of[of]
}

// byteVerdict is the result of a measurement.
type byteVerdict struct {
	over int64   // the most that a window had beyond its amount, of those that began when all was still
	used float64 // of the amount, without the first window and the last; -1: too few were seen
}

// windows checks the windows of the clock, without the first and the last. Windows without
// samples at the edge between them count together.
func (s *byteMeter) windows(t *testing.T, of string, amount int64, every time.Duration) (w byteVerdict) {
	t.Helper()
	first, last := s.samples[0].from, s.samples[len(s.samples)-1].to
	var before, sum, n, all int64
	exact := false
	for edge := first.Truncate(every).Add(2 * every); !edge.After(last); edge = edge.Add(every) {
		n++
		now, ok := s.at(edge, of, every/4)
		if !ok {
			continue
		}
		if before > 0 {
			if exact {
				w.over = max(w.over, now-before-n*amount)
			}
			sum, all = sum+now-before, all+n
		}
		before, n, exact = now, 0, s.unchanged(edge, of)
	}
	if all < 2 {
		t.Logf("only %d windows were seen", all)
		w.used = -1
		return w
	}
	w.used = float64(sum) / float64(all*amount)
	return w
}

// intervals checks all intervals between two samples against what is allowed for their
// length.
func (s *byteMeter) intervals(of string, allowed func(time.Duration) int64) (over int64) {
	for i := range s.samples {
		for j := i + 1; j < len(s.samples); j++ {
			a, b := &s.samples[i], &s.samples[j]
			over = max(over, b.amount(of)-a.amount(of)-allowed(b.to.Sub(a.from)))
		}
	}
	return over
}
