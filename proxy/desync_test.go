package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWhatIsLeftOfABodyIsNeverTheNextRequest(t *testing.T) {
	var smuggled sync.Map
	b := newRawTestProxy(t, func(c net.Conn, head string) {
		if strings.Contains(head, "SMUG") {
			smuggled.Store(head, true)
		}
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
	}, "intercept: all")
	for _, w := range rawPaths {
		for _, inside := range []string{
			"GET " + w.line("/SMUG") + " HTTP/1.1\r\nHost: api.test\r\n\r\n",
			"CONNECT api.test:80 HTTP/1.1\r\nHost: api.test:80\r\n\r\nGET /SMUG HTTP/1.1\r\nHost: api.test\r\n\r\n",
		} {
			t.Run(fmt.Sprintf("over %s, %.7s", w, inside), func(t *testing.T) {
				conn := b.open(w)
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2000000\r\n\r\n%s", w.line("/early"), strings.Repeat("a", 1000))
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				must(t, err)
				io.Copy(io.Discard, resp.Body)
				if resp.StatusCode != 413 || !resp.Close {
					t.Errorf("%d, closing %v", resp.StatusCode, resp.Close)
				}
				io.WriteString(conn, inside) // still the body
				if rest, _ := io.ReadAll(in); len(rest) > 0 {
					t.Errorf("it was answered: %q", rest)
				}
			})
		}
	}
	smuggled.Range(func(head, _ any) bool { t.Errorf("it reached the origin: %q", head); return true })
}

func TestABodyThatNetHTTPDoesNotTellOfIsNotTheNextRequest(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for name, request := range map[string]string{
		"chunked on HTTP/1.0":                          "GET %s HTTP/1.0\r\nHost: api.test\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
		"chunked beside Content-Length: 0 on HTTP/1.0": "POST %s HTTP/1.0\r\nHost: api.test\r\nConnection: keep-alive\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"chunked on HTTP/1.0, refused":                 "BREW %s HTTP/1.0\r\nHost: api.test\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
		"Content-Length beside chunked":                "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		for _, w := range rawPaths {
			t.Run(name+" over "+string(w), func(t *testing.T) {
				conn := b.open(w)
				fmt.Fprintf(conn, request+"GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/first"), w.line("/second"))
				all, _ := io.ReadAll(conn)
				if n := strings.Count(string(all), "HTTP/1."); n > 1 {
					t.Errorf("%d answers: %q", n, all)
				}
			})
		}
	}
}

