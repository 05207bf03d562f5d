package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// silence is the longest silence that a request allows.
type silence time.Duration

func (s silence) Sending() {}

func (s silence) Stall(time.Duration) time.Duration { return time.Duration(s) }

func TestARequestSaysHowLongItsAnswerMayBeSilent(t *testing.T) {
	server, client := certified(t)
	const pause = 12 * time.Second // longer than the time-out of the transport
	plain := func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\na")
		<-time.After(pause)
		io.WriteString(nc, "b")
	}
	multiplexed := byHand(t, server, func(c *frameConn, stream uint32) {
		c.headers(stream, false, ":status", "200")
		c.WriteData(stream, false, []byte("a"))
		<-time.After(pause)
		c.WriteData(stream, true, []byte("b"))
		c.drain()
	})
	for _, u := range []string{"http://a.test/", "https://example.com/"} {
		for name, one := range map[string]struct {
			allows any
			cut    bool
		}{
			"nothing is said": {nil, true},
			"less":            {silence(time.Second), true},
			"more":            {silence(time.Minute), false},
			"any":             {silence(0), false},
		} {
			synctest.Test(t, func(t *testing.T) {
				serve := plain
				if u[:5] == "https" {
					serve = multiplexed
				}
				s := sited(t, nil, serve)
				s.tr.TLS = client
				r := asking(nil, u)
				resp, err := s.tr.RoundTrip(r.WithContext(context.WithValue(r.Context(), SenderKey{}, one.allows)))
				if err != nil {
					t.Fatal(u, name, unwrapped(err))
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch {
				case one.cut && (KindOf(err) != Stalled || string(body) != "a"):
					t.Errorf("%s, %s: %q, %v", u, name, body, unwrapped(err))
				case !one.cut && (err != nil || string(body) != "ab"):
					t.Errorf("%s, %s: %q, %v", u, name, body, unwrapped(err))
				}
				s.end()
			})
		}
	}
}

// TestASilentHTTP2ConnectionIsPinged holds that an origin that no longer answers anything is
// left although its answer may be silent for any time, and that one that answers pings is not.
func TestASilentHTTP2ConnectionIsPinged(t *testing.T) {
	server, client := certified(t)
	for name, alive := range map[string]bool{"alive": true, "gone": false} {
		synctest.Test(t, func(t *testing.T) {
			s := sited(t, nil, byHand(t, server, func(c *frameConn, stream uint32) {
				c.headers(stream, false, ":status", "200")
				c.WriteData(stream, false, []byte("a"))
				if !alive {
					io.Copy(io.Discard, c.nc)
					return
				}
				for pings := 0; pings < 20; {
					f, err := c.ReadFrame()
					if err != nil {
						return
					}
					if ping, ok := f.(*http2.PingFrame); ok {
						c.WritePing(true, ping.Data)
						pings++
					}
				}
				c.WriteData(stream, true, []byte("b"))
				c.drain()
			}))
			s.tr.TLS = client
			r := asking(nil, "https://example.com/")
			resp, err := s.tr.RoundTrip(r.WithContext(context.WithValue(r.Context(), SenderKey{}, silence(0))))
			if err != nil {
				t.Fatal(name, unwrapped(err))
			}
			began := time.Now()
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch took := time.Since(began); {
			case alive && (err != nil || string(body) != "ab"):
				t.Errorf("alive: %q, %v", body, unwrapped(err))
			case !alive && (KindOf(err) != Closed || took > pingAfter+pingWait+time.Second):
				t.Errorf("gone: %v after %v", unwrapped(err), took)
			}
			s.end()
		})
	}
}
