package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// site is an origin in memory for one connection, in fake time.
type site struct {
	tr   *Transport
	gone chan struct{} // the origin's goroutine has ended
	up   net.Conn      // the origin's end, once dialed
}

// sited makes a Transport that dials serve. It gives up a site that does not
// answer for 10 s, or stalls for as long.
func sited(t *testing.T, p *testBudget, serve func(net.Conn)) *site {
	t.Helper()
	s := &site{gone: make(chan struct{})}
	s.tr = &Transport{
		AnswerTimeout: 10 * time.Second, StallTimeout: 10 * time.Second, HandshakeTimeout: 10 * time.Second,
		Dial: func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
			here, there := net.Pipe()
			s.up = there
			go func() {
				defer close(s.gone)
				defer there.Close()
				serve(there)
			}()
			return newMeteredConn(here, meterFrom(ctx)), nil
		},
	}
	return s
}

func (s *site) end() {
	s.up.Close()
	s.tr.Close()
	<-s.gone
}

func asking(p *testBudget, url string) *http.Request {
	ctx := context.Background()
	if p != nil {
		ctx = withMeter(ctx, p)
	}
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	return req
}

// dripping says a head and then "hello", one letter every 9 seconds.
func dripping(rest bool) func(net.Conn) {
	return func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		<-time.After(9 * time.Second)
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
		for _, c := range "hello" {
			<-time.After(9 * time.Second)
			if _, err := nc.Write([]byte{byte(c)}); err != nil {
				return
			}
			if !rest {
				nc.Read(make([]byte, 1))
				return
			}
		}
	}
}

func TestAPauseIsNoStallAndAStallStaysOne(t *testing.T) {
	for name, rest := range map[string]bool{"it goes on": true, "it stalls": false} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestBudget(0)
			s := sited(t, p, dripping(rest))
			// A few bytes a minute: every pause is longer than a stall.
			tick := time.NewTicker(time.Minute)
			defer tick.Stop()
			over := make(chan struct{})
			go func() {
				for {
					select {
					case <-tick.C:
						p.grant(20)
					case <-over:
						return
					}
				}
			}()
			resp, err := s.tr.RoundTrip(asking(p, "http://a.test/"))
			if err != nil {
				t.Fatal(name, unwrapped(err))
			}
			body, err := io.ReadAll(resp.Body)
			if rest && (err != nil || string(body) != "hello") {
				t.Errorf("%s: %q, %v", name, body, unwrapped(err))
			}
			if !rest && (KindOf(err) != Stalled || string(body) != "h") {
				t.Errorf("%s: %q, %v", name, body, unwrapped(err))
			}
			close(over)
			s.end()
			if granted, _, _ := p.look(); granted != p.in.Load()+p.out.Load() {
				t.Errorf("%s: %d granted, %d and %d passed", name, granted, p.in.Load(), p.out.Load())
			}
		})
	}
}

// eager takes what is sent to it at once, as a socket does.
type eager struct {
	net.Conn
	r *io.PipeReader
}

func hearing(nc net.Conn) eager {
	e := eager{Conn: nc}
	all := make(chan []byte, 1000)
	go func() {
		defer close(all)
		for {
			piece := make([]byte, 4<<10)
			n, err := nc.Read(piece)
			all <- piece[:n]
			if err != nil {
				return
			}
		}
	}()
	var w *io.PipeWriter
	e.r, w = io.Pipe()
	go func() {
		for piece := range all {
			w.Write(piece)
		}
		w.Close()
	}()
	return e
}

func (e eager) Read(p []byte) (int, error) { return e.r.Read(p) }

func (e eager) Close() error {
	e.r.Close()
	return e.Conn.Close()
}

// byHand serves HTTP/2 by hand: it takes one request, and the rest is do's.
func byHand(t *testing.T, server *tls.Config, do func(c *frameConn, stream uint32)) func(net.Conn) {
	config := server.Clone()
	config.NextProtos = []string{"h2"}
	return func(nc net.Conn) {
		tc := tls.Server(hearing(nc), config)
		defer tc.Close()
		c := &frameConn{Framer: http2.NewFramer(tc, tc), t: t, nc: tc, f: &frames{}}
		c.henc = hpack.NewEncoder(&c.buf)
		c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if _, err := io.ReadFull(tc, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		c.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10})
		do(c, c.next())
	}
}

// shut holds the other end still for d. A read that has its credit already is
// given something first.
func shut(c *frameConn, p *testBudget, d time.Duration) {
	p.set(func() { p.shut = true })
	over := make(chan struct{})
	in(d, func() {
		p.set(func() { p.shut = false })
		close(over)
	})
	c.WriteWindowUpdate(0, 1)
	<-over
}

func TestAnHTTP2AnswerMayTakeAsLongAsItMayNotCountingPauses(t *testing.T) {
	server, client := certified(t)
	for name, answers := range map[string]bool{"it answers": true, "it does not": false} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestBudget(1 << 20)
			s := sited(t, p, byHand(t, server, func(c *frameConn, stream uint32) {
				shut(c, p, time.Hour)
				if answers {
					<-time.After(9 * time.Second)
					c.headers(stream, false, ":status", "200")
					<-time.After(9 * time.Second)
					c.WriteData(stream, true, []byte("hello"))
				}
				c.drain()
			}))
			s.tr.TLS = client
			began := time.Now()
			resp, err := s.tr.RoundTrip(asking(p, "https://example.com/"))
			switch {
			case answers && err != nil:
				t.Errorf("%s: %v", name, unwrapped(err))
			case answers:
				if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != nil {
					t.Errorf("%s: %q, %v", name, body, unwrapped(err))
				}
				resp.Body.Close()
			case KindOf(err) != AnswerTimeout || time.Since(began) < time.Hour || time.Since(began) > time.Hour+11*time.Second:
				t.Errorf("%s: %v after %v", name, unwrapped(err), time.Since(began))
			}
			s.end()
		})
	}
}

func TestASilentHTTP2OriginIsPingedAndAPauseIsNoSilence(t *testing.T) {
	server, client := certified(t)
	for name, dead := range map[string]bool{"it is dead": true, "it is held still": false} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestBudget(1 << 20)
			p.free = dead
			s := sited(t, p, byHand(t, server, func(c *frameConn, stream uint32) {
				c.headers(stream, false, ":status", "200")
				if dead {
					<-time.After(10 * time.Minute)
					return
				}
				shut(c, p, time.Hour)
				c.WriteData(stream, true, []byte(strings.Repeat("x", 100)))
				c.drain()
			}))
			s.tr.TLS = client
			s.tr.StallTimeout, s.tr.AnswerTimeout = 0, 0
			resp, err := s.tr.RoundTrip(asking(p, "https://example.com/"))
			if err != nil {
				t.Fatal(name, unwrapped(err))
			}
			began := time.Now()
			body, err := io.ReadAll(resp.Body)
			took := time.Since(began)
			resp.Body.Close()
			if dead && (KindOf(err) != Closed || took < pingAfter || took > pingAfter+pingWait+time.Second) {
				t.Errorf("%s: %v after %v", name, unwrapped(err), took)
			}
			if !dead && (err != nil || len(body) != 100) {
				t.Errorf("%s: %q, %v after %v", name, body, unwrapped(err), took)
			}
			s.end()
		})
	}
}
