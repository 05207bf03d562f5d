package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// bare is a connection that offers no descriptor to look at.
type bare struct{ net.Conn }

// blind has a Transport not see that an idle connection has ended before it
// writes the next request.
func blind(tr *Transport) {
	dial := tr.Dial
	tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		nc, err := dial(ctx, host, port)
		return bare{nc}, err
	}
}

// wantLost is for a request that has left and whose connection then ended.
func wantLost(t *testing.T, err error, stale bool) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != Closed || !e.Sent || e.Stale != stale {
		t.Fatalf("%+v: %s", e, unwrapped(err))
	}
}

// repeated are requests that http.Transport would send twice, and others.
func repeated(t *testing.T, url string) []*http.Request {
	keyed := newRequest(t, "POST", url, strings.NewReader("data"))
	keyed.Header.Set("Idempotency-Key", "7")
	return []*http.Request{
		newRequest(t, "GET", url, nil),
		newRequest(t, "PUT", url, strings.NewReader("data")),
		newRequest(t, "PUT", url, strings.NewReader(strings.Repeat("data", 10_000))),
		newRequest(t, "PUT", url, struct{ io.Reader }{strings.NewReader("data")}),
		keyed,
		newRequest(t, "POST", url, strings.NewReader("data")),
		newRequest(t, "POST", url, nil),
	}
}

func TestAStaleConnectionIsFoundOutBeforeItIsUsed(t *testing.T) {
	s := playing(t, []step{{answer: ok5, close: true}}, []step{{answer: ok5}})
	tr := newTransport(t)
	ask(t, tr, newRequest(t, "GET", "http://"+s.addr+"/", nil))
	<-s.ended
	req := newRequest(t, "POST", "http://"+s.addr+"/", struct{ io.Reader }{strings.NewReader("once")})
	if _, body, err := ask(t, tr, req); err != nil || body != "hello" {
		t.Fatalf("%q, %v", body, unwrapped(err))
	}
	if n := len(s.requests()); n != 2 {
		t.Fatalf("%d requests came", n)
	}
}

func TestWhatMayHaveArrivedIsSentOnce(t *testing.T) {
	server, client := certified(t)
	for name, last := range map[string]step{"closed": {close: true}, "reset": {reset: true}} {
		for i := range repeated(t, "http://a.test/") {
			for _, secure := range []bool{false, true} {
				// The origin takes the second request, and ends without a word.
				lists := [][]step{{{answer: ok5}, last}, {{answer: ok5}}}
				scheme, config := "http", server
				if secure {
					scheme = "https"
				} else {
					config = nil
				}
				s := playingOver(t, config, lists...)
				tr := newTransport(t)
				tr.TLS = client
				url := scheme + "://" + s.addr + "/"
				wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
				req := repeated(t, url)[i]
				_, _, err := ask(t, tr, req)
				wantLost(t, err, true)
				if n := len(s.requests()); n != 2 || s.connections() != 1 {
					t.Fatalf("%s %s %s: %d requests came on %d connections", name, scheme, req.Method, n, s.connections())
				}
				wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello") // the caller may go on
			}
		}
	}
}

func TestAConnectionThatEndedUnseenIsAnErrorOnce(t *testing.T) {
	for i := range repeated(t, "http://a.test/") {
		s := playing(t, []step{{answer: ok5, close: true}}, []step{{answer: ok5}})
		tr := newTransport(t)
		blind(tr)
		url := "http://" + s.addr + "/"
		wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
		<-s.ended
		_, _, err := ask(t, tr, repeated(t, url)[i])
		wantLost(t, err, true)
		if n := len(s.requests()); n != 1 || s.connections() != 1 {
			t.Fatalf("%d requests came on %d connections", n, s.connections())
		}
	}
}

func TestOneStaleConnectionIsEnoughToMeet(t *testing.T) {
	s := playing(t, []step{{answer: ok5, close: true}}, []step{{answer: ok5, close: true}}, []step{{answer: ok5, close: true}}, []step{{answer: ok5}})
	tr := newTransport(t)
	blind(tr)
	url := "http://" + s.addr + "/"
	together(t, tr, url, url, url)
	for range 3 {
		<-s.ended
	}
	if n := idleOf(tr); n != 3 {
		t.Fatalf("%d connections idle", n)
	}
	_, _, err := ask(t, tr, newRequest(t, "GET", url, nil))
	wantLost(t, err, true)
	if n := idleOf(tr); n != 0 {
		t.Fatalf("%d connections still idle", n)
	}
	wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
}

