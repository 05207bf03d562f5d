package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counting is a dialer that knows which of its connections are open. Every
// host leads to one origin.
type counting struct {
	to     string
	dialed atomic.Int64
	open   atomic.Int64
}

type counted struct {
	net.Conn
	d    *counting
	once sync.Once
}

func (c *counted) NetConn() net.Conn { return c.Conn }

func (c *counted) Close() error {
	c.once.Do(func() { c.d.open.Add(-1) })
	return c.Conn.Close()
}

func (d *counting) dial(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
	var nd net.Dialer
	nc, err := nd.DialContext(ctx, "tcp", d.to)
	if err != nil {
		return nil, err
	}
	d.dialed.Add(1)
	d.open.Add(1)
	return &counted{Conn: nc, d: d}, nil
}

// pooled is a Transport before its first request, and the dialer under it.
func pooled(t *testing.T) (*Transport, *counting) {
	t.Helper()
	d := &counting{to: plainOrigin(t, 5, nil)}
	tr := newTransport(t)
	tr.Dial = d.dial
	return tr, d
}

// together has n requests hold a connection each, and then lets them go.
func together(t *testing.T, tr *Transport, urls ...string) {
	t.Helper()
	var open []*http.Response
	for _, url := range urls {
		resp, err := tr.RoundTrip(newRequest(t, "GET", url, nil))
		if err != nil {
			t.Fatal(unwrapped(err))
		}
		open = append(open, resp)
	}
	for _, resp := range open {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func hosts(n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://host-%d.test/", i))
	}
	return urls
}

func same(n int) (urls []string) {
	for range n {
		urls = append(urls, "http://host.test/")
	}
	return urls
}

func TestIdleConnectionsOfAHostAreBounded(t *testing.T) {
	tr, d := pooled(t)
	tr.MaxIdlePerHost = 3
	together(t, tr, same(8)...)
	if n, idle := d.open.Load(), idleOf(tr); n != 3 || idle != 3 {
		t.Fatalf("%d are open, %d counted as idle", n, idle)
	}
	together(t, tr, same(3)...)
	if n := d.dialed.Load(); n != 8 {
		t.Fatalf("%d were dialed", n)
	}
}

func TestIdleConnectionsInAllAreBounded(t *testing.T) {
	tr, d := pooled(t)
	tr.MaxIdle = 10
	together(t, tr, hosts(200)...)
	if n, idle := d.open.Load(), idleOf(tr); n != 10 || idle != 10 {
		t.Fatalf("%d are open, %d counted as idle", n, idle)
	}
}

func TestNothingIsKeptWhereNothingMayBe(t *testing.T) {
	for _, edit := range []func(*Transport){
		func(tr *Transport) { tr.MaxIdle = -1 },
		func(tr *Transport) { tr.MaxIdlePerHost = -1 },
	} {
		tr, d := pooled(t)
		edit(tr)
		together(t, tr, same(4)...)
		if n := d.open.Load(); n != 0 {
			t.Fatalf("%d are open", n)
		}
	}
}

func TestIdleConnectionsExpire(t *testing.T) {
	tr, d := pooled(t)
	tr.IdleTimeout = 50 * time.Millisecond
	together(t, tr, hosts(30)...)
	together(t, tr, same(5)...)
	eventually(t, func() bool { return d.open.Load() == 0 && idleOf(tr) == 0 && hostsKnown(tr) == 0 })
	together(t, tr, same(1)...)
}

func hostsKnown(tr *Transport) int {
	tr.pool.mu.Lock()
	defer tr.pool.mu.Unlock()
	return len(tr.pool.hosts)
}

func idleOf(tr *Transport) int {
	tr.pool.mu.Lock()
	defer tr.pool.mu.Unlock()
	return tr.pool.idle.Len()
}

func TestTheConnectionUsedLastIsUsedNext(t *testing.T) {
	tr, _ := pooled(t)
	var used []net.Conn
	dial := tr.Dial
	tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		nc, err := dial(ctx, host, port)
		used = append(used, nc)
		return nc, err
	}
	together(t, tr, same(3)...)
	found, ok := tr.pool.take(hostKey{name: "host.test", port: 80}, false, false)
	if !ok || found.conn == nil || found.conn.raw != used[2] {
		t.Fatal("it was another")
	}
	found.conn.close()
}

func TestHostsDoNotShareConnections(t *testing.T) {
	tr, d := pooled(t)
	together(t, tr, "http://a.test/", "http://b.test/", "http://a.test:8080/")
	together(t, tr, "http://a.test:80/", "http://b.test/", "http://a.test:8080/")
	if n := d.dialed.Load(); n != 3 {
		t.Fatalf("%d were dialed", n)
	}
}

