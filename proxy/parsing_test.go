package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// badRequest is a request that must be refused without a byte to the site.
type badRequest struct {
	name string
	raw  string // {target} is the request target, host is api.test
	want []int
}

func TestMalformedRequestsAreRefusedAndNothingGoesUpstream(t *testing.T) {
	post := func(headers string) string {
		return "POST {target} HTTP/1.1\r\nHost: api.test\r\n" + headers + "\r\n\r\nab"
	}
	get := func(headers string) string {
		return "GET {target} HTTP/1.1\r\nHost: api.test\r\n" + headers + "\r\n\r\n"
	}
	cases := []badRequest{
		{"two differing Content-Length", post("Content-Length: 2\r\nContent-Length: 3"), []int{400}},
		{"signed Content-Length", post("Content-Length: +2"), []int{400}},
		{"negative Content-Length", post("Content-Length: -1"), []int{400}},
		{"hexadecimal Content-Length", post("Content-Length: 0x2"), []int{400}},
		{"spaced Content-Length", post("Content-Length: 2 2"), []int{400}},
		{"empty Content-Length", post("Content-Length: "), []int{400}},
		{"overflowing Content-Length", post("Content-Length: 99999999999999999999"), []int{400}},
		{"xchunked", post("Transfer-Encoding: xchunked"), []int{400, 501}},
		{"chunked, identity", post("Transfer-Encoding: chunked, identity"), []int{400, 501}},
		{"Transfer-Encoding twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), []int{400, 501}},
		{"chunked on HTTP/1.0", "POST {target} HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", []int{400}},
		{"space before the colon", post("Content-Length : 2"), []int{400}},
		{"empty name", get(": x"), []int{400}},
		{"space in a name", get("X Y: z"), []int{400}},
		{"NUL in a value", get("X-A: a\x00b"), []int{400}},
		{"bare CR in a value", get("X-A: a\rb"), []int{400}},
		{"DEL in a value", get("X-A: a\x7fb"), []int{400}},
		{"a head of 64 KiB and one", get("X-A: " + strings.Repeat("a", 64<<10)), []int{431}},
		{"a head of 1 MB", get("X-A: " + strings.Repeat("a", 1<<20)), []int{431}},
		{"two different Hosts", get("Host: other.test"), []int{400}},
		{"the same Host twice", get("Host: api.test"), []int{400}},
		{"no Host on HTTP/1.1", "GET {target} HTTP/1.1\r\n\r\n", []int{400}},
		{"HTTP/1.2", "GET {target} HTTP/1.2\r\nHost: api.test\r\n\r\n", []int{400, 505}},
		{"HTTP/2.0", "GET {target} HTTP/2.0\r\nHost: api.test\r\n\r\n", []int{400, 505}},
		{"HTTP/3.7", "GET {target} HTTP/3.7\r\nHost: api.test\r\n\r\n", []int{400, 505}},
		{"HTTP/1.1x", "GET {target} HTTP/1.1x\r\nHost: api.test\r\n\r\n", []int{400, 505}},
		{"lower-case version", "GET {target} http/1.1\r\nHost: api.test\r\n\r\n", []int{400, 505}},
		{"lower-case method", "get {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{400, 405, 501}},
		{"a space in the method", "G ET {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{400, 405, 501}},
		{"a method of 64 KB", strings.Repeat("M", 64<<10) + " {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{400, 405, 431, 501}},
		{"BREW", "BREW {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{405, 501}},
		{"TRACE", "TRACE {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{405}},
		{"TRACK", "TRACK {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{405}},
		{"PRI", "PRI {target} HTTP/1.1\r\nHost: api.test\r\n\r\n", []int{400, 405, 501}},
	}
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s over %s", c.name, w), func(t *testing.T) {
				before := b.served.Load()
				conn := b.open(w)
				go io.WriteString(conn, strings.ReplaceAll(c.raw, "{target}", w.line("/")))
				resp, _ := readResponse(t, conn, "GET")
				if !slices.Contains(c.want, resp.StatusCode) {
					t.Errorf("status %d, want one of %v", resp.StatusCode, c.want)
				}
				if b.served.Load() != before {
					t.Error("it reached the upstream")
				}
			})
		}
	}
}

func TestOddRequestsAreForwardedInOneCleanForm(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths {
		get := func(headers string) string {
			return "GET " + w.line("/p") + " HTTP/1.1\r\nHost: api.test\r\n" + headers + "\r\n"
		}
		post := func(headers, body string) string {
			return "POST " + w.line("/p") + " HTTP/1.1\r\nHost: api.test\r\n" + headers + "\r\n" + body
		}
		echo := func(t *testing.T, request string) (*http.Response, string, *http.Request) {
			var seen *http.Request
			b.handle(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				seen = r.Clone(r.Context())
				w.Write(body)
			})
			resp, body := sendRaw(t, b.open(w), request)
			if seen == nil {
				t.Fatalf("status %d and nothing upstream", resp.StatusCode)
			}
			return resp, body, seen
		}
		t.Run("the same Content-Length twice over "+string(w), func(t *testing.T) {
			_, body, seen := echo(t, post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab"))
			if body != "ab" || seen.ContentLength != 2 {
				t.Errorf("%q, %d", body, seen.ContentLength)
			}
		})
		for _, te := range []string{"chunked", "Chunked", " \tchunked"} {
			t.Run(fmt.Sprintf("exactly chunked %q over %s", te, w), func(t *testing.T) {
				_, body, seen := echo(t, post("Transfer-Encoding:"+te+"\r\n", "2\r\nab\r\n0\r\n\r\n"))
				if body != "ab" || (seen.ProtoMajor == 1 && !slices.Equal(seen.TransferEncoding, []string{"chunked"})) {
					t.Errorf("%q, %v", body, seen.TransferEncoding)
				}
			})
		}
		t.Run("a folded line over "+string(w), func(t *testing.T) {
			_, _, seen := echo(t, get("X-A: 1\r\n  2\r\n"))
			if got := seen.Header.Get("X-A"); got != "1 2" {
				t.Errorf("%q", got)
			}
		})
		t.Run("lines that end in a bare LF over "+string(w), func(t *testing.T) {
			_, body, seen := echo(t, strings.ReplaceAll(post("X-A: 1\r\nContent-Length: 2\r\n", "ab"), "\r\n", "\n"))
			if got := seen.Header.Get("X-A"); got != "1" || body != "ab" || seen.ContentLength != 2 {
				t.Errorf("%q, %q", got, body)
			}
		})
		t.Run("bytes over 127 pass as they are over "+string(w), func(t *testing.T) {
			_, _, seen := echo(t, get("X-A: \x80\xfe\xff\r\n"))
			if got := seen.Header.Get("X-A"); got != "\x80\xfe\xff" {
				t.Errorf("%q", got)
			}
		})
		t.Run("a body on GET over "+string(w), func(t *testing.T) {
			_, body, _ := echo(t, "GET "+w.line("/")+" HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nab")
			if body != "ab" {
				t.Errorf("%q", body)
			}
		})
		t.Run("request trailers over "+string(w), func(t *testing.T) {
			_, body, seen := echo(t, post("Transfer-Encoding: chunked\r\nTrailer: X-Rt\r\n", "2\r\nab\r\n0\r\nX-Rt: v\r\n\r\n"))
			if body != "ab" || seen.Header.Get("X-Rt") != "" || seen.Trailer.Get("X-Rt") != "v" {
				t.Errorf("%q, header %v, trailer %v", body, seen.Header, seen.Trailer)
			}
		})
		t.Run("hop-by-hop headers stay behind over "+string(w), func(t *testing.T) {
			_, _, seen := echo(t, get("Connection: keep-alive, X-Secret-Hop, Upgrade\r\nX-Secret-Hop: s\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTrailer: X\r\nX-Kept: k\r\n"))
			for _, h := range []string{"X-Secret-Hop", "Keep-Alive", "Te", "Upgrade", "Http2-Settings", "Proxy-Connection", "Proxy-Authorization", "Trailer", "Connection", "Via", "X-Forwarded-For", "User-Agent", "Accept-Encoding"} {
				if v, ok := seen.Header[h]; ok {
					t.Errorf("%s: %v reached the upstream", h, v)
				}
			}
			if seen.Header.Get("X-Kept") != "k" {
				t.Error("an end-to-end header was lost")
			}
		})
		t.Run("a compressed body passes unopened over "+string(w), func(t *testing.T) {
			var z bytes.Buffer
			zw := gzip.NewWriter(&z)
			zw.Write(make([]byte, 8<<20))
			zw.Close()
			_, body, seen := echo(t, post(fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n", z.Len()), z.String()))
			if body != z.String() || seen.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("%d bytes became %d", z.Len(), len(body))
			}
		})
		t.Run("a hundred requests in one write over "+string(w), func(t *testing.T) {
			b.handle(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
			var all strings.Builder
			for i := range 100 {
				fmt.Fprintf(&all, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line(fmt.Sprintf("/%d", i)))
			}
			conn := b.open(w)
			go io.WriteString(conn, all.String())
			in := bufio.NewReader(conn)
			for i := range 100 {
				resp, err := http.ReadResponse(in, nil)
				must(t, err)
				body, err := io.ReadAll(resp.Body)
				must(t, err)
				if string(body) != fmt.Sprintf("/%d", i) {
					t.Fatalf("answer %d is %q", i, body)
				}
			}
		})
		t.Run("a client that waits for 100 Continue over "+string(w), func(t *testing.T) {
			b.handle(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %v", body, r.Header["Expect"])
			})
			conn := b.open(w)
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", w.line("/"))
			in := bufio.NewReader(conn)
			conn.SetReadDeadline(time.Now().Add(15 * time.Second))
			head, err := readHead(in)
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 100 ") {
				t.Fatalf("%q, %v", head, err)
			}
			io.WriteString(conn, "ab")
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			if body, _ := io.ReadAll(resp.Body); string(body) != "ab []" {
				t.Errorf("%q", body)
			}
		})
		for _, size := range []string{"2\nab\r\n2", "0x2", "10000000000000002", "-1", " 2", "00000000000000002", ""} {
			t.Run(fmt.Sprintf("chunk size %q over %s", size, w), func(t *testing.T) {
				finished := make(chan error, 1)
				b.handle(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					finished <- err
				})
				conn := b.open(w)
				io.WriteString(conn, post("Transfer-Encoding: chunked\r\n", size+"\r\nab\r\n0\r\n\r\nGET http://api.test/smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"))
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				must(t, err)
				if resp.StatusCode != 400 {
					t.Errorf("status %d", resp.StatusCode)
				}
				io.Copy(io.Discard, resp.Body)
				if _, err := in.ReadByte(); err == nil {
					t.Error("the connection was used again")
				}
				select {
				case err := <-finished:
					if err == nil {
						t.Error("the upstream got a whole body")
					}
				case <-time.After(5 * time.Second):
				}
			})
		}
		t.Run("a flood of chunk extensions over "+string(w), func(t *testing.T) {
			b.handle(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
			conn := b.open(w)
			go func() {
				io.WriteString(conn, post("Transfer-Encoding: chunked\r\n", ""))
				chunk := "1;" + strings.Repeat("e", 4000) + "\r\na\r\n"
				for range 256 {
					if _, err := io.WriteString(conn, chunk); err != nil {
						return
					}
				}
			}()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && resp.StatusCode != 400 {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
		t.Run("a password in the URL over "+string(w), func(t *testing.T) {
			b := newTestProxy(t, "intercept: all")
			before := b.served.Load()
			resp, body := sendRaw(t, b.open(w), "GET http://user:hunter2@api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
			if resp.StatusCode != 400 || b.served.Load() != before {
				t.Errorf("status %d", resp.StatusCode)
			}
			if strings.Contains(body+b.log.String(), "hunter2") {
				t.Error("the password was told")
			}
		})
	}
	t.Run("OPTIONS *", func(t *testing.T) {
		before := b.dialed.Load()
		resp, _ := sendRaw(t, b.dial(), "OPTIONS * HTTP/1.1\r\nHost: api.test\r\n\r\n")
		if resp.StatusCode != 200 || b.dialed.Load() != before {
			t.Errorf("status %d, dialed %d", resp.StatusCode, b.dialed.Load()-before)
		}
		seen := ""
		raw := newRawTestProxy(t, func(c net.Conn, head string) {
			seen = head
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		sendRaw(t, raw.dial(), "OPTIONS http://api.test HTTP/1.1\r\nHost: api.test\r\n\r\n")
		if !strings.HasPrefix(seen, "OPTIONS * HTTP/1.1\r\n") {
			t.Errorf("%q", seen)
		}
	})
	t.Run("the URL wins over Host", func(t *testing.T) {
		var asked string
		b.handle(func(w http.ResponseWriter, r *http.Request) { asked = r.Host })
		sendRaw(t, b.dial(), "GET http://api.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		if asked != host {
			t.Errorf("the upstream was asked for %q", asked)
		}
	})
	t.Run("HTTP/0.9", func(t *testing.T) {
		before := b.served.Load()
		conn := b.dial()
		io.WriteString(conn, "GET http://api.test/\r\n\r\n")
		all, _ := io.ReadAll(conn)
		if b.served.Load() != before || (len(all) > 0 && !bytes.HasPrefix(all, []byte("HTTP/1.1 400 "))) {
			t.Errorf("%q", all)
		}
	})
}

func TestAnEndlessHeadCostsNoMemory(t *testing.T) {
	b := newTestProxy(t)
	for name, start := range map[string]string{
		"endless request line": "GET http://api.test/",
		"one endless header":   "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nX: ",
		"endless headers":      "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n",
	} {
		flood := func(t *testing.T) {
			conn := b.dial()
			defer conn.Close()
			go func() {
				io.WriteString(conn, start)
				piece := strings.Repeat("a", 32<<10)
				if name == "endless headers" {
					piece = strings.Repeat("X-Another: value\r\n", 2000)
				}
				for range 300 << 20 / len(piece) {
					if _, err := io.WriteString(conn, piece); err != nil {
						return
					}
				}
			}()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && resp.StatusCode != 431 && resp.StatusCode != 400 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
		t.Run(name, func(t *testing.T) {
			flood(t) // fills the pools
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			const floods = 40
			for range floods {
				flood(t)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > floods*2*64<<10 {
				t.Errorf("the heap grew by %d", grown)
			}
		})
	}
}

func TestATrailerFloodOverHTTP2IsBounded(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	conn := b.secure(b.connect(host+":443"), host, "h2")
	f := newFramer(t, conn)
	var names strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&names, "x%d,", i)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var drained sync.WaitGroup
	drained.Go(func() { io.Copy(io.Discard, conn) })
	for i := range 50 {
		id := uint32(2*i + 1)
		block := f.headers(":method", "POST", ":scheme", "https", ":authority", host, ":path", "/", "trailer", names.String()[:40000])
		if f.write(id, block) != nil {
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	conn.Close()
	drained.Wait()
}

// framer writes raw HTTP/2 frames.
type framer struct {
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func newFramer(t *testing.T, conn *tls.Conn) *framer {
	t.Helper()
	_, err := io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	f := &framer{Framer: http2.NewFramer(conn, conn)}
	f.enc = hpack.NewEncoder(&f.block)
	must(t, f.WriteSettings())
	return f
}

func (f *framer) headers(pairs ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		f.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(f.block.Bytes())
}

// write writes a header block in frames of 16 KiB.
func (f *framer) write(id uint32, block []byte) error {
	first := block[:min(len(block), 16<<10)]
	rest := block[len(first):]
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0}); err != nil {
		return err
	}
	for len(rest) > 0 {
		next := rest[:min(len(rest), 16<<10)]
		rest = rest[len(next):]
		if err := f.WriteContinuation(id, len(rest) == 0, next); err != nil {
			return err
		}
	}
	return nil
}
