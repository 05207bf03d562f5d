package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// protocolClient is a kind of client, and the URL that it requests.
type protocolClient struct {
	name string
	base string
	h2   bool
}

var protocolClients = []protocolClient{
	{"plain", "http://" + host, false},
	{"intercepted h1", "https://" + host, false},
	{"intercepted h2", "https://" + host, true},
}

// fetch sends a request and reads the whole response.
func (a protocolClient) fetch(b *testProxy, method, path string, body io.Reader) (*http.Response, string, error) {
	b.t.Helper()
	r, err := http.NewRequest(method, a.base+path, body)
	must(b.t, err)
	resp, err := b.client(a.h2).Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// rawAnswer answers every request with the same bytes and closes the connection.
func rawAnswer(answer string) func(net.Conn, string) {
	return func(c net.Conn, _ string) {
		io.WriteString(c, answer)
		c.Close()
	}
}

func TestABodyCutShortByTheOriginIsCutShortForTheClient(t *testing.T) {
	cases := []struct{ name, answer string }{
		{"a chunked body without its end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		{"a chunk that breaks off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello"},
		{"less than the Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"},
	}
	for _, c := range cases {
		b := newRawTestProxy(t, rawAnswer(c.answer), "intercept: all")
		for _, a := range protocolClients {
			t.Run(c.name+" over "+a.name, func(t *testing.T) {
				resp, body, err := a.fetch(b, "GET", "/", nil)
				if err == nil {
					t.Fatalf("the client saw a whole answer: %d %q", resp.StatusCode, body)
				}
				if resp != nil && body != "hello" && body != "" {
					t.Errorf("the client read %q", body)
				}
			})
		}
		t.Run(c.name+" over a tunnel", func(t *testing.T) {
			b := newRawTestProxy(t, rawAnswer(c.answer), "intercept: none")
			if _, body, err := protocolClients[1].fetch(b, "GET", "/", nil); err == nil {
				t.Fatalf("the client saw a whole answer: %q", body)
			}
		})
	}
}

func TestAnAnswerThatCouldBeMisreadIsA502(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	cases := []struct{ name, answer string }{
		{"Content-Length and Transfer-Encoding", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"two Content-Lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
		{"obs-fold", ok + "X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n"},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
		{"NUL in a header", ok + "X-A: a\x00b\r\nContent-Length: 0\r\n\r\n"},
		{"a header of 1 MB", ok + "X-A: " + strings.Repeat("a", 1<<20+1) + "\r\nContent-Length: 0\r\n\r\n"},
		{"a header of many lines", ok + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 1100) + "Content-Length: 0\r\n\r\n"},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n\r\n"},
		{"a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"},
		{"space before a colon", ok + "Content-Length : 5\r\n\r\nhello"},
		{"an obscured Transfer-Encoding", ok + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
	}
	for _, c := range cases {
		b := newRawTestProxy(t, rawAnswer(c.answer), "intercept: all")
		for _, a := range protocolClients {
			t.Run(c.name+" over "+a.name, func(t *testing.T) {
				resp, body, err := a.fetch(b, "GET", "/", nil)
				must(t, err)
				if resp.StatusCode != 502 || resp.Header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("status %d %.100q", resp.StatusCode, body)
				}
			})
		}
	}
	t.Run("an endless header", func(t *testing.T) {
		b := newRawTestProxy(t, func(c net.Conn, _ string) {
			io.WriteString(c, ok)
			for {
				if _, err := io.WriteString(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
					return
				}
			}
		})
		resp, _, err := protocolClients[0].fetch(b, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 502 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestInformationalAnswersDoNotDisturbTheFinalOne(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, _ string) {
		io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}, "intercept: all")
	for _, a := range protocolClients {
		t.Run("over "+a.name, func(t *testing.T) {
			var hints atomic.Int64
			r, err := http.NewRequest("GET", a.base+"/", nil)
			must(t, err)
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if code == 103 && h.Get("Link") == "</a.css>" {
						hints.Add(1)
					}
					return nil
				},
			}))
			resp, err := b.client(a.h2).Do(r)
			must(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			if resp.StatusCode != 200 || string(body) != "ok" || resp.Header.Get("Link") != "" || hints.Load() != 1 {
				t.Errorf("%d %q, Link %q, %d hints", resp.StatusCode, body, resp.Header.Get("Link"), hints.Load())
			}
		})
	}
}

func TestASwitchThatNobodyAskedForIsA502(t *testing.T) {
	b := newRawTestProxy(t, rawAnswer("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nframes"), "intercept: all")
	for _, a := range protocolClients {
		resp, body, err := a.fetch(b, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 502 {
			t.Errorf("over %s: %d %q", a.name, resp.StatusCode, body)
		}
	}
}

func TestBytesAfterAnAnswerWithoutBodyAreNotRead(t *testing.T) {
	for _, c := range []struct{ method, answer string }{
		{"GET", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"},
	} {
		b := newRawTestProxy(t, func(conn net.Conn, _ string) { io.WriteString(conn, c.answer) }, "intercept: all")
		for _, a := range protocolClients {
			before := b.dialed.Load()
			for range 2 {
				resp, body, err := a.fetch(b, c.method, "/", nil)
				if err != nil {
					t.Errorf("%q over %s: %v", c.answer, a.name, err)
					continue
				}
				if strings.Contains(body, "evil") || resp.StatusCode == 502 {
					t.Errorf("%s over %s: %d %q", c.method, a.name, resp.StatusCode, body)
				}
			}
			if n := b.dialed.Load() - before; n != 2 {
				t.Errorf("%s over %s: %d connections for two requests", c.method, a.name, n)
			}
		}
	}
}

func TestARedirectIsTheClientsToFollow(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, map[string]string{"/other": "http://evil.test/", "/plain": "http://" + host + "/x"}[r.URL.Path], http.StatusFound)
	})
	for _, a := range protocolClients {
		for path, location := range map[string]string{"/other": "http://evil.test/", "/plain": "http://" + host + "/x"} {
			before := b.served.Load()
			resp, _, err := a.fetch(b, "GET", path, nil)
			must(t, err)
			if resp.StatusCode != 302 || resp.Header.Get("Location") != location || b.served.Load() != before+1 {
				t.Errorf("%s over %s: %d %q", path, a.name, resp.StatusCode, resp.Header.Get("Location"))
			}
		}
	}
}