func TestAConnectionThatWasUsedSinceIsNotTakenForStale(t *testing.T) {
	answered, idle := make(chan struct{}), make(chan struct{})
	s := playing(t, []step{{answer: ok5}, {close: true}}, []step{{answer: ok5}, {answer: ok5}})
	tr := newTransport(t)
	url := "http://" + s.addr + "/"
	wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello") // rests on the first
	// While the first is in use again, with a request whose body waits, the
	// second is dialed, used and put to rest.
	body := &gated{Reader: strings.NewReader("data"), begun: answered, gate: idle}
	failed := make(chan error)
	req := newRequest(t, "POST", url, body)
	go func() {
		_, err := tr.RoundTrip(req)
		failed <- err
	}()
	<-answered
	wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
	close(idle)
	wantLost(t, <-failed, true)
	wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
	if n := s.connections(); n != 2 {
		t.Fatalf("%d connections", n)
	}
}

// gated is a body whose first byte waits.
type gated struct {
	io.Reader
	once        sync.Once
	begun, gate chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	g.once.Do(func() {
		close(g.begun)
		<-g.gate
	})
	return g.Reader.Read(p)
}

// clogged is a connection whose later writes fail without a byte.
type clogged struct {
	net.Conn
	writes atomic.Int32
}

func (c *clogged) Write(p []byte) (int, error) {
	if c.writes.Add(1) > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

func TestWhatHasNotLeftIsSentOnANewConnection(t *testing.T) {
	for i := range repeated(t, "http://a.test/") {
		s := playing(t, []step{{answer: ok5}, {answer: ok5}})
		tr := newTransport(t)
		first := true
		tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
			nc, err := dialPlainly(ctx, host, port)
			if first {
				first = false
				nc = &clogged{Conn: nc}
			}
			return nc, err
		}
		url := "http://" + s.addr + "/"
		wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
		wantAnswer(t, tr, repeated(t, url)[i], "hello")
		if n := len(s.requests()); n != 2 || s.connections() != 2 {
			t.Fatalf("%d requests came on %d connections", n, s.connections())
		}
	}
}

func TestOnlyASilentEndOfAUsedConnectionIsStale(t *testing.T) {
	for name, c := range map[string]struct {
		last step
		kind Kind
	}{
		"part of an answer": {step{answer: "HTTP/1.1 2", close: true}, Closed},
		"an early answer":   {step{answer: "HTTP/1.1 103 Early Hints\r\n\r\n", close: true}, Closed},
		"no HTTP":           {step{answer: "hello\r\n\r\n", close: true}, Protocol},
		"no answer":         {step{}, AnswerTimeout},
	} {
		s := playing(t, []step{{answer: ok5}, c.last}, []step{{answer: ok5}})
		tr := newTransport(t)
		url := "http://" + s.addr + "/"
		wantAnswer(t, tr, newRequest(t, "GET", url, nil), "hello")
		if c.kind == AnswerTimeout { // the others have the time that they need
			tr.AnswerTimeout = 200 * time.Millisecond
		}
		_, _, err := ask(t, tr, newRequest(t, "GET", url, nil))
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || !e.Sent || e.Stale {
			t.Errorf("%s: %+v: %s", name, e, unwrapped(err))
		}
		if n := len(s.requests()); n != 2 || s.connections() != 1 {
			t.Errorf("%s: %d requests came on %d connections", name, n, s.connections())
		}
	}
}

func TestWhatMayHaveArrivedOverHTTP2IsSentOnce(t *testing.T) {
	for name, end := range map[string]func(*frameConn, uint32){
		"closed":   func(*frameConn, uint32) {},
		"told off": func(c *frameConn, s uint32) { c.WriteGoAway(s, http2.ErrCodeNo, nil) },
	} {
		for i := range repeated(t, "https://a.test/") {
			tr, f := framed(t, nil, func(c *frameConn) {
				c.answer(c.next(), "hello")
				if c.n == 0 {
					end(c, c.next()) // and closes
					return
				}
				c.drain()
			})
			wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello")
			_, _, err := ask(t, tr, repeated(t, f.url)[i])
			wantLost(t, err, true)
			if conns, asked := f.counts(); conns != 1 || asked != 2 {
				t.Fatalf("%s: %d requests came on %d connections", name, asked, conns)
			}
			wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello") // the caller may go on
		}
	}
}

func TestOnlyTheEndOfAUsedHTTP2ConnectionIsStale(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		s := c.next()
		if c.n == 0 {
			return // closes under its first request
		}
		c.answer(s, "hello")
		c.WriteRSTStream(c.next(), http2.ErrCodeInternal)
		c.drain()
	})
	_, _, err := ask(t, tr, newRequest(t, "GET", f.url, nil))
	wantLost(t, err, false)
	wantAnswer(t, tr, newRequest(t, "GET", f.url, nil), "hello")
	_, _, err = ask(t, tr, newRequest(t, "GET", f.url, nil))
	wantLost(t, err, false)
}
