package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// flood is an origin that answers without end, as fast as it can. It takes
// requests' bodies only when told to by the path.
type flood struct {
	*httptest.Server
	tr     *Transport
	dialer *Dialer
	port   uint16

	mu    sync.Mutex
	conns []*net.TCPConn
	took  int64 // of requests' bodies
}

// catching hands out connections and keeps them.
type catching struct {
	net.Listener
	f *flood
}

func (c catching) Accept() (net.Conn, error) {
	nc, err := c.Listener.Accept()
	if err == nil {
		c.f.mu.Lock()
		c.f.conns = append(c.f.conns, nc.(*net.TCPConn))
		c.f.mu.Unlock()
	}
	return nc, err
}

// flooding speaks http, https or h2.
func flooding(t *testing.T, speaks string) *flood {
	t.Helper()
	f := &flood{}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = quiet
	f.Listener = catching{f.Listener, f}
	if speaks == "http" {
		f.Start()
	} else {
		f.EnableHTTP2 = speaks == "h2"
		f.StartTLS()
	}
	t.Cleanup(f.Close)
	at := f.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	number, _ := strconv.Atoi(port)
	f.port = uint16(number)
	f.dialer = &Dialer{Resolve: map[string]string{"example.com:" + port: at}}
	f.tr = newTransport(t)
	f.tr.Dial = f.dialer.Dial
	if speaks != "http" {
		f.tr.TLS = &tls.Config{RootCAs: f.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	}
	return f
}

func (f *flood) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	piece := make([]byte, 256<<10)
	switch r.URL.Path {
	case "/take":
		for {
			n, err := r.Body.Read(piece)
			f.mu.Lock()
			f.took += int64(n)
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	case "/small":
		io.WriteString(w, "hello")
	case "/wait":
		<-r.Context().Done()
	default:
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

func (f *flood) url(path string) string {
	scheme := "http"
	if f.tr.TLS != nil {
		scheme = "https"
	}
	return scheme + "://example.com:" + strconv.Itoa(int(f.port)) + path
}

// acknowledged is what has come to the last connection's other end.
func (f *flood) acknowledged() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.conns) == 0 {
		return 0
	}
	return int64((&side{tcp: f.conns[len(f.conns)-1]}).acknowledged())
}

func (f *flood) taken() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took
}

// get asks under a Limiter. done has the request's context end.
func (f *flood) get(t *testing.T, m byteMeter, method, path string, body io.Reader) (*http.Request, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(withMeter(context.Background(), m), time.Minute)
	t.Cleanup(cancel)
	return newRequest(t, method, f.url(path), body).WithContext(ctx), cancel
}

// tunnel relays between a socket, whose other end is returned, and the origin.
func (f *flood) tunnel(t *testing.T, m byteMeter, plain bool, o RelayOptions) (r *table, end func()) {
	t.Helper()
	client, near := sockets(t)
	far, err := f.dialer.Dial(withMeter(t.Context(), m), "example.com", f.port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var there net.Conn = wrapped{near}
	if plain {
		there = onlyConn{near}
	}
	return relayOver(ctx, client, there, far, client, o), func() {
		cancel()
		client.Close()
	}
}

// beyond is the most that may have left the origin without credit: the receive
// buffer, of which Linux takes twice what was asked for.
const beyond = 2 * defaultReceiveBuffer

// overspent looks once whether more has left the origin than there was credit
// for. A read of the connection is not more than what was granted by then.
func overspent(t *testing.T, p *testBudget, acknowledged func() int64) int64 {
	t.Helper()
	wrote := p.out.Load()
	left := acknowledged()
	granted, _, _ := p.look()
	over := left - (granted - wrote)
	if over > beyond {
		t.Errorf("%d bytes have left the origin, %d more than were granted; %d are allowed", left, over, beyond)
	}
	return over
}

// floods are the ways to be flooded.
var floods = []string{"http", "https", "h2", "tunnel", "copied tunnel"}

// granting is a Meter that is given credit.
type granting interface {
	byteMeter
	grant(n int)
}

// floodedBy is flooded in one of these ways. It returns a reader of what comes, and
// what ends it.
func floodedBy(t *testing.T, p granting, name string) (*flood, io.Reader, func()) {
	t.Helper()
	switch name {
	case "tunnel", "copied tunnel":
		return tunnelled(t, p, name != "tunnel")
	default:
		return flooded(t, p, name)
	}
}

func flooded(t *testing.T, p granting, speaks string) (*flood, io.Reader, func()) {
	t.Helper()
	f := flooding(t, speaks)
	p.grant(16 << 10) // for the handshake and the head
	req, cancel := f.get(t, p, "GET", "/", nil)
	resp, err := f.tr.RoundTrip(req)
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	return f, resp.Body, func() {
		resp.Body.Close()
		cancel()
		f.tr.Close()
	}
}

func tunnelled(t *testing.T, p granting, plain bool) (*flood, io.Reader, func()) {
	t.Helper()
	f := flooding(t, "http")
	p.grant(1 << 10)
	r, end := f.tunnel(t, p, plain, RelayOptions{})
	send(t, r.client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	return f, r.client, func() { end(); <-r.ended }
}

func TestBytesBeyondTheCreditStayInTheReceiveBuffer(t *testing.T) {
	for _, name := range floods {
		t.Run(name, func(t *testing.T) {
			p := newTestBudget(0)
			f, from, end := floodedBy(t, p, name)
			var reader sync.WaitGroup
			reader.Go(func() { io.Copy(io.Discard, onlyReader{from}) })
			most := int64(0)
			for _, step := range []int{1, 100, 4 << 10, 100_000, 1, 1 << 20, 17, 300_000} {
				p.grant(step)
				soon(t, "using the credit", func() bool {
					most = max(most, overspent(t, p, f.acknowledged))
					return p.empty()
				})
				for range 20 { // the buffer fills
					most = max(most, overspent(t, p, f.acknowledged))
					runtime.Gosched()
				}
			}
			t.Logf("at most %d bytes beyond the credit", most)
			end()
			reader.Wait()
			p.balanced(t)
			if p.in.Load() < 1<<20 {
				t.Errorf("only %d bytes came", p.in.Load())
			}
		})
	}
}

// onlyReader hides what a reader can do better.
type onlyReader struct{ io.Reader }

func TestNoCreditIsHeldWhileAConnectionWaits(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(1 << 20)
			for range 3 {
				req, _ := f.get(t, p, "GET", "/small", nil)
				if _, body, err := ask(t, f.tr, req); err != nil || body != "hello" {
					t.Fatal(body, unwrapped(err))
				}
			}
			soon(t, "giving back", func() bool {
				granted, _, waiting := p.look()
				return granted == p.in.Load()+p.out.Load() && waiting == 0
			})
			req, cancel := f.get(t, p, "GET", "/wait", nil)
			asked := make(chan error)
			go func() {
				_, err := f.tr.RoundTrip(req)
				asked <- err
			}()
			soon(t, "asking", func() bool { _, n, _ := p.look(); return n > 5 && p.out.Load() > 0 })
			cancel()
			wantKind(t, <-asked, Canceled)
			f.tr.Close()
			p.balanced(t)
		})
	}
}

