package upstream

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// secureServer serves HTTP/2 and HTTP/1.1, and a Transport that trusts it.
func secureServer(t *testing.T, h http.Handler, edit func(*httptest.Server)) (*Transport, *httptest.Server) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	if edit != nil {
		edit(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := newTransport(t) // its Close comes first
	tr.TLS = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	return tr, s
}

// frames is an HTTP/2 origin of which every frame is written by hand.
type frames struct {
	url string

	mu    sync.Mutex
	conns int
	asked int // requests in all
	wait  sync.WaitGroup
}

// frameConn is one connection to it.
type frameConn struct {
	*http2.Framer
	t    *testing.T
	nc   net.Conn
	n    int // which connection, from 0
	f    *frames
	buf  bytes.Buffer
	henc *hpack.Encoder
}

// framed starts an origin whose connections serve plays, after the settings.
func framed(t *testing.T, settings []http2.Setting, serve func(*frameConn)) (*Transport, *frames) {
	return framedBeside(t, settings, serve, nil)
}

// framedBeside starts an origin whose connections of HTTP/2 serve plays, after the settings, and those of HTTP/1.1 single.
func framedBeside(t *testing.T, settings []http2.Setting, serve func(*frameConn), single func(net.Conn)) (*Transport, *frames) {
	t.Helper()
	config, client := certified(t)
	if config.NextProtos = []string{"h2"}; single != nil {
		config.NextProtos = append(config.NextProtos, "http/1.1")
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	f := &frames{url: "https://" + l.Addr().String()}
	f.wait.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			n := f.conns
			f.conns++
			f.mu.Unlock()
			f.wait.Go(func() {
				defer nc.Close()
				if tc := nc.(*tls.Conn); tc.Handshake() == nil && tc.ConnectionState().NegotiatedProtocol == "http/1.1" {
					single(nc)
					return
				}
				if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				c := &frameConn{Framer: http2.NewFramer(nc, nc), t: t, nc: nc, n: n, f: f}
				c.henc = hpack.NewEncoder(&c.buf)
				c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
				if c.WriteSettings(settings...) == nil {
					serve(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.wait.Wait()
	})
	tr := newTransport(t)
	tr.TLS = client
	return tr, f
}

func (f *frames) counts() (conns, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns, f.asked
}

// next gives the next request's stream, and answers what else comes as it
// should be. It is 0 at the end.
func (c *frameConn) next() (stream uint32) {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			c.f.mu.Lock()
			c.f.asked++
			c.f.mu.Unlock()
			return f.StreamID
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.WritePing(true, f.Data)
			}
		}
	}
}

func (c *frameConn) headers(stream uint32, end bool, fields ...string) {
	c.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.henc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.buf.Bytes(), EndHeaders: true, EndStream: end})
}

func (c *frameConn) answer(stream uint32, body string) {
	c.headers(stream, false, ":status", "200")
	c.WriteData(stream, true, []byte(body))
}

// drain reads on until the client closes, so that it does not see a reset.
func (c *frameConn) drain() {
	for c.next() != 0 {
	}
}

func wantAnswer(t *testing.T, rt http.RoundTripper, req *http.Request, want string) {
	t.Helper()
	_, body, err := ask(t, rt, req)
	if err != nil || body != want {
		t.Fatalf("%q, %v", body, unwrapped(err))
	}
}

// atOnce asks n times together.
func atOnce(t *testing.T, n int, rt http.RoundTripper, method, url, want string) {
	t.Helper()
	errs := make(chan error, n)
	for range n {
		req := newRequest(t, method, url, nil)
		go func() {
			_, body, err := ask(t, rt, req)
			if err == nil && body != want {
				err = fmt.Errorf("got %q", body)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(unwrapped(err))
		}
	}
}

var quiet = log.New(io.Discard, "", 0)

func after(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	timer := time.AfterFunc(d, f)
	t.Cleanup(func() { timer.Stop() })
}
