package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// writeSlowly writes one byte at a time until the connection fails.
func writeSlowly(ctx context.Context, w io.Writer, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func TestASlowBodyLosesItsPlace(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "timeouts: {stall: 300ms}")
	aborted := make(chan error, 16)
	b.handle(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		aborted <- err
	})
	for _, w := range rawPaths {
		t.Run("over "+string(w), func(t *testing.T) {
			conn := b.open(w)
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1000000000\r\n\r\n", w.line("/"))
			var dripping sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			dripping.Go(func() { writeSlowly(ctx, conn, 10*time.Millisecond) })
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			stop()
			dripping.Wait()
			must(t, err)
			if resp.StatusCode != 408 {
				t.Errorf("status %d", resp.StatusCode)
			}
			select {
			case err := <-aborted:
				if err == nil {
					t.Error("the origin saw a whole body")
				}
			case <-time.After(5 * time.Minute):
				t.Error("the origin still waits")
			}
		})
	}
}

func TestAClientThatDoesNotReadIsCutAndHoldsLittle(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "timeouts: {stall: 500ms}")
	var wrote atomic.Int64
	ended := make(chan struct{}, 1)
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 64<<10)
		for range 100 << 20 / len(piece) {
			n, err := w.Write(piece)
			wrote.Add(int64(n))
			if err != nil {
				break
			}
		}
		ended <- struct{}{}
	})
	for _, w := range rawPaths {
		t.Run("over "+string(w), func(t *testing.T) {
			wrote.Store(0)
			conn := b.open(w)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/"))
			conn.Read(make([]byte, 1))
			select {
			case <-ended:
			case <-time.After(5 * time.Minute):
				t.Fatal("the origin still writes")
			}
			if n := wrote.Load(); n > 32<<20 {
				t.Errorf("%d MiB were taken for a client that read nothing", n>>20)
			}
		})
	}
}

func TestStalledConnectionsGoAway(t *testing.T) {
	const each = 100
	for name, c := range map[string]struct {
		ends  string // the timeout that is short; the others are long enough for a slow machine
		stall func(b *testProxy) net.Conn
	}{
		"before a request": {"header: 300ms", (*testProxy).dial},
		"in a request's head": {"header: 300ms", func(b *testProxy) net.Conn {
			c := b.dial()
			io.WriteString(c, "GET http://api.test/ HT")
			return c
		}},
		"after CONNECT": {"handshake: 300ms", func(b *testProxy) net.Conn { return b.connect(host + ":443") }},
		"in the handshake": {"handshake: 300ms", func(b *testProxy) net.Conn {
			c := b.connect(host + ":443")
			c.Write([]byte{22, 3, 1, 2, 0, 1})
			return c
		}},
		// Its CONNECT has this time as well.
		"idle inside TLS": {"header: 2s", func(b *testProxy) net.Conn { return b.secure(b.connect(host+":443"), host, "http/1.1") }},
		"idle inside h2":  {"idle: 300ms", func(b *testProxy) net.Conn { return b.secure(b.connect(host+":443"), host, "h2") }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all", "timeouts: {"+c.ends+"}")
			stall := func(conns []net.Conn) {
				for i := range conns {
					conns[i] = c.stall(b)
				}
				for _, c := range conns {
					c.SetReadDeadline(time.Now().Add(5 * time.Minute))
					if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
						t.Fatal("it was left open")
					}
					c.Close()
				}
			}
			stall(make([]net.Conn, 1)) // afterwards everything that the server runs beside connections has begun
			base := runtime.NumGoroutine()
			stall(make([]net.Conn, each))
			eventually(t, 20*time.Second, "goroutines back to the baseline", func() bool { return runtime.NumGoroutine() <= base+5 })
		})
	}
}

