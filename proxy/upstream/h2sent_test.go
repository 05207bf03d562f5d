package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// refusals are the ways in which an origin leaves a request without an answer.
var refusals = map[string]struct {
	do     func(c *frameConn, stream uint32)
	sent   bool // the origin may have acted on it
	asked  int  // how often a Transport sends it
	closes bool // the connection is at its end
	calm   bool // there are too many requests
}{
	"a refused stream":        {do: func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, asked: 1 + maxRefused},
	"a GOAWAY before it":      {do: func(c *frameConn, _ uint32) { c.WriteGoAway(0, http2.ErrCodeNo, nil) }, asked: 1 + maxRefused, closes: true},
	"a GOAWAY for a reason":   {do: func(c *frameConn, _ uint32) { c.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, asked: 1, closes: true, calm: true},
	"a GOAWAY that met it":    {do: func(c *frameConn, s uint32) { c.WriteGoAway(s, http2.ErrCodeNo, nil); c.nc.Close() }, sent: true, asked: 1, closes: true},
	"a GOAWAY after a GOAWAY": {do: func(c *frameConn, s uint32) { c.WriteGoAway(1<<31-1, 0, nil); c.WriteGoAway(0, 0, nil) }, asked: 1 + maxRefused, closes: true},
	"an end":                  {do: func(c *frameConn, _ uint32) { c.nc.Close() }, sent: true, asked: 1, closes: true},
	"a reset: internal":       {do: func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeInternal) }, sent: true, asked: 1},
	"a reset: calm":           {do: func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeEnhanceYourCalm) }, sent: true, asked: 1, calm: true},
	"a reset: cancel":         {do: func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeCancel) }, sent: true, asked: 1},
	"a reset: protocol":       {do: func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeProtocol) }, sent: true, asked: 1, closes: true},
	"a refusal of another": {do: func(c *frameConn, s uint32) {
		c.WriteRSTStream(s+2, http2.ErrCodeRefusedStream)
		c.WriteRSTStream(s, http2.ErrCodeInternal)
	}, sent: true, asked: 1},
	"hints, and a refusal": {do: func(c *frameConn, s uint32) {
		c.headers(s, false, ":status", "103")
		c.WriteRSTStream(s, http2.ErrCodeRefusedStream)
	}, asked: 1 + maxRefused},
}

// TestNetHTTPSendsNothingAgain holds what Error.Sent stands on: a connection of net/http
// sends each request once, whatever the origin says.
func TestNetHTTPSendsNothingAgain(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			tr, f := framed(t, nil, func(fc *frameConn) {
				for s := fc.next(); s != 0; s = fc.next() {
					c.do(fc, s)
				}
			})
			tr.start.Do(tr.init)
			u, _ := http.NewRequest(http.MethodGet, f.url, nil)
			cc := clientConn(t, tr, u.URL.Host)
			defer cc.Close()
			for _, body := range []io.Reader{nil, strings.NewReader("data")} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, body)
				if err != nil {
					t.Fatal(err)
				}
				_, before := f.counts()
				resp, err := cc.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
					t.Error("an answer")
				}
				if conns, asked := f.counts(); conns != 1 || asked > before+1 || asked == before && !c.closes {
					t.Errorf("%d connections, %d requests more", conns, asked-before)
				}
			}
		})
	}
}

// A site that wants HTTP/1.1 for a request is asked again by that, and for further ones at once: also after its
// connections have ended, and whatever the method.
func TestASiteThatRequiresHTTP1IsAskedByThat(t *testing.T) {
	for name, refuse := range map[string]func(c *frameConn, stream uint32){
		"a stream": func(c *frameConn, s uint32) { c.WriteRSTStream(s, http2.ErrCodeHTTP11Required) },
		"GOAWAY":   func(c *frameConn, _ uint32) { c.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			tr, f := framedBeside(t, nil, func(c *frameConn) {
				for s := c.next(); s != 0; s = c.next() {
					refuse(c, s)
				}
			}, func(nc net.Conn) {
				for r := bufio.NewReader(nc); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(req.Body)
					fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
			})
			for range 2 {
				for _, method := range []string{"POST", "GET"} {
					req := newRequest(t, method, f.url, strings.NewReader("data"))
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("data")), nil }
					wantAnswer(t, tr, req, "data")
				}
				tr.CloseIdle()
			}
			if _, asked := f.counts(); asked != 1 {
				t.Errorf("%d requests by HTTP/2", asked)
			}
		})
	}
}

// clientConn is net/http's side of a connection of which nobody else knows.
func clientConn(t *testing.T, tr *Transport, address string) *http.ClientConn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	tc, err := handshakeTLS(t.Context(), nc, tr.both, "example.com", tr.HandshakeTimeout)
	if err != nil {
		t.Fatal(err)
	}
	offer, _ := tr.pool.take(hostKey{name: "example.com"}, false, true)
	t.Cleanup(func() { tr.pool.connectionGone(offer.home) })
	c, err := tr.newConn2(t.Context(), offer.home, tc, false)
	if err != nil {
		t.Fatal(err)
	}
	return c.multiplexed.client
}

func TestSentIsExactOverHTTP2(t *testing.T) {
	for name, c := range refusals {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel() // what is sent again is sent after a while
				tr, f := framed(t, nil, func(fc *frameConn) {
					for s := fc.next(); s != 0; s = fc.next() {
						c.do(fc, s)
					}
				})
				_, _, err := ask(t, tr, newRequest(t, method, f.url, strings.NewReader("data")))
				var e *Error
				if !errors.As(err, &e) || e.Sent != c.sent || e.Refused != c.calm {
					t.Fatalf("%+v, %v", e, unwrapped(err))
				}
				if _, asked := f.counts(); asked != c.asked {
					t.Errorf("%d requests, not %d", asked, c.asked)
				}
			})
		}
	}
}

// What cannot be written at all has not been sent, and would not be written better again.
func TestARequestThatIsTooLongForTheOriginIsNotSent(t *testing.T) {
	tr, f := framed(t, []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 1000}}, func(c *frameConn) {
		for s := c.next(); s != 0; s = c.next() {
			c.answer(s, "hello")
		}
	})
	wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello") // the settings have come
	req := newRequest(t, "GET", f.url, nil)
	req.Header.Set("Long", strings.Repeat("x", 2000))
	_, _, err := ask(t, tr, req)
	var e *Error
	if !errors.As(err, &e) || e.Sent || e.Stale {
		t.Fatal(unwrapped(err))
	}
	if conns, asked := f.counts(); conns != 1 || asked != 1 {
		t.Errorf("%d connections, %d requests", conns, asked)
	}
	wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello")
}

// An HTTP/2 connection that ended while nothing was asked on it costs no request.
func TestAnHTTP2ConnectionThatDiedUnusedIsNotAskedOn(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) { c.answer(c.next(), "hello") })
	for range 3 {
		wantAnswer(t, tr, newRequest(t, "POST", f.url, nil), "hello")
		soon(t, "the end of the connection", func() bool {
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(f.url, "https://"))
			n, _ := net.LookupPort("tcp", port)
			key := hostKey{name: "127.0.0.1", port: uint16(n), secure: true}
			tr.pool.mu.Lock()
			defer tr.pool.mu.Unlock()
			return tr.pool.hosts[key] == nil
		})
	}
	if conns, asked := f.counts(); conns != 3 || asked != 3 {
		t.Errorf("%d connections, %d requests", conns, asked)
	}
}
