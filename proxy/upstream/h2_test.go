package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestManyRequestsShareOneHTTP2Connection(t *testing.T) {
	var conns atomic.Int32
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
	}), nil)
	dial := tr.Dial
	tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		conns.Add(1)
		return dial(ctx, host, port)
	}
	atOnce(t, 40, tr, "GET", s.URL, "HTTP/2.0")
	if n := conns.Load(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestRequestsToAnOriginOfHTTP1OverTLSDoNotShare(t *testing.T) {
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
	}), func(s *httptest.Server) { s.EnableHTTP2 = false })
	atOnce(t, 20, tr, "GET", s.URL, "HTTP/1.1")
	for range 5 {
		wantAnswer(t, tr, newRequest(t, "GET", s.URL, nil), "HTTP/1.1")
	}
}

// With the GODEBUG of net/http that turns HTTP/2 off, requests go by HTTP/1.1: net/http has no HTTP/2 then. It may be meant for
// a command under abide run.
func TestGODEBUGTurnsHTTP2Off(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=0")
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
	}), nil)
	wantAnswer(t, tr, newRequest(t, "GET", s.URL, nil), "HTTP/1.1")
}

func TestHTTP2CarriesWhatHTTP1Does(t *testing.T) {
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Add("X-A", "1")
		w.Header().Add("X-A", "2")
		w.Header().Set("Agent", strings.Join(r.Header["User-Agent"], "|"))
		w.Header().Set("Encoding", strings.Join(r.Header["Accept-Encoding"], "|"))
		w.Header().Set("Host-Seen", r.Host)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		io.Copy(w, r.Body)
		w.Header().Set("X-Sum", strings.Join(r.Trailer["X-Req-Sum"], "|"))
	}), nil)
	req := newRequest(t, "POST", s.URL+"/a?b", io.MultiReader(strings.NewReader("some "), strings.NewReader("data")))
	req.Host = "other.test"
	req.Header.Del("User-Agent")
	req.Header.Set("Connection", "close")
	req.Header.Set("Keep-Alive", "5")
	req.Trailer = http.Header{"X-Req-Sum": {"7"}}
	var early []int
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			early = append(early, code)
			return nil
		},
	}))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || string(data) != "some data" || resp.StatusCode != 418 || resp.ProtoMajor != 2 || resp.Request != req {
		t.Fatalf("%s %q %v", resp.Status, data, err)
	}
	if a := resp.Header["X-A"]; len(a) != 2 || resp.Header.Get("Host-Seen") != "other.test" {
		t.Fatalf("%v", resp.Header)
	}
	if resp.Header.Get("Agent") != "" || resp.Header.Get("Encoding") != "" {
		t.Fatalf("fields were added: %v", resp.Header)
	}
	if resp.Trailer.Get("X-Sum") != "7" {
		t.Fatalf("trailer %v", resp.Trailer)
	}
	if len(early) != 1 || early[0] != 103 {
		t.Fatalf("1xx %v", early)
	}
	if resp.TLS == nil || resp.TLS.NegotiatedProtocol != "h2" {
		t.Fatal("no TLS state")
	}
	if req.Header.Get("Connection") != "close" {
		t.Fatal("the caller's request was changed")
	}
}

func TestAnUpgradeOverTLSGoesOverHTTP1(t *testing.T) {
	tr, s := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, r.Proto)
			return
		}
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(nc, rw)
	}), nil)
	wantAnswer(t, tr, newRequest(t, "GET", s.URL, nil), "HTTP/2.0")
	req := newRequest(t, "GET", s.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	defer resp.Body.Close()
	nc := resp.Body.(net.Conn)
	io.WriteString(nc, "ping")
	nc.(interface{ CloseWrite() error }).CloseWrite()
	if data, err := io.ReadAll(nc); err != nil || string(data) != "ping" {
		t.Fatalf("%q, %v", data, err)
	}
}

