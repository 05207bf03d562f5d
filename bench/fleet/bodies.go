//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bodied is how well a limit of bytes holds while many bodies are on their way.
type bodied struct {
	way       string
	instances int
	budget    budget
	served    int64 // requests that ended
	most      int64 // in any window
	used      float64
	each      []int64 // what windows had, of those whose edges could be seen
}

// over is by how much of the limit the worst window is above it.
func (b bodied) over() float64 { return float64(b.most)/float64(b.budget.amount) - 1 }

// atOnce is how many requests are under way.
const atOnce = 60

var bodyBudgets = []budget{
	{name: "400 kB", yaml: "{bytes: 400kB, per: 5s}", amount: 400_000, window: 5 * time.Second},
	{name: "4 MB", yaml: "{bytes: 4MB, per: 5s}", amount: 4_000_000, window: 5 * time.Second},
}

// bodyWays are what the requests are. Sizes are parts of the limit.
var bodyWays = []struct {
	name string
	ask  func(amount int64) *http.Request
}{
	{"downloads of a quarter of it", func(amount int64) *http.Request { return bodyRequest(amount/4, 0, 0) }},
	{"downloads of a fiftieth", func(amount int64) *http.Request { return bodyRequest(amount/50, 0, 0) }},
	{"downloads of a fiftieth after up to 8 s", func(amount int64) *http.Request { return bodyRequest(amount/50, 8*time.Second, 0) }},
	{"uploads of a quarter", func(amount int64) *http.Request { return bodyRequest(0, 0, amount/4) }},
}

// bodyRequest asks for so many bytes after up to a while, and sends some.
func bodyRequest(down int64, delay time.Duration, up int64) *http.Request {
	method, body := http.MethodGet, io.Reader(nil)
	if up > 0 {
		method, body = http.MethodPost, bytes.NewReader(make([]byte, up))
	}
	if delay > 0 {
		delay = time.Duration(rand.Int63n(int64(delay)))
	}
	r, err := http.NewRequest(method, fmt.Sprintf("http://site.test/?size=%d&delay=%s", down, delay), body)
	if err != nil {
		panic(err) // it is always the same
	}
	return r
}

// bodySite is a site that tells what the kernel of its peers has taken, and its own.
type bodySite struct {
	net.Listener
	server *http.Server
	ended  chan struct{}

	mu    sync.Mutex
	conns map[*bodyConn]bool
	gone  int64 // bytes of connections that are closed
}

type bodyConn struct {
	*net.TCPConn
	site *bodySite
}

func newBodySite() (*bodySite, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &bodySite{Listener: l, ended: make(chan struct{}), conns: map[*bodyConn]bool{}}
	s.server = &http.Server{Handler: http.HandlerFunc(serveBody)}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(s)
	}()
	return s, nil
}

func serveBody(w http.ResponseWriter, r *http.Request) {
	delay, _ := time.ParseDuration(r.FormValue("delay"))
	size, _ := strconv.ParseInt(r.FormValue("size"), 10, 64)
	pause(r.Context(), delay)
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for piece := make([]byte, 64<<10); size > 0; {
		n, err := w.Write(piece[:min(size, int64(len(piece)))])
		if size -= int64(n); err != nil {
			return
		}
	}
}

func (s *bodySite) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &bodyConn{c.(*net.TCPConn), s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = true
	return conn, nil
}

func (c *bodyConn) Close() error {
	c.site.mu.Lock()
	if c.site.conns[c] {
		delete(c.site.conns, c)
		c.site.gone += c.passed()
	}
	c.site.mu.Unlock()
	return c.TCPConn.Close()
}

// passed is how many bytes the peer's kernel has taken, and this one from the peer.
func (c *bodyConn) passed() (n int64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked + info.Bytes_received)
		}
	})
	return n
}

func (s *bodySite) passed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.gone
	for c := range s.conns {
		n += c.passed()
	}
	return n
}

func (s *bodySite) close() {
	_ = s.server.Close()
	<-s.ended
}

// look is how much had passed, some time between two.
type look struct {
	from, to time.Time
	n        int64
}

