package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// refuses has an origin answer so, and wants no part of that to be believed.
func refuses(t *testing.T, answer string) {
	t.Helper()
	s := playing(t, []step{{answer: answer}})
	tr := newTransport(t)
	code, body, err := ask(t, tr, newRequest(t, "GET", "http://"+s.addr+"/", nil))
	if err == nil {
		t.Fatalf("believed: %d %q", code, body)
	}
	wantKind(t, err, Protocol)
	var e *Error
	if !errors.As(err, &e) || !e.Sent {
		t.Fatalf("not an Error of a request that was sent: %v", unwrapped(err))
	}
	if strings.Contains(err.Error(), "malformed") {
		t.Fatalf("the error tells what is for logs: %v", err)
	}
	ask(t, tr, newRequest(t, "GET", "http://"+s.addr+"/", nil))
	if n := s.connections(); n != 2 {
		t.Fatalf("%d connections: the one with the bad answer was used again", n)
	}
}

func TestAnswersThatAreNotSafeToBelieve(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]string{
		"both framings":            ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"both the other way":       ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"lengths that differ":      ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"lengths in a list":        ok + "Content-Length: 5, 5\r\n\r\nhello",
		"a signed length":          ok + "Content-Length: +5\r\n\r\nhello",
		"a negative length":        ok + "Content-Length: -1\r\n\r\n",
		"an empty length":          ok + "Content-Length:\r\n\r\n",
		"a hexadecimal length":     ok + "Content-Length: 0x5\r\n\r\nhello",
		"a length beyond numbers":  ok + "Content-Length: 99999999999999999999\r\n\r\n",
		"obs-fold":                 ok + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
		"obs-fold with a tab":      ok + "X: a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
		"a space first":            ok + " X: a\r\nContent-Length: 0\r\n\r\n",
		"bare LF":                  ok + "X: a\nContent-Length: 0\r\n\r\n",
		"bare LF after the status": "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
		"bare LF at the end":       ok + "Content-Length: 0\r\n\n",
		"bare CR":                  ok + "X: a\rY: b\r\nContent-Length: 0\r\n\r\n",
		"NUL in a value":           ok + "X: a\x00b\r\nContent-Length: 0\r\n\r\n",
		"NUL in a name":            ok + "X\x00: a\r\nContent-Length: 0\r\n\r\n",
		"NUL in the reason":        "HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n",
		"a space before the colon": ok + "Content-Length : 5\r\n\r\nhello",
		"no colon":                 ok + "Content-Length\r\n\r\n",
		"no name":                  ok + ": a\r\nContent-Length: 0\r\n\r\n",
		"two codings":              ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"two coding lines":         ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an unknown coding":        ok + "Transfer-Encoding: identity\r\n\r\n",
		"an odd coding":            ok + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"chunked in HTTP/1.0":      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"framing in the trailer":   ok + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
		"a megabyte of header":     ok + "X: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 0\r\n\r\n",
		"a thousand lines":         ok + strings.Repeat("X: y\r\n", 1001) + "Content-Length: 0\r\n\r\n",
		"a status of two digits":   "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"a status of four digits":  "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"a status below 100":       "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.2":                 "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/0.9":                 "<html>hello</html>",
		"a line before":            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"1xx without end":          strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 30) + ok + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, answer)
		})
	}
}

func TestAHeaderWithoutEndIsCutOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 4096))
		io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := []byte("X-Endless: header\r\n"); err == nil; {
			_, err = c.Write(line)
		}
	}()
	_, _, err = ask(t, newTransport(t), newRequest(t, "GET", "http://"+l.Addr().String()+"/", nil))
	wantKind(t, err, Protocol)
	<-done // the connection was closed
	l.Close()
}

func TestAChunkedBodyThatBreaksItsFramingIsAnError(t *testing.T) {
	for name, chunks := range map[string]string{
		"no size":             "\r\nhello\r\n0\r\n\r\n",
		"a negative size":     "-5\r\nhello\r\n0\r\n\r\n",
		"a size of 17 digits": "00000000000000005\r\nhello\r\n0\r\n\r\n",
		"a size too large":    "8000000000000000\r\nhello",
		"0x":                  "0x5\r\nhello\r\n0\r\n\r\n",
		"bare LF":             "5\nhello\r\n0\r\n\r\n",
		"bare LF after data":  "5\r\nhello\n0\r\n\r\n",
		"NUL in an extension": "5;a=\x00\r\nhello\r\n0\r\n\r\n",
		"CR in an extension":  "5;a=\rb\r\nhello\r\n0\r\n\r\n",
		"an endless line":     "5;" + strings.Repeat("x", 10_000) + "\r\nhello\r\n0\r\n\r\n",
		"mostly framing":      strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\ny\r\n", 1000) + "0\r\n\r\n",
		"a trailer folded":    "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n",
		"a trailer with NUL":  "5\r\nhello\r\n0\r\nX: \x00\r\n\r\n",
		"a trailer bare LF":   "5\r\nhello\r\n0\r\nX: a\n\r\n",
		"endless trailers":    "5\r\nhello\r\n0\r\n" + strings.Repeat("X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 900) + strings.Repeat("Y", 300_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks}})
			_, _, err := ask(t, newTransport(t), newRequest(t, "GET", "http://"+s.addr+"/", nil))
			wantKind(t, err, Protocol)
		})
	}
}