func TestAnHTTP2AnswerWithoutALengthHasNone(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		for s := c.next(); s != 0; s = c.next() {
			c.answer(s, "hello")
		}
	})
	resp, err := tr.RoundTrip(newRequest(t, "GET", f.url, nil))
	if err != nil {
		t.Fatal(unwrapped(err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" || string(data) != "hello" || err != nil {
		t.Fatalf("%d %v %q %v", resp.ContentLength, resp.Header, data, err)
	}
}

func TestHTTP2AnswersThatHaveNoBody(t *testing.T) {
	for _, c := range []struct {
		method string
		fields []string
	}{
		{"HEAD", []string{":status", "200", "content-length", "99"}},
		{"GET", []string{":status", "304", "content-length", "99"}},
		{"GET", []string{":status", "204"}},
		{"GET", []string{":status", "200", "content-length", "0"}},
		{"GET", []string{":status", "200"}},
	} {
		tr, f := framed(t, nil, func(fc *frameConn) {
			for s := fc.next(); s != 0; s = fc.next() {
				fc.headers(s, true, c.fields...)
			}
		})
		for range 3 {
			wantAnswer(t, tr, newRequest(t, c.method, f.url, nil), "")
		}
		if conns, asked := f.counts(); conns != 1 || asked != 3 {
			t.Fatalf("%d connections, %d requests", conns, asked)
		}
	}
}

func TestAnotherConnectionIsOpenedWhereOneTakesNoMoreStreams(t *testing.T) {
	const most, requests = 3, 9
	var asked sync.WaitGroup
	asked.Add(requests)
	all := make(chan struct{}) // nothing is answered before all of them are here
	go func() {
		asked.Wait()
		close(all)
	}()
	tr, f := framed(t, []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: most}}, func(c *frameConn) {
		var open []uint32
		var answers sync.WaitGroup
		for s := c.next(); s != 0; s = c.next() {
			if open = append(open, s); len(open) > most {
				t.Errorf("%d streams at once", len(open))
			}
			asked.Done()
			if len(open) == 1 {
				answers.Go(func() {
					select {
					case <-all:
					case <-t.Context().Done():
						return
					}
					for _, s := range open {
						c.answer(s, "hello")
					}
				})
			}
		}
		answers.Wait()
	})
	atOnce(t, requests, tr, "GET", f.url, "hello")
	if conns, asked := f.counts(); conns < 3 || conns > 4 || asked != requests {
		t.Fatalf("%d connections, %d requests", conns, asked)
	}
}

func TestARequestThatAGoawayLeftOutIsSentAgain(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		tr, f := framed(t, nil, func(c *frameConn) {
			s := c.next()
			if c.n > 0 {
				c.answer(s, "hello")
				c.drain()
				return
			}
			c.answer(s, "first")
			if c.next() != 0 {
				c.WriteGoAway(s, http2.ErrCodeNo, nil)
				c.drain()
			}
		})
		wantAnswer(t, tr, newRequest(t, method, f.url, nil), "first")
		wantAnswer(t, tr, newRequest(t, method, f.url, strings.NewReader("data")), "hello")
		if conns, _ := f.counts(); conns != 2 {
			t.Fatalf("%d connections", conns)
		}
	}
}

func TestARequestThatAGoawayMayHaveMetIsSentOnce(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		s := c.next()
		c.WriteGoAway(s, http2.ErrCodeNo, nil)
	})
	_, _, err := ask(t, tr, newRequest(t, "POST", f.url, nil))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Closed || !e.Sent {
		t.Fatal(unwrapped(err))
	}
	if _, asked := f.counts(); asked != 1 {
		t.Fatalf("%d requests", asked)
	}
}

func TestARefusedStreamIsSentAgainAFewTimes(t *testing.T) {
	refusals := 2
	tr, f := framed(t, nil, func(c *frameConn) {
		for s := c.next(); s != 0; s = c.next() {
			if _, asked := c.f.counts(); asked <= refusals {
				c.WriteRSTStream(s, http2.ErrCodeRefusedStream)
				continue
			}
			c.answer(s, "hello")
		}
	})
	wantAnswer(t, tr, newRequest(t, "POST", f.url, strings.NewReader("data")), "hello")
	if _, asked := f.counts(); asked != 3 {
		t.Fatalf("%d requests", asked)
	}
	f.mu.Lock()
	f.asked, refusals = 0, 1000
	f.mu.Unlock()
	_, _, err := ask(t, tr, newRequest(t, "POST", f.url, strings.NewReader("data")))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Closed || e.Sent {
		t.Fatal(unwrapped(err))
	}
	if _, asked := f.counts(); asked != 1+maxRefused {
		t.Fatalf("%d requests", asked)
	}
}