func TestCookiesKeepTheirLinesAndOrder(t *testing.T) {
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("c%d=%s; Expires=Wed, 21 Oct 2026 07:28:00 GMT, odd", i, strings.Repeat("v", 1000)))
	}
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Set-Cookie"] = want })
	for _, a := range protocolClients {
		resp, _, err := a.fetch(b, "GET", "/", nil)
		must(t, err)
		got := resp.Header["Set-Cookie"]
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("over %s: %d cookies", a.name, len(got))
		}
	}
}

func TestHopByHopHeadersOfTheAnswerEndHere(t *testing.T) {
	b := newRawTestProxy(t, rawAnswer("HTTP/1.1 200 OK\r\nConnection: X-Up\r\nX-Up: s\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n"+
		"Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nX-End: kept\r\nContent-Length: 2\r\n\r\nok"), "intercept: all")
	for _, a := range protocolClients {
		resp, body, err := a.fetch(b, "GET", "/", nil)
		must(t, err)
		for _, name := range []string{"X-Up", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Upgrade"} {
			if v, there := resp.Header[name]; there {
				t.Errorf("over %s: %s: %q", a.name, name, v)
			}
		}
		if resp.Header.Get("X-End") != "kept" || body != "ok" {
			t.Errorf("over %s: %v %q", a.name, resp.Header, body)
		}
	}
}

func TestConnectionCloseOnEveryAnswerWorks(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "ok")
	})
	for _, a := range protocolClients[:2] {
		client := b.client(a.h2)
		for range 20 {
			resp, err := client.Get(a.base + "/")
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if string(body) != "ok" {
				t.Fatalf("over %s: %q", a.name, body)
			}
		}
	}
}

func TestAStalePooledConnectionCostsNothing(t *testing.T) {
	var requests atomic.Int64
	b := newRawTestProxy(t, func(c net.Conn, head string) {
		n := requests.Add(1)
		if strings.HasPrefix(head, "POST") && n%2 == 0 {
			c.Close() // after the request has come, which may have had an effect
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if strings.Contains(head, "/stale") {
			c.Close() // without an announcement
		}
	})
	a := protocolClients[0]
	for range 5 {
		resp, body, err := a.fetch(b, "GET", "/stale", nil)
		must(t, err)
		if resp.StatusCode != 200 || body != "ok" {
			t.Fatalf("GET: %d %q", resp.StatusCode, body)
		}
	}
	// A POST whose connection died after it was sent is not sent twice.
	requests.Store(0)
	if _, _, err := a.fetch(b, "GET", "/", nil); err != nil {
		t.Fatal(err)
	}
	resp, _, err := a.fetch(b, "POST", "/", strings.NewReader("x"))
	must(t, err)
	if resp.StatusCode != 502 || requests.Load() != 2 {
		t.Errorf("POST: status %d, the origin saw %d requests", resp.StatusCode, requests.Load())
	}
}

func TestAnOriginThatIsNotThereIsA502(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone := closed.Addr().String()
	closed.Close()
	b := &testProxy{t: t, log: &syncBuffer{}}
	b.start(map[string]string{host + ":80": gone, host + ":443": gone}, "intercept: all")
	for _, a := range protocolClients {
		resp, body, err := a.fetch(b, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 502 || resp.Header.Get("Proxy-Status") == "" || strings.Contains(body, gone) {
			t.Errorf("over %s: %d %s", a.name, resp.StatusCode, body)
		}
	}
	b.connect("nowhere.invalid:443") // the site of an intercepted connection is dialed with the first request
	none := newTestProxy(t, "intercept: none")
	resp, _ := sendRaw(t, none.dial(), "CONNECT "+gone+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != 502 {
		t.Errorf("over a tunnel: %d", resp.StatusCode)
	}
}

func TestAnHTTP2AnswerWithoutLengthEndsForAnHTTP1Client(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the origin was asked over HTTP/%d", r.ProtoMajor)
		}
		io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		io.WriteString(w, "two")
	})
	resp, body, err := protocolClients[1].fetch(b, "GET", "/", nil)
	must(t, err)
	if body != "onetwo" || resp.ProtoMajor != 1 || resp.ContentLength != -1 {
		t.Errorf("%q over HTTP/%d, length %d", body, resp.ProtoMajor, resp.ContentLength)
	}
}