// watch looks every millisecond until a time.
func (s *bodySite) watch(ctx context.Context, until time.Time) (looks []look) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && time.Now().Before(until) {
		from := time.Now()
		n := s.passed()
		looks = append(looks, look{from, time.Now(), n})
		<-tick.C
	}
	return looks
}

// edgeSeen is how close to the edge of a window a look must be, on both sides.
const edgeSeen = 25 * time.Millisecond

// windowsOf are the bytes of each window. One that passed at an edge whose looks are far
// apart counts with its neighbour: then the two have twice the limit.
func windowsOf(looks []look, from, to time.Time, b budget) (each []int64, most int64, used float64) {
	at := func(edge time.Time) (n int64, ok bool) {
		last := -1
		for i := range looks {
			if looks[i].to.After(edge) {
				break
			}
			last = i
		}
		if last < 0 || last+1 >= len(looks) || edge.Sub(looks[last].from) > edgeSeen {
			return 0, false
		}
		return looks[last].n, true
	}
	var before, sum int64
	if n, ok := at(from); ok {
		before = n
	}
	start, windows, seen := before, int64(0), int64(0)
	for edge := from.Add(b.window); !edge.After(to); edge = edge.Add(b.window) {
		windows++
		n, ok := at(edge)
		if !ok {
			continue
		}
		each = append(each, n-before)
		most = max(most, n-before-(windows-1)*b.amount)
		seen += windows
		before, windows, sum = n, 0, n-start
	}
	return each, most, float64(sum) / float64(b.amount) / float64(max(seen, 1))
}

// bodies measures one.
func (b *bed) bodies(ctx context.Context, instances int, way int, of budget, windows int) (bodied, error) {
	defer b.clear()
	m := bodied{way: bodyWays[way].name, instances: instances, budget: of}
	site, err := newBodySite()
	if err != nil {
		return m, err
	}
	defer site.close()
	r, err := b.redisAt(ctx)
	if err != nil {
		return m, err
	}
	var members []*member
	for range instances {
		item, err := b.memberAt(ctx, r.url(), []rule{{origin: &origin{host: "site.test", at: site.Addr().String()}, limit: of.yaml}})
		if err != nil {
			return m, err
		}
		members = append(members, item)
	}
	pause(ctx, 3500*time.Millisecond) // a store that is new gives nothing at first
	from := of.edge(time.Now().Add(of.window / 10))
	to := from.Add(time.Duration(windows) * of.window)
	work, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range atOnce {
		all.Go(func() {
			if until(work, from.Add(10*time.Millisecond)) != nil {
				return
			}
			for work.Err() == nil {
				answer, err := members[i%instances].client.RoundTrip(bodyWays[way].ask(of.amount).WithContext(work))
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				if err != nil || answer.StatusCode != http.StatusOK {
					pause(work, 50*time.Millisecond)
					continue
				}
				mu.Lock()
				m.served++
				mu.Unlock()
			}
		})
	}
	_ = until(ctx, from.Add(-of.window/20))
	looks := site.watch(ctx, to.Add(of.window/20))
	stop()
	all.Wait()
	m.each, m.most, m.used = windowsOf(looks, from, to, of)
	return m, ctx.Err()
}

// allBodies measures all that are wanted.
func (b *bed) allBodies(ctx context.Context, quick bool, wants func(string) bool, say func(string, ...any)) (list []bodied, err error) {
	counts, windows := []int{1, 4, 12}, 6
	if quick {
		counts, windows = counts[:1], 2
	}
	for _, of := range bodyBudgets {
		for way := range bodyWays {
			for _, n := range counts {
				if !wants(fmt.Sprintf("bodies %d x %s %s", n, of.name, bodyWays[way].name)) {
					continue
				}
				m, err := b.bodies(ctx, n, way, of, windows)
				if err != nil {
					return list, fmt.Errorf("bodies: %w", err)
				}
				say("%d instances, %s, %s: most %d (%+.1f %%), used %.1f %%, %d requests, windows %v", n, of.yaml, m.way, m.most, 100*m.over(), 100*m.used, m.served, m.each)
				list = append(list, m)
			}
		}
	}
	return list, nil
}
