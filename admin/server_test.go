package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

// tight gives connections almost no buffers, so that few bytes get one stuck.
type tight struct{ net.Listener }

func (l tight) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetWriteBuffer(4 << 10)
	}
	return conn, err
}

func TestStuckClientsAreDropped(t *testing.T) {
	const each = 250
	p := policy.Defaults()
	server := Server(New((&given{Options: Options{Policy: func() *policy.Policy { return p }, Metrics: metrics.New(10)}}).options()))
	if server.ReadHeaderTimeout == 0 || server.ReadTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 || server.MaxHeaderBytes == 0 {
		t.Errorf("something is not bounded: %+v", server)
	}
	server.ReadHeaderTimeout, server.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
	server.WriteTimeout, server.IdleTimeout = 500*time.Millisecond, 500*time.Millisecond
	gone := make(chan struct{}, 8*each)
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			gone <- struct{}{}
		}
	}
	before := runtime.NumGoroutine()
	address := serve(t, server, func(l net.Listener) net.Listener { return tight{l} })
	var conns []net.Conn
	defer func() {
		for _, one := range conns {
			one.Close()
		}
	}()
	for _, says := range []string{
		"",
		"GET /metr",
		"POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		// Never reads any of the answers.
		strings.Repeat("GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
	} {
		for range each {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			conn.SetWriteDeadline(time.Now().Add(5 * time.Minute))
			_, _ = io.WriteString(conn, says) // it may be cut off meanwhile
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range len(conns) {
		select {
		case <-gone:
		case <-ctx.Done():
			t.Fatalf("%d of %d stuck connections are gone", n, len(conns))
		}
	}
	for runtime.NumGoroutine() > before+5 {
		if ctx.Err() != nil {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}