func TestWritingWaitsForCredit(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(16 << 10)
			const size = 3 << 20
			req, _ := f.get(t, p, "POST", "/take", io.LimitReader(zeros{}, size))
			req.ContentLength = size
			asked := make(chan error)
			go func() {
				_, _, err := ask(t, f.tr, req)
				asked <- err
			}()
			for step := 16 << 10; ; step *= 2 {
				p.held(t)
				granted, _, _ := p.look()
				if took := f.taken(); took > granted-p.in.Load() {
					t.Errorf("the origin took %d of %d granted", took, granted)
				}
				if step > 1<<20 {
					break
				}
				p.grant(step)
			}
			p.grant(size)
			if err := <-asked; err != nil {
				t.Fatal(unwrapped(err))
			}
			f.tr.Close()
			p.balanced(t)
			if f.taken() != size {
				t.Errorf("%d of %d bytes came", f.taken(), size)
			}
		})
	}
}

// What is read of a connection that must end must not be waited for.
func TestWhoLeavesAPauseLeavesAtOnce(t *testing.T) {
	for _, name := range floods {
		t.Run(name, func(t *testing.T) {
			p := newTestBudget(0)
			_, from, end := floodedBy(t, p, name)
			var reader sync.WaitGroup
			reader.Go(func() { io.Copy(io.Discard, onlyReader{from}) })
			p.held(t)
			began := time.Now()
			end()
			reader.Wait()
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("it took %v", took)
			}
			p.balanced(t)
		})
	}
}

func TestACanceledRequestLeavesItsPauseAtOnce(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(0)
			req, cancel := f.get(t, p, "GET", "/", nil)
			asked := make(chan error)
			go func() {
				_, err := f.tr.RoundTrip(req) // waits to write
				asked <- err
			}()
			p.held(t)
			cancel()
			wantKind(t, <-asked, Canceled)

			p.grant(16 << 10)
			req, cancel = f.get(t, p, "GET", "/", nil)
			resp, err := f.tr.RoundTrip(req)
			if err != nil {
				t.Fatal(unwrapped(err))
			}
			go func() {
				_, err := io.Copy(io.Discard, resp.Body)
				asked <- err
			}()
			p.held(t)
			cancel()
			wantKind(t, <-asked, Canceled)
			resp.Body.Close()
			f.tr.Close()
			p.balanced(t)
		})
	}
}

func TestAPauseThatIsTooLongIsToldByItsKind(t *testing.T) {
	for _, speaks := range []string{"http", "https", "h2"} {
		t.Run(speaks, func(t *testing.T) {
			f := flooding(t, speaks)
			p := newTestBudget(0)
			p.broke = true
			req, _ := f.get(t, p, "GET", "/", nil)
			_, err := f.tr.RoundTrip(req)
			wantKind(t, err, Budget)

			p.grant(16 << 10)
			req, _ = f.get(t, p, "GET", "/", nil)
			resp, err := f.tr.RoundTrip(req)
			if err != nil {
				t.Fatal(unwrapped(err))
			}
			_, err = io.Copy(io.Discard, resp.Body)
			wantKind(t, err, Budget)
			if !errors.Is(err, errStill) {
				t.Errorf("the limiter's own words are lost: %v", unwrapped(err))
			}
			resp.Body.Close()

			p.grant(16 << 10)
			const size = 1 << 20
			req, _ = f.get(t, p, "POST", "/take", io.LimitReader(zeros{}, size))
			req.ContentLength = size
			_, err = f.tr.RoundTrip(req)
			wantKind(t, err, Budget)
			f.tr.Close()
			p.balanced(t)
		})
	}
}