// A browser opens connections that it may need, and keeps them. It has accepted the certificate of
// each, so https of the host is not tunnelled because abide closes them.
func TestAnIdleConnectionThatAbideClosesIsNotARefusedCertificate(t *testing.T) {
	t.Parallel()
	b := newTestProxy(t, "intercept: all", "timeouts: {header: 2s}")
	ours := x509.NewCertPool()
	ours.AppendCertsFromPEM(b.ca.PEM())
	for i := range refusalsInRow + 1 {
		c := b.secure(b.connect(host+":443"), host, "http/1.1")
		if _, err := c.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ours}); err != nil {
			t.Fatalf("connection %d is tunnelled: %v", i, err)
		}
		if i < refusalsInRow {
			c.SetReadDeadline(time.Now().Add(5 * time.Minute))
			if _, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Fatal("it was left open")
			}
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestAClientThatLeavesCancelsItsRequest(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	arrived, canceled := make(chan struct{}), make(chan struct{})
	b.handle(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		canceled <- struct{}{}
	})
	for _, a := range protocolClients {
		for _, abort := range []bool{false, true} {
			t.Run(fmt.Sprintf("over %s, reset %v", a.name, abort), func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, "GET", a.base+"/", nil)
				must(t, err)
				client := b.client(a.h2)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if resp, err := client.Do(r); err == nil {
						resp.Body.Close()
					}
				}()
				<-arrived
				leave()
				<-done
				select {
				case <-canceled:
				case <-time.After(5 * time.Minute):
					t.Error("the origin was left working")
				}
			})
		}
	}
}

// The answer has to come within dispatch.HalfCloseGrace, which may be too short on a machine that
// is busy. So each request is sent until one is answered.
func TestAHalfClosedClientStillGetsItsAnswer(t *testing.T) {
	b := newTestProxy(t, "intercept: none")
	arrived := make(chan chan struct{}) // has what lets the origin answer
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		proceed := make(chan struct{})
		arrived <- proceed
		select {
		case <-proceed:
			io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	})
	for name, request := range map[string]string{
		"plain":       "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
		"with a body": "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			answered := func() bool {
				conn := b.dial().(*net.TCPConn)
				defer conn.Close()
				io.WriteString(conn, request)
				proceed := <-arrived
				conn.CloseWrite()
				close(proceed)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					return false
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				return err == nil && resp.StatusCode == 200 && string(body) == "late"
			}
			for try := 1; !answered(); try++ {
				if try == 10 {
					t.Fatal("no answer came to a client that had closed its half")
				}
			}
		})
	}
	t.Run("in a tunnel", func(t *testing.T) {
		echo, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer echo.Close()
		go func() {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			all, _ := io.ReadAll(c) // until the client's half is closed
			c.Write(append(all, " back"...))
		}()
		conn := b.connect(echo.Addr().String()).(*net.TCPConn)
		io.WriteString(conn, "there and")
		conn.CloseWrite()
		all, err := io.ReadAll(conn)
		must(t, err)
		if string(all) != "there and back" {
			t.Errorf("%q", all)
		}
	})
}

func TestATunnelEndsWhenItIsIdleOrOld(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	ended := make(chan struct{}, 4)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(io.Discard, c); c.Close(); ended <- struct{}{} }()
		}
	}()
	t.Run("idle", func(t *testing.T) {
		b := newTestProxy(t, "timeouts: {tunnel_idle: 200ms}")
		conn := b.connect(silent.Addr().String())
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("the client's side: %v", err)
		}
		<-ended
	})
	t.Run("old, though busy", func(t *testing.T) {
		b := newTestProxy(t, "timeouts: {tunnel_idle: 500ms, tunnel_life: 500ms}")
		conn := b.connect(silent.Addr().String())
		var dripping sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		dripping.Go(func() { writeSlowly(ctx, conn, 10*time.Millisecond) })
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("the client's side: %v", err)
		}
		stop()
		dripping.Wait()
		<-ended
	})
}