func TestHostsShareTheConnectionsToTheNextHop(t *testing.T) {
	s := playing(t, []step{{answer: ok5}, {answer: ok5}, {answer: ok5}})
	tr := newTransport(t)
	tr.Forward = func(ctx context.Context) (net.Conn, string, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "tcp", s.addr)
		return nc, "Basic eDp5", err
	}
	for _, url := range []string{"http://a.test/x?y", "http://b.test:8080", "http://c.test/z"} {
		req := newRequest(t, "GET", url, nil)
		req.Header.Set("Proxy-Authorization", "Basic Y2xpZW50")
		req.Header.Del("Proxy-Authorization")
		wantAnswer(t, tr, req, "hello")
	}
	all := strings.Join(s.requests(), "")
	for _, want := range []string{"GET http://a.test/x?y HTTP", "GET http://b.test:8080/ HTTP", "GET http://c.test/z", `Proxy-Authorization: ["Basic eDp5"]`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	if n := s.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestConnectionsThatTheirOriginEndsAreNotKept(t *testing.T) {
	s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"}})
	d := &counting{to: s.addr}
	tr := newTransport(t)
	tr.Dial = d.dial
	for range 20 {
		wantAnswer(t, tr, newRequest(t, "GET", "http://a.test/", nil), "hello")
	}
	if n := d.open.Load(); n != 0 || hostsKnown(tr) != 0 {
		t.Fatalf("%d are open", n)
	}
}

func TestCloseWaitsForWhatIsInUse(t *testing.T) {
	tr, d := pooled(t)
	together(t, tr, hosts(20)...)
	resp, err := tr.RoundTrip(newRequest(t, "GET", "http://host.test/", nil))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.Close()
	}()
	eventually(t, func() bool { return d.open.Load() == 1 })
	if _, err := tr.RoundTrip(newRequest(t, "GET", "http://host.test/", nil)); err == nil {
		t.Fatal("a closed Transport took a request")
	}
	select {
	case <-done:
		t.Fatal("Close did not wait")
	default:
	}
	if data, err := io.ReadAll(resp.Body); err != nil || len(data) != 5 {
		t.Fatalf("%q, %v", data, err)
	}
	<-done
	if n := d.open.Load(); n != 0 {
		t.Fatalf("%d are open", n)
	}
	tr.Close() // once more does no harm
}

func TestFailedDialsLeaveNothingBehind(t *testing.T) {
	tr := newTransport(t)
	tr.Dial = func(context.Context, string, uint16) (net.Conn, error) { return nil, &Error{Kind: Refused} }
	for _, scheme := range []string{"http", "https"} {
		for i := range 20 {
			tr.RoundTrip(newRequest(t, "GET", fmt.Sprintf("%s://host-%d.test/", scheme, i), nil))
		}
	}
	if n := hostsKnown(tr); n != 0 {
		t.Fatalf("%d hosts are remembered", n)
	}
}

func TestThoseWhoWaitForADialShareItsFailureButNotItsEnd(t *testing.T) {
	tr := newTransport(t)
	reached, fail := make(chan struct{}, 10), make(chan struct{})
	tr.Dial = func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		reached <- struct{}{}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-fail:
			return nil, &Error{Kind: Refused}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error)
	go func() {
		_, err := tr.RoundTrip(newRequest(t, "GET", "https://a.test/", nil).WithContext(ctx))
		errs <- err
	}()
	<-reached
	for range 5 {
		req := newRequest(t, "GET", "https://a.test/", nil)
		go func() {
			_, err := tr.RoundTrip(req)
			errs <- err
		}()
	}
	cancel()
	wantKind(t, <-errs, Canceled) // of the first alone
	<-reached                     // another took over
	close(fail)
	for range 5 {
		wantKind(t, <-errs, Refused)
	}
}

func TestIdleHTTP2ConnectionsAreBoundedAndExpire(t *testing.T) {
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }), nil)
	d := &counting{to: strings.TrimPrefix(s.URL, "https://")}
	tr.Dial, tr.MaxIdle, tr.IdleTimeout = d.dial, 3, 200*time.Millisecond
	for i := range 8 {
		wantAnswer(t, tr, newRequest(t, "GET", fmt.Sprintf("https://host-%d.test/", i), nil), "hello")
	}
	eventually(t, func() bool { return d.open.Load() <= 3 })
	eventually(t, func() bool { return d.open.Load() == 0 && idleOf(tr) == 0 && hostsKnown(tr) == 0 })
}

