package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// newHeldUploadProxy is a proxy whose site allows one request at a time and three in all.
// One request is in flight until release is called.
func newHeldUploadProxy(t *testing.T) (b *testProxy, release func()) {
	b = newTestProxy(t, "intercept: all", "sites: [{host: api.test, limits: [{requests: 3, per: 1d, as: rolling}, {concurrency: 1}]}]", "retry: {body: 64KiB}")
	let := make(chan struct{})
	b.handle(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/in-flight" {
			<-let
		}
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := b.client(false).Get("http://" + host + "/in-flight")
		if err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, time.Minute, "the first request is with the site", func() bool { return b.served.Load() == 1 })
	release = sync.OnceFunc(func() { close(let); <-ended })
	t.Cleanup(release)
	return b, release
}

// writeAll writes until everything is written or the connection is closed.
func writeAll(conn net.Conn, text string) { go io.WriteString(conn, text) }

// TestAHeldUploadIsNotSentOnceItsClientHasLeft checks bodies that are larger than what is
// kept, for each way in which a client can send a body.
func TestAHeldUploadIsNotSentOnceItsClientHasLeft(t *testing.T) {
	const mega = 1 << 20
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s", mega, strings.Repeat("c", mega))
	for name, rest := range map[string]string{
		"nothing of a large body":         fmt.Sprintf("Content-Length: %d\r\n\r\n", 100*mega),
		"a part of it":                    fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 100*mega, strings.Repeat("a", mega)),
		"a small part of it":              fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 100*mega, strings.Repeat("a", 100)),
		"all of it":                       fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 2*mega, strings.Repeat("a", 2*mega)),
		"all of it, and another request":  fmt.Sprintf("Content-Length: %d\r\n\r\n%sGET /another HTTP/1.1\r\nHost: api.test\r\n\r\n", 2*mega, strings.Repeat("a", 2*mega)),
		"chunks":                          chunked,
		"all the chunks":                  chunked + "\r\n0\r\n\r\n",
		"expecting 100":                   fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", 100*mega),
		"expecting 100, and all the same": fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", 100*mega, strings.Repeat("a", 1000)),
		"a small body, another request":   "Content-Length: 2\r\n\r\nabGET /another HTTP/1.1\r\nHost: api.test\r\n\r\n",
	} {
		for _, w := range rawPaths {
			t.Run(name+" over "+string(w), func(t *testing.T) {
				t.Parallel()
				b, release := newHeldUploadProxy(t)
				conn := b.open(w)
				writeAll(conn, "POST "+w.line("/upload")+" HTTP/1.1\r\nHost: api.test\r\n"+rest)
				b.isHeld(t)
				resetConn(conn)
				eventually(t, time.Minute, "the hold has left", func() bool { return len(b.server.Holds("", 1000)) == 0 })
				b.expectNothingSpent(t, release)
			})
		}
	}
}

// TestAPipelinedRequestIsNotSentOnceItsClientHasLeft checks a client that leaves before its
// first request is sent. net/http does not notice that, because the second request has come.
func TestAPipelinedRequestIsNotSentOnceItsClientHasLeft(t *testing.T) {
	for _, w := range rawPaths {
		t.Run(string(w), func(t *testing.T) {
			b, release := newHeldUploadProxy(t)
			conn := b.open(w)
			get := "GET " + w.line("/upload") + " HTTP/1.1\r\nHost: api.test\r\n\r\n"
			_, err := io.WriteString(conn, get)
			must(t, err)
			b.isHeld(t)
			_, err = io.WriteString(conn, get)
			must(t, err)
			resetConn(conn)
			b.expectNothingSpent(t, release)
		})
	}
}

func TestAHeldUploadOverHTTP2IsNotSentOnceItsClientHasLeft(t *testing.T) {
	b, release := newHeldUploadProxy(t)
	out, in := io.Pipe()
	r, _ := http.NewRequest("POST", "https://"+host+"/upload", out)
	r.ContentLength = 100 << 20
	go in.Write(make([]byte, 1<<20))
	ctx, leave := context.WithCancel(t.Context())
	defer in.Close()
	tr := b.client(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := tr.Do(r.WithContext(ctx))
		if err == nil {
			resp.Body.Close()
		}
	}()
	b.isHeld(t)
	leave()
	<-ended
	eventually(t, time.Minute, "the hold has left", func() bool { return len(b.server.Holds("", 1000)) == 0 })
	b.expectNothingSpent(t, release)
}

// TestAHeldUploadArrivesWhole checks that the bytes that were read while a request waited
// are sent once, and the rest after them.
func TestAHeldUploadArrivesWhole(t *testing.T) {
	for _, size := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000, 12 << 20} {
		for _, sized := range []bool{true, false} {
			b, release := newHeldUploadProxy(t)
			sum := make(chan int, 1)
			arrives := b.handler.Load().(http.HandlerFunc)
			b.handle(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/upload" {
					arrives(w, r)
					return
				}
				body, err := io.ReadAll(r.Body)
				for i, c := range body {
					if err != nil || c != byte(i%251) {
						sum <- -1
						return
					}
				}
				sum <- len(body)
			})
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(i % 251)
			}
			var from io.Reader = strings.NewReader(string(body))
			if !sized {
				from = unsized{from}
			}
			ended := make(chan int, 1)
			go func() {
				resp, err := b.client(false).Post("http://"+host+"/upload", "text/plain", from)
				if err != nil {
					ended <- 0
					return
				}
				resp.Body.Close()
				ended <- resp.StatusCode
			}()
			b.isHeld(t)
			release()
			if n, code := <-sum, <-ended; n != size || code != 200 {
				t.Errorf("%d bytes, sized %v: %d came, %d", size, sized, n, code)
			}
			eventually(t, time.Minute, "nothing is kept", func() bool { return b.server.forwarder.replayBytes.Load() == 0 })
		}
	}
}

func (b *testProxy) isHeld(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the request is held", func() bool { return len(b.server.Holds("", 1000)) == 1 })
}

// resetConn closes a connection as the end of a process does.
func resetConn(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// expectNothingSpent ends the request in flight, and checks that the limit allows two more
// requests and that the site has seen no other.
func (b *testProxy) expectNothingSpent(t *testing.T, release func()) {
	t.Helper()
	release()
	for range 2 {
		r, _ := http.NewRequest("GET", "http://"+host+"/after", nil)
		r.Header.Set("Abide-Max-Wait", "5m")
		resp, err := b.client(false).Do(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("a request after that was told %d", resp.StatusCode)
		}
	}
	if n := b.served.Load(); n != 3 {
		t.Errorf("the site was asked %d times, not 3", n)
	}
	b.stop()
}