func TestConnectionsAboveTheCapAreTold(t *testing.T) {
	for _, c := range []struct {
		id, bounds string
		want       int
	}{
		{"per client", "bounds: {connections: 40, per_client: 20}", 429},
		{"in all", "bounds: {connections: 20, per_client: 20}", 503},
	} {
		t.Run(c.id, func(t *testing.T) {
			b := newTestProxy(t, c.bounds)
			var held []net.Conn
			for range 20 {
				conn := b.dial()
				if resp, _ := sendRaw(t, conn, "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"); resp.StatusCode != 200 {
					t.Fatalf("status %d below the cap", resp.StatusCode)
				}
				held = append(held, conn)
			}
			resp, _ := sendRaw(t, b.dial(), "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
			if resp.StatusCode != c.want || resp.Header.Get("Retry-After") == "" {
				t.Errorf("above the cap: %d", resp.StatusCode)
			}
			for _, conn := range held {
				if resp, _ := sendRaw(t, conn, "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"); resp.StatusCode != 200 {
					t.Errorf("an existing connection was told %d", resp.StatusCode)
				}
			}
			held[0].Close()
			eventually(t, 20*time.Second, "a place", func() bool {
				conn := b.dial()
				defer conn.Close()
				resp, _ := sendRaw(t, conn, "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
				return resp.StatusCode == 200
			})
		})
	}
}

func TestAnEndlessBodyEnds(t *testing.T) {
	swallow := func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
	t.Run("by its bytes", func(t *testing.T) {
		b := newTestProxy(t, "intercept: all", "bounds: {upload: 1MiB}")
		b.handle(swallow)
		for _, a := range protocolClients {
			resp, _, err := a.fetch(b, "POST", "/", endless{})
			if err == nil && resp.StatusCode != 413 {
				t.Errorf("over %s: status %d", a.name, resp.StatusCode)
			}
			if err != nil {
				t.Errorf("over %s: %v", a.name, err)
			}
		}
		resp, _, err := protocolClients[0].fetch(b, "POST", "/", strings.NewReader(strings.Repeat("a", 1<<20)))
		must(t, err)
		if resp.StatusCode != 200 {
			t.Errorf("at the bound: %d", resp.StatusCode)
		}
		resp, _, err = protocolClients[0].fetch(b, "POST", "/", strings.NewReader(strings.Repeat("a", 1<<20+1)))
		must(t, err)
		if resp.StatusCode != 413 {
			t.Errorf("one above: %d", resp.StatusCode)
		}
	})
	t.Run("by its time", func(t *testing.T) {
		b := newTestProxy(t, "intercept: all", "timeouts: {upload: 500ms}")
		b.handle(swallow)
		for _, a := range protocolClients {
			resp, _, err := a.fetch(b, "POST", "/", endless{})
			must(t, err)
			if resp.StatusCode != 408 {
				t.Errorf("over %s: status %d", a.name, resp.StatusCode)
			}
		}
	})
}

// endless is an endless body.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestOneGiBStreamsBothWaysInConstantMemory(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.patience = 20 * time.Minute
	for _, a := range protocolClients {
		size := int64(1 << 30)
		if a != protocolClients[0] && raced {
			size >>= 2 // the full size takes long with the race detector
		}
		b.handle(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(size))
			io.CopyN(w, endless{}, size)
		})
		t.Run("over "+a.name, func(t *testing.T) {
			peak := watchHeap(t)
			resp, err := b.client(a.h2).Get(a.base + "/")
			must(t, err)
			n, err := io.Copy(io.Discard, resp.Body)
			must(t, err)
			resp.Body.Close()
			if n != size {
				t.Errorf("%d bytes came down", n)
			}
			_, body, err := a.fetch(b, "POST", "/", io.LimitReader(endless{}, size))
			must(t, err)
			if body != fmt.Sprint(size, nil) {
				t.Errorf("up: %s", body)
			}
			if grown := peak(); grown > 48<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

// watchHeap returns a function that tells by how much the live heap has grown at most.
func watchHeap(t *testing.T) (peak func() int64) {
	percent := debug.SetGCPercent(10) // or there may be as much garbage as other tests left
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, high := m.HeapInuse, m.HeapInuse
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapInuse)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() int64 { stop(); watching.Wait(); return int64(high) - int64(base) }
}

func TestAHundredFirstConnectsMakeOneCertificate(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	var all sync.WaitGroup
	serials := make(chan string, 100)
	for range 100 {
		conn := b.connect("new.api.test:443")
		all.Go(func() {
			c := tls.Client(conn, &tls.Config{ServerName: "new.api.test", RootCAs: b.clientRoots()})
			if err := c.Handshake(); err != nil {
				t.Error(err)
				return
			}
			serials <- c.ConnectionState().PeerCertificates[0].SerialNumber.String()
		})
	}
	all.Wait()
	close(serials)
	seen := map[string]bool{}
	for s := range serials {
		seen[s] = true
	}
	if len(seen) != 1 {
		t.Errorf("%d certificates for one name", len(seen))
	}
}