func TestARefusalDoesNotWaitForABody(t *testing.T) {
	b := newTestProxy(t, "access: {clients: [{name: news, secret: hunter2}]}", "intercept: all")
	for _, request := range []string{
		"POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\n",
		"POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		began := time.Now()
		resp, _ := sendRaw(t, b.dial(), request)
		if resp.StatusCode != 407 || !resp.Close || time.Since(began) > 15*time.Second {
			t.Errorf("%q: %d, closing %v, after %v", request, resp.StatusCode, resp.Close, time.Since(began))
		}
	}
	t.Run("and keeps a connection whose body has come", func(t *testing.T) {
		conn := b.dial()
		for range 2 {
			resp, _ := sendRaw(t, conn, "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nab")
			if resp.StatusCode != 407 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
	})
}

func TestAnUploadThatCannotBeSentIsAnswered(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone := closed.Addr().String()
	closed.Close()
	b := &testProxy{t: t, log: &syncBuffer{}}
	b.start(map[string]string{host + ":80": gone, host + ":443": gone}, "intercept: all")
	for _, w := range rawPaths {
		for _, c := range []struct{ name, raw string }{
			{"expecting 100", "POST %s HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\nContent-Length: 3000000\r\n\r\n"},
			{"a part of it", "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3000000\r\n\r\nab"},
			{"chunks", "POST %s HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"},
		} {
			conn := b.open(w)
			fmt.Fprintf(conn, c.raw, w.line("/"))
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err == nil && resp.StatusCode == 100 {
				resp, err = http.ReadResponse(in, nil)
			}
			if err != nil || resp.StatusCode != 502 {
				t.Errorf("%s over %s: %v %v", c.name, w, resp, err)
			}
		}
	}
}

func TestAnOriginThatHangsUpOnAnUploadIsToBlame(t *testing.T) {
	b := newRawTestProxy(t, func(c net.Conn, _ string) { c.Close() }, "intercept: all")
	for _, w := range rawPaths {
		conn := b.open(w)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", w.line("/"))
		resp, _ := readResponse(t, conn, "POST")
		if resp.StatusCode != 502 {
			t.Errorf("over %s: %d", w, resp.StatusCode)
		}
	}
}

// An HTTP/2 upstream reads and closes the request's body on a goroutine of its own, also
// after the handler has returned.
func TestLeavingInTheMiddleOfAnUploadHurtsNobody(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge) // without reading
	})
	var all sync.WaitGroup
	for i := range 8 {
		a := protocolClients[i%len(protocolClients)]
		client := b.client(a.h2)
		all.Go(func() {
			for j := range 40 {
				client.Timeout = time.Duration(1+j%20) * time.Millisecond
				resp, err := client.Post(a.base+"/early", "text/plain", io.LimitReader(endless{}, 5<<20))
				if err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	all.Wait()
	b.handle(func(http.ResponseWriter, *http.Request) {})
	b.stillServes()
}

func TestAPathGoesOutAsItCame(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
	for _, c := range []struct{ sent, want string }{
		{"/wiki/AC%2FDC", "/wiki/AC%2FDC"},
		{"/wiki/AC%2FDC|x", "/wiki/AC%2FDC%7Cx"},
		{"/caf\xc3\xa9/AC%2FDC", "/caf%C3%A9/AC%2FDC"},
		{"/a%2Fb{x}?q={y}|%2F", "/a%2Fb%7Bx%7D?q={y}|%2F"},
		{"//double//slash", "//double//slash"},
		{"/a%41%2e/../b", "/a%41%2e/../b"},
		{"/a#fragment", "/a"},
		{"/a#fragment?no=query", "/a"},
		{"/a?q=1#fragment", "/a?q=1"},
		{"/a%23b?", "/a%23b?"},
		{"/[1]", "/[1]"},
	} {
		for _, w := range rawPaths {
			resp, got := sendRaw(t, b.open(w), "GET "+w.line(c.sent)+" HTTP/1.1\r\nHost: api.test\r\n\r\n")
			if resp.StatusCode != 200 || got != c.want {
				t.Errorf("%s over %s: %d %s, want %s", c.sent, w, resp.StatusCode, got, c.want)
			}
		}
	}
}

func TestARevokedClientIsRefusedOnWhatItOpened(t *testing.T) {
	b := newTestProxy(t, "access: {clients: [{name: news, secret: hunter2}]}", "intercept: all")
	conn := b.dial()
	fmt.Fprintf(conn, "CONNECT api.test:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic bmV3czpodW50ZXIy\r\n\r\n")
	if _, err := readHead(bufio.NewReaderSize(byteReader{conn}, 16)); err != nil {
		t.Fatal(err)
	}
	inside := b.secure(conn, host, "http/1.1")
	ask := "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"
	if resp, _ := sendRaw(t, inside, ask); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	same := *b.server.Policy()
	must(t, b.server.Reload(&same))
	if resp, _ := sendRaw(t, inside, ask); resp.StatusCode != 200 {
		t.Errorf("after a reload that changed nothing: %d", resp.StatusCode)
	}
	next := same
	next.Access.Clients = b.policy("access: {clients: [{name: news, secret: another}]}\n").Access.Clients
	must(t, b.server.Reload(&next))
	if resp, _ := sendRaw(t, inside, ask); resp.StatusCode != 403 {
		t.Errorf("after its secret was changed: %d", resp.StatusCode)
	}
}