func TestTrailersThatFrameOrRouteAreDropped(t *testing.T) {
	s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\nHost: evil\r\nX: y\r\n\r\n"}})
	resp, err := newTransport(t).RoundTrip(newRequest(t, "GET", "http://"+s.addr+"/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.ReadAll(resp.Body)
	if len(resp.Trailer) != 1 || resp.Trailer.Get("X") != "y" {
		t.Fatalf("trailer %v", resp.Trailer)
	}
}

func TestASwitchThatNobodyAskedForIsRefused(t *testing.T) {
	refuses(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
}

func TestBytesWhereNoBodyMayBeAreNotTheNextAnswer(t *testing.T) {
	for _, c := range []struct{ method, head string }{
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"GET", "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	} {
		s := playing(t, []step{{answer: c.head + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"}}, []step{{answer: ok5}})
		tr := newTransport(t)
		if _, body, err := ask(t, tr, newRequest(t, c.method, "http://"+s.addr+"/", nil)); err != nil || body != "" {
			t.Fatalf("%s: %q, %v", c.method, body, err)
		}
		if _, body, err := ask(t, tr, newRequest(t, "GET", "http://"+s.addr+"/", nil)); err != nil || body != "hello" {
			t.Fatalf("%s, then: %q, %v", c.method, body, err)
		}
	}
}

func TestARequestThatWouldSayMoreThanOneThingIsNotSent(t *testing.T) {
	s := playing(t, []step{{answer: ok5}})
	for name, edit := range map[string]func(*http.Request){
		"CR LF in a value":    func(r *http.Request) { r.Header["X"] = []string{"a\r\nEvil: b"} },
		"CR LF in a name":     func(r *http.Request) { r.Header["X\r\nEvil"] = []string{"a"} },
		"a space in the name": func(r *http.Request) { r.Header["X y"] = []string{"a"} },
		"CR LF in the query":  func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nEvil: b" },
		"CR LF in the host":   func(r *http.Request) { r.Host = "a\r\nEvil: b" },
		"a space in Method":   func(r *http.Request) { r.Method = "GET /x" },
		"CONNECT":             func(r *http.Request) { r.Method = "CONNECT" },
		"opaque with a space": func(r *http.Request) { r.URL.Opaque = "/ HTTP/1.1" },
		"another scheme":      func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no host":             func(r *http.Request) { r.URL.Host = "" },
		"no URL":              func(r *http.Request) { r.URL = nil },
		"a port of zero":      func(r *http.Request) { r.URL.Host = "a.test:0" },
	} {
		req := newRequest(t, "POST", "http://"+s.addr+"/", nil)
		body := &closeCounter{Reader: strings.NewReader("x")}
		req.Body, req.ContentLength = body, 1
		edit(req)
		_, err := newTransport(t).RoundTrip(req)
		if KindOf(err) != invalid {
			t.Errorf("%s: %v", name, err)
		}
		if body.closed.Load() == 0 {
			t.Errorf("%s: the body was not closed", name)
		}
	}
	if len(s.requests()) != 0 {
		t.Fatalf("sent: %q", s.requests())
	}
}

func TestAFailureToDialIsToldByItsKind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for name, c := range map[string]struct {
		dial error
		want Kind
	}{
		"as the dialer says": {&Error{Kind: Refused}, Refused},
		"anything else":      {errors.New("no idea"), Unknown},
		"descriptors":        {&Error{Kind: Files}, Files},
	} {
		tr := newTransport(t)
		tr.Dial = func(context.Context, string, uint16) (net.Conn, error) { return nil, c.dial }
		body := &closeCounter{Reader: strings.NewReader("data")}
		req := newRequest(t, "POST", "http://"+nobody+"/", body)
		_, err := tr.RoundTrip(req)
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.want || e.Sent {
			t.Errorf("%s: %v", name, unwrapped(err))
		}
		if body.closed.Load() == 0 {
			t.Errorf("%s: the body was not closed", name)
		}
	}
}
