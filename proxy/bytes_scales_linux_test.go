package proxy

import (
	"net"
	"sort"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// buffer is what the kernel takes of a connection that nobody reads: twice what it is
// asked for.
const buffer = 32 << 10

// gauged is an origin's end of a connection. What has come to the other end, or from
// there, the kernel tells.
type gauged struct {
	*net.TCPConn
	mu   sync.Mutex
	of   string // whose it is
	was  int64
	over bool
}

// passed is how many bytes have left or have come.
func (g *gauged) passed() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return g.was
	}
	raw, err := g.SyscallConn()
	if err != nil {
		return g.was
	}
	_ = raw.Control(func(fd uintptr) { // one that is closed tells nothing
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			g.was = int64(info.Bytes_acked + info.Bytes_received)
		}
	})
	return g.was
}

func (g *gauged) Close() error {
	g.passed()
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	return g.TCPConn.Close()
}

func (g *gauged) whose() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of
}

// scales weigh what passes at an origin's sockets.
type scales struct {
	net.Listener
	mu      sync.Mutex
	conns   []*gauged
	samples []sample
}

// sample is how much has passed, at a time between two.
type sample struct {
	from, to time.Time
	all      int64
	of       map[string]int64
}

func (s *scales) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &gauged{TCPConn: c.(*net.TCPConn)}
	s.mu.Lock()
	s.conns = append(s.conns, g)
	s.mu.Unlock()
	return g, nil
}

func (s *scales) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := sample{from: time.Now(), of: map[string]int64{}}
	for _, c := range s.conns {
		n := c.passed()
		one.all += n
		one.of[c.whose()] += n
	}
	one.to = time.Now()
	s.samples = append(s.samples, one)
}

// weigh looks every millisecond until a time.
func (s *scales) weigh(until time.Time) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for time.Now().Before(until) {
		s.look()
		<-look.C
	}
}

// at is how much had passed by a time, as it was seen last before, and not long before.
func (s *scales) at(when time.Time, of string, long time.Duration) (n int64, ok bool) {
	i := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].to.After(when) })
	if i == 0 || when.Sub(s.samples[i-1].to) > long {
		return 0, false
	}
	return s.samples[i-1].amount(of), true
}

// still tells whether nothing passed between the last two looks before a time, which
// were just before it. Then the last one has all that came before. On a machine that
// has something else to do nobody knows.
func (s *scales) still(when time.Time, of string) bool {
	i := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].to.After(when) })
	return i > 1 && when.Sub(s.samples[i-1].to) < 5*time.Millisecond && s.samples[i-1].amount(of) == s.samples[i-2].amount(of)
}

func (s *sample) amount(of string) int64 {
	if of == "" {
		return s.all
	}
	return s.of[of]
}

// verdict of the scales.
type weight struct {
	over int64   // the most that a window had beyond its amount, of those that began when all was still
	used float64 // of the amount, without the first window and the last; -1: too few were seen
}

// windows are those of the clock, without the first and the last. Those whose edge
// nobody saw count together.
func (s *scales) windows(t *testing.T, of string, amount int64, every time.Duration) (w weight) {
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
		before, n, exact = now, 0, s.still(edge, of)
	}
	if all < 2 {
		t.Logf("only %d windows were seen", all)
		w.used = -1
		return w
	}
	w.used = float64(sum) / float64(all*amount)
	return w
}

// intervals are all that begin and end with a look. Each may have so much at once,
// and so much with time.
func (s *scales) intervals(of string, allowed func(time.Duration) int64) (over int64) {
	for i := range s.samples {
		for j := i + 1; j < len(s.samples); j++ {
			a, b := &s.samples[i], &s.samples[j]
			over = max(over, b.amount(of)-a.amount(of)-allowed(b.to.Sub(a.from)))
		}
	}
	return over
}