func TestAnEarlyAnswerReachesAClientThatStillUploads(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, _ string) {
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
	}, "intercept: all")
	for _, a := range protocolClients {
		t.Run("over "+a.name, func(t *testing.T) {
			body, more := io.Pipe()
			defer more.Close()
			go func() {
				piece := make([]byte, 1<<10)
				for range 4 {
					if _, err := more.Write(piece); err != nil {
						return
					}
				} // then the body stands still
			}()
			resp, text, err := a.fetch(b, "POST", "/", body)
			must(t, err)
			if resp.StatusCode != 413 || text != "big" {
				t.Errorf("%d %q", resp.StatusCode, text)
			}
		})
	}
}

func TestBytesReachTheClientAsTheyCome(t *testing.T) {
	next := make(chan struct{})
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "line %d\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	for _, a := range protocolClients {
		t.Run("over "+a.name, func(t *testing.T) {
			resp, err := b.client(a.h2).Get(a.base + "/")
			must(t, err)
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			for i := range 3 {
				line, err := in.ReadString('\n')
				must(t, err)
				if line != fmt.Sprintf("line %d\n", i) {
					t.Fatalf("%q", line)
				}
				next <- struct{}{} // only now the site continues
			}
		})
	}
}

func TestAnOriginThatStopsInTheMiddleIsCut(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, _ string) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")
		io.Copy(io.Discard, c)
	}, "intercept: all", "timeouts: {stall: 200ms}")
	for _, a := range protocolClients {
		began := time.Now()
		_, body, err := a.fetch(b, "GET", "/", nil)
		if err == nil || body != "hello" || time.Since(began) > 15*time.Second {
			t.Errorf("over %s: %q, %v after %v", a.name, body, err, time.Since(began))
		}
	}
}

func TestAnOriginThatDoesNotAnswerIsA504(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, _ string) { io.Copy(io.Discard, c) }, "intercept: all", "timeouts: {answer: 200ms}")
	for _, a := range protocolClients {
		resp, _, err := a.fetch(b, "GET", "/", nil)
		must(t, err)
		if resp.StatusCode != 504 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("over %s: %d", a.name, resp.StatusCode)
		}
	}
}

func TestARefusalWithAnEndlessBodyIsNotDrained(t *testing.T) {
	ended := make(chan int64, len(protocolClients))
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(429)
		piece := make([]byte, 16<<10)
		var total int64
		for r.Context().Err() == nil {
			n, err := w.Write(piece)
			total += int64(n)
			if err != nil {
				break
			}
		}
		ended <- total
	})
	for _, a := range protocolClients {
		r, err := http.NewRequest("GET", a.base+"/", nil)
		must(t, err)
		r.Header.Set("Abide-Retry", "none")
		resp, err := b.client(a.h2).Do(r)
		must(t, err)
		if resp.StatusCode != 429 {
			t.Errorf("status %d", resp.StatusCode)
		}
		resp.Body.Close()
		select {
		case total := <-ended:
			if total > 64<<20 {
				t.Errorf("over %s: %d bytes were drained", a.name, total)
			}
		case <-time.After(5 * time.Minute):
			t.Errorf("over %s: the origin still writes", a.name)
		}
	}
}

func TestAWebsocketEndsWithItsOrigin(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, head string) {
		if !strings.Contains(head, "Upgrade: websocket\r\n") || !strings.Contains(head, "Sec-Websocket-Key: k\r\n") {
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nhello")
		ping := make([]byte, 4)
		if _, err := io.ReadFull(c, ping); err == nil {
			c.Write(ping)
		}
		c.Close()
	}, "intercept: all")
	for _, w := range rawPaths {
		t.Run("over "+string(w), func(t *testing.T) {
			conn := b.open(w)
			// The first frame leaves with the request.
			_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\nping", w.line("/"), host)
			must(t, err)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("Sec-Websocket-Accept") != "a" {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			began := time.Now()
			text, err := io.ReadAll(in)
			if string(text) != "helloping" || (err != nil && !errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Errorf("%q, %v", text, err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("the client's socket was closed after %v", took)
			}
		})
	}
}