func TestAnHTTP2ConnectionThatItsOriginEndsIsForgotten(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		c.answer(c.next(), "hello") // and closes
	})
	for range 3 {
		wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello")
		eventually(t, func() bool { return hostsKnown(tr) == 0 && idleOf(tr) == 0 })
	}
}

func TestAGoodbyeThatCameWithTheAnswerIsSeen(t *testing.T) {
	config, client := certified(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan int, 10)
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conns <- n
			wait.Go(func() {
				held := &holding{Conn: nc}
				tc := tls.Server(held, config)
				defer nc.Close()
				if tc.Handshake() != nil {
					return
				}
				tc.Read(make([]byte, 4096))
				held.on = true
				io.WriteString(tc, ok5)
				tc.CloseWrite()                  // in one packet with the answer
				nc.SetWriteDeadline(time.Time{}) // which CloseWrite had set
				nc.Write(held.all)
				io.Copy(io.Discard, nc)
			})
		}
	})
	defer wait.Wait()
	defer l.Close()
	tr := newTransport(t)
	defer tr.CloseIdle()
	tr.TLS = client
	for range 3 {
		wantAnswer(t, tr, newRequest(t, "POST", "https://"+l.Addr().String(), nil), "hello")
	}
	if len(conns) != 3 {
		t.Fatalf("%d connections", len(conns))
	}
}

// holding keeps what is written.
type holding struct {
	net.Conn
	on  bool
	all []byte
}

func (h *holding) Write(p []byte) (int, error) {
	if !h.on {
		return h.Conn.Write(p)
	}
	h.all = append(h.all, p...)
	return len(p), nil
}

func TestAPooledConnectionCountsForTheRequestThatUsesIt(t *testing.T) {
	tr := newTransport(t)
	url := "http://" + plainOrigin(t, 5, nil) + "/"
	var first, second tallied
	for _, m := range []*tallied{&first, &second} {
		req := newRequest(t, "GET", url, nil)
		wantAnswer(t, tr, req.WithContext(withMeter(req.Context(), m)), "xxxxx")
	}
	if first != second || first.in == 0 || first.out == 0 {
		t.Fatalf("%+v, %+v", first, second)
	}
}

type tallied struct{ in, out int }

func (m *tallied) Read(n int)  { m.in += n }
func (m *tallied) Wrote(n int) { m.out += n }

// sendings is a sender that counts how often requests are told that they are sent after a wait for a connection.
type sendings struct{ n int }

func (s *sendings) Sending() { s.n++ }

func (s *sendings) Stall(usual time.Duration) time.Duration { return usual }

func TestARequestIsToldWhenItsNewConnectionIsThere(t *testing.T) {
	tr, d := pooled(t)
	for i, want := range []int{1, 0} { // the second has the connection of the first
		told := &sendings{}
		dial := tr.Dial
		tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
			if told.n > 0 {
				t.Error("it was told before it had a connection")
			}
			return dial(ctx, host, port)
		}
		req := newRequest(t, "GET", "http://host.test/", nil)
		wantAnswer(t, tr, req.WithContext(context.WithValue(req.Context(), SenderKey{}, told)), "xxxxx")
		tr.Dial = dial
		if told.n != want || d.dialed.Load() != 1 {
			t.Errorf("request %d was told %d times, not %d, and %d connections were made", i, told.n, want, d.dialed.Load())
		}
	}
}

func TestThousandsOfRequestsAtOnceKeepTheirBooks(t *testing.T) {
	tr, d := pooled(t)
	tr.MaxIdlePerHost, tr.MaxIdle, tr.IdleTimeout = 2, 20, 20*time.Millisecond
	urls := hosts(40)
	var wait sync.WaitGroup
	var bad atomic.Pointer[error]
	for w := range 16 {
		wait.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithCancel(context.Background())
				req, _ := http.NewRequestWithContext(ctx, "GET", urls[(w*7+i)%len(urls)], nil)
				if i%13 == 0 {
					cancel()
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					if i%5 != 0 {
						io.Copy(io.Discard, resp.Body)
					}
					resp.Body.Close()
				} else if !errors.Is(err, context.Canceled) {
					bad.Store(&err)
				}
				cancel()
			}
		})
	}
	wait.Wait()
	if err := bad.Load(); err != nil {
		t.Fatal(unwrapped(*err))
	}
	tr.Close()
	if d.open.Load() != 0 || idleOf(tr) != 0 || hostsKnown(tr) != 0 {
		t.Fatalf("%d open, %d idle, %d hosts", d.open.Load(), idleOf(tr), hostsKnown(tr))
	}
}