func TestAStreamThatIsResetIsNotSentAgain(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		for s := c.next(); s != 0; s = c.next() {
			c.WriteRSTStream(s, http2.ErrCodeInternal)
		}
	})
	_, _, err := ask(t, tr, newRequest(t, "GET", f.url, nil))
	wantKind(t, err, Closed)
	if _, asked := f.counts(); asked != 1 {
		t.Fatalf("%d requests", asked)
	}
}

func TestHTTP2ThatIsNotRightIsAnErrorAndNoSpin(t *testing.T) {
	for name, c := range map[string]struct {
		settings []http2.Setting
		serve    func(*frameConn, uint32)
		kinds    []Kind
	}{
		"a frame size of zero": {settings: []http2.Setting{{ID: http2.SettingMaxFrameSize, Val: 0}}, kinds: []Kind{Protocol, Closed}},
		"a window too large":   {settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 31}}, kinds: []Kind{Protocol, Closed}},
		"endless continuation": {serve: func(fc *frameConn, s uint32) {
			fc.WriteHeaders(http2.HeadersFrameParam{StreamID: s})
			block := bytes.Repeat([]byte("\x00\x01x\x01y"), 3000)
			for fc.WriteContinuation(s, false, block) == nil {
			}
		}, kinds: []Kind{Protocol, Closed}},
		"headers without end": {serve: func(fc *frameConn, s uint32) {
			fc.headers(s, false, ":status", "200", "x", strings.Repeat("x", 10_000))
			for fc.WriteContinuation(s, false, []byte("x")) == nil {
			}
		}, kinds: []Kind{Protocol, Closed}},
		"no status":          {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, "x", "y") }, kinds: []Kind{Protocol}},
		"a status of words":  {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "ok") }, kinds: []Kind{Protocol}},
		"a status too short": {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "20") }, kinds: []Kind{Protocol}},
		"a status too long":  {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "2000") }, kinds: []Kind{Protocol}},
		"a negative status":  {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "-200") }, kinds: []Kind{Protocol}},
		"NUL in a value":     {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "200", "x", "a\x00b") }, kinds: []Kind{Protocol}},
		"CR LF in a value":   {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "200", "x", "a\r\nb: c") }, kinds: []Kind{Protocol}},
		"an upper-case name": {serve: func(fc *frameConn, s uint32) { fc.headers(s, true, ":status", "200", "X", "y") }, kinds: []Kind{Protocol}},
		"data first":         {serve: func(fc *frameConn, s uint32) { fc.WriteData(s, true, []byte("x")) }, kinds: []Kind{Protocol, Closed}},
		"a push": {serve: func(fc *frameConn, s uint32) {
			fc.WriteRawFrame(http2.FramePushPromise, http2.FlagHeadersEndHeaders, s, []byte{0, 0, 0, 2})
		}, kinds: []Kind{Protocol, Closed}},
		"not HTTP/2": {serve: func(fc *frameConn, _ uint32) {
			io.WriteString(fc.nc, strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 9))
		}, kinds: []Kind{Protocol, Closed}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, f := framed(t, c.settings, func(fc *frameConn) {
				for s := fc.next(); s != 0; s = fc.next() {
					if c.serve != nil {
						c.serve(fc, s)
					}
				}
			})
			code, _, err := ask(t, tr, newRequest(t, "GET", f.url, nil))
			if err == nil {
				t.Fatalf("believed: %d", code)
			}
			ok := false
			for _, k := range c.kinds {
				ok = ok || KindOf(err) == k
			}
			if !ok {
				t.Fatalf("%v: %v", KindOf(err), unwrapped(err))
			}
			if conns, asked := f.counts(); conns > 2 || asked > 2 {
				t.Fatalf("%d connections, %d requests", conns, asked)
			}
		})
	}
}

func TestATruncatedHTTP2BodyIsAnError(t *testing.T) {
	for name, cut := range map[string]func(*frameConn, uint32){
		"shorter than its length": func(c *frameConn, s uint32) { c.WriteData(s, true, []byte("hello")) },
		"reset": func(c *frameConn, s uint32) {
			c.WriteData(s, false, []byte("hello"))
			c.WriteRSTStream(s, http2.ErrCodeInternal)
		},
		"closed": func(c *frameConn, s uint32) {
			c.WriteData(s, false, []byte("hello"))
			c.nc.Close()
		},
		"longer than its length": func(c *frameConn, s uint32) { c.WriteData(s, true, bytes.Repeat([]byte("x"), 200)) },
	} {
		tr, f := framed(t, nil, func(c *frameConn) {
			for s := c.next(); s != 0; s = c.next() {
				c.headers(s, false, ":status", "200", "content-length", "100")
				cut(c, s)
			}
		})
		if _, body, err := ask(t, tr, newRequest(t, "GET", f.url, nil)); err == nil {
			t.Errorf("%s: %q without an error", name, body)
		}
	}
}

func TestAnHTTP2BodyThatStopsIsCut(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		s := c.next()
		c.headers(s, false, ":status", "200")
		c.WriteData(s, false, []byte("hello"))
		c.drain()
	})
	tr.StallTimeout = time.Second // enough for what comes before
	_, body, err := ask(t, tr, newRequest(t, "GET", f.url, nil))
	if body != "hello" {
		t.Fatalf("%q", body)
	}
	wantKind(t, err, Stalled)
}

func TestAnHTTP2OriginThatDoesNotAnswerIsGivenUp(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) { c.drain() })
	tr.AnswerTimeout = 100 * time.Millisecond
	for _, body := range []io.Reader{nil, strings.NewReader("data")} {
		_, _, err := ask(t, tr, newRequest(t, "POST", f.url, body))
		wantKind(t, err, AnswerTimeout)
	}
}

func TestAnHTTP2OriginThatStopsTakingABodyIsGivenUp(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) { c.drain() }) // it never opens the window
	tr.StallTimeout = 100 * time.Millisecond
	body := newEndless()
	_, _, err := ask(t, tr, newRequest(t, "POST", f.url, body))
	wantKind(t, err, Stalled)
	<-body.end
}

func TestACancelledHTTP2RequestEndsAtOnce(t *testing.T) {
	for name, body := range map[string]io.Reader{"without a body": nil, "with one": newEndless()} {
		tr, f := framed(t, nil, func(c *frameConn) { c.drain() })
		req := newRequest(t, "POST", f.url, body)
		ctx, cancel := context.WithCancel(req.Context())
		after(t, 50*time.Millisecond, cancel)
		_, _, err := ask(t, tr, req.WithContext(ctx))
		if KindOf(err) != Canceled {
			t.Errorf("%s: %v", name, unwrapped(err))
		}
	}
}

func TestAnEarlyAnswerOverHTTP2ComesAtOnce(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) {
		for s := c.next(); s != 0; s = c.next() {
			c.headers(s, false, ":status", "413")
			c.WriteData(s, true, []byte("big"))
			c.WriteRSTStream(s, http2.ErrCodeNo)
		}
	})
	body := newEndless()
	body.hold = make(chan struct{})
	wantAnswer(t, tr, newRequest(t, "POST", f.url, body), "big")
	<-body.end
}

func TestARequestBodyThatBreaksIsNotTheHTTP2OriginsFault(t *testing.T) {
	tr, f := framed(t, nil, func(c *frameConn) { c.drain() })
	_, _, err := ask(t, tr, newRequest(t, "POST", f.url, io.MultiReader(strings.NewReader("x"), brokenReader{})))
	var bad *requestBodyError
	if KindOf(err) != Upload || !errors.As(err, &bad) {
		t.Fatal(unwrapped(err))
	}
}

func TestAnUntrustedCertificateIsAnErrorOfTLS(t *testing.T) {
	tr, s := secureServer(t, http.NotFoundHandler(), func(s *httptest.Server) { s.Config.ErrorLog = quiet })
	tr.TLS = nil
	var e *Error
	_, _, err := ask(t, tr, newRequest(t, "GET", s.URL, nil))
	if !errors.As(err, &e) || e.Kind != TLS || e.Sent {
		t.Fatal(unwrapped(err))
	}
}

func TestAHandshakeWithoutEndIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts
	tr := newTransport(t)
	tr.HandshakeTimeout = 50 * time.Millisecond
	_, _, err = ask(t, tr, newRequest(t, "GET", "https://"+l.Addr().String(), nil))
	wantKind(t, err, ConnectTimeout)
}
