package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// difference is an origin, and what is asked of it through http.Transport and
// through ours. They have to send the same and hand on the same.
type difference struct {
	name  string
	lists [][]step
	asks  []asked
	// stricter says that http.Transport believes this answer and we do not.
	stricter bool
	// once says that http.Transport sends again by itself what may have arrived,
	// and that we leave this to the caller.
	once bool
}

type asked struct {
	method string
	target string
	body   func() io.Reader
	edit   func(*http.Request)
	leave  bool // closes the body without reading it
}

func once(answer string) [][]step { return [][]step{{{answer: answer}}} }

func thenCloses(answer string) [][]step { return [][]step{{{answer: answer, close: true}}} }

// get asks n times, so that the reuse of the connection shows.
func get(n int) (asks []asked) {
	for range n {
		asks = append(asks, asked{method: http.MethodGet, target: "/a?b=c"})
	}
	return asks
}

// keeps answers n requests on a connection.
func keeps(n int, answer string) [][]step {
	var list []step
	for range n {
		list = append(list, step{answer: answer})
	}
	return [][]step{list}
}

const ok5 = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func streamed(s string) func() io.Reader {
	return func() io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }
}

func inMemory(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

var differences = []difference{
	{name: "length", lists: keeps(3, ok5), asks: get(3)},
	{name: "no reason", lists: once("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), asks: get(1)},
	{name: "empty reason", lists: once("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"), asks: get(1)},
	{name: "odd status", lists: once("HTTP/1.1 799 Very Odd\r\nContent-Length: 2\r\n\r\nhi"), asks: get(1)},
	{name: "repeated fields", lists: once("HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX:\r\nContent-Length: 0\r\nSET-COOKIE: c\r\n\r\n"), asks: get(1)},
	{name: "spaces around values", lists: once("HTTP/1.1 200 OK\r\nA:   b c \t \r\nContent-Length:  2 \r\n\r\nhi"), asks: get(1)},
	{name: "same length twice", lists: keeps(2, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), asks: get(2)},
	{name: "chunked", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), asks: get(2)},
	{name: "chunk extensions", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=b;c=\"d\"\r\nabc\r\n000a  \r\n0123456789\r\n0;last\r\n\r\n"), asks: get(2)},
	{name: "trailers", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, x-other\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\nX-Other: 3\r\n\r\n"), asks: get(2)},
	{name: "unannounced trailers", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"), asks: get(2)},
	{name: "announced trailers that do not come", lists: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\n\r\n"), asks: get(1)},
	{name: "until close", lists: thenCloses("HTTP/1.1 200 OK\r\nX: y\r\n\r\nall of it"), asks: get(2)},
	{name: "until close and empty", lists: thenCloses("HTTP/1.1 200 OK\r\n\r\n"), asks: get(1)},
	{name: "says close", lists: thenCloses("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"), asks: get(3)},
	{name: "says close but stays", lists: keeps(3, "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 5\r\n\r\nhello"), asks: get(2)},
	{name: "HTTP/1.0", lists: thenCloses("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"), asks: get(2)},
	{name: "HTTP/1.0 keep-alive", lists: keeps(3, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"), asks: get(3)},
	{name: "HTTP/1.0 until close", lists: thenCloses("HTTP/1.0 200 OK\r\n\r\nhello"), asks: get(1)},
	{name: "HTTP/1.0 chunked", lists: thenCloses("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), asks: get(1), stricter: true},
	{name: "204", lists: keeps(2, "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"), asks: get(2)},
	{name: "204 with a length", lists: keeps(2, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"), asks: get(2)},
	{name: "304 with a length", lists: keeps(2, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nEtag: \"x\"\r\n\r\n"), asks: get(2)},
	{name: "304 chunked", lists: keeps(2, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"), asks: get(2)},
	{name: "HEAD with a length", lists: keeps(2, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"), asks: []asked{{method: "HEAD", target: "/"}, {method: "HEAD", target: "/"}}},
	{name: "HEAD chunked", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), asks: []asked{{method: "HEAD", target: "/"}, {method: "HEAD", target: "/"}}},
	{name: "HEAD without a length", lists: keeps(2, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"), asks: []asked{{method: "HEAD", target: "/"}, {method: "HEAD", target: "/"}}},
	{name: "100 unasked", lists: keeps(2, "HTTP/1.1 100 Continue\r\n\r\n"+ok5), asks: get(2)},
	{name: "103", lists: keeps(2, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"+ok5), asks: get(2)},
	{name: "102 then 100", lists: once("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok5), asks: get(1)},
	{name: "101 as asked", lists: once("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"), asks: []asked{{method: "GET", target: "/ws", leave: true, edit: func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	}}}},
	{name: "101 refused", lists: keeps(2, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"), asks: []asked{{method: "GET", target: "/ws", edit: func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	}}}},
	{name: "truncated length", lists: thenCloses("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"), asks: get(1)},
	{name: "truncated chunk", lists: thenCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), asks: get(1)},
	{name: "truncated between chunks", lists: thenCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), asks: get(1)},
	{name: "truncated after the last chunk", lists: thenCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"), asks: get(1)},
	{name: "truncated head", lists: thenCloses("HTTP/1.1 200 OK\r\nContent-Le"), asks: get(1)},
	{name: "nothing at all", lists: thenCloses(""), asks: get(1)},
	{name: "nothing of HTTP", lists: thenCloses("SSH-2.0-OpenSSH_9.9\r\n"), asks: get(1)},
	{name: "HTTP/2 in the clear", lists: thenCloses("HTTP/2.0 200 OK\r\n\r\n"), asks: get(1), stricter: true},
	{name: "bad chunk size", lists: thenCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"), asks: get(1)},
	{name: "chunk longer than its size", lists: thenCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"), asks: get(1)},
	{name: "bytes after the answer", lists: keeps(2, ok5+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), asks: get(2)},
	{name: "body left unread", lists: keeps(2, "HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n"+strings.Repeat("x", 500000)), asks: []asked{{method: "GET", target: "/", leave: true}, {method: "GET", target: "/"}}},
	{name: "large", lists: keeps(2, "HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n"+strings.Repeat("x", 500000)), asks: get(2)},
	{name: "large chunks", lists: keeps(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.Repeat("1000\r\n"+strings.Repeat("y", 4096)+"\r\n", 50)+"0\r\n\r\n"), asks: get(2)},
	{name: "long head", lists: keeps(2, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 100_000)+"\r\nContent-Length: 5\r\n\r\nhello"), asks: get(2)},
	{name: "many fields", lists: once("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Field: some value\r\n", 500) + "Content-Length: 5\r\n\r\nhello"), asks: get(1)},
	{name: "obs-text", lists: once("HTTP/1.1 200 Gr\xfc\xdfe\r\nX: \xe4\xff\r\nContent-Length: 0\r\n\r\n"), asks: get(1)},

	{name: "POST in memory", lists: keeps(2, ok5), asks: []asked{{method: "POST", target: "/p", body: inMemory("data")}, {method: "POST", target: "/p", body: inMemory("more")}}},
	{name: "POST large", lists: keeps(2, ok5), asks: []asked{{method: "POST", target: "/p", body: inMemory(strings.Repeat("d", 300_000))}, {method: "POST", target: "/p", body: inMemory("x")}}},
	{name: "POST streamed", lists: keeps(2, ok5), asks: []asked{{method: "POST", target: "/p", body: streamed("some data")}, {method: "PUT", target: "/p", body: streamed(strings.Repeat("z", 100_000))}}},
	{name: "POST streamed with a length", lists: keeps(2, ok5), asks: []asked{{method: "POST", target: "/p", body: streamed("some data"), edit: func(r *http.Request) { r.ContentLength = 9 }}}},
	{name: "POST without a body", lists: keeps(4, ok5), asks: []asked{{method: "POST", target: "/p"}, {method: "PUT", target: "/p"}, {method: "PATCH", target: "/p"}, {method: "DELETE", target: "/p"}}},
	{name: "POST with http.NoBody", lists: keeps(1, ok5), asks: []asked{{method: "POST", target: "/p", edit: func(r *http.Request) { r.Body = http.NoBody }}}},
	{name: "GET with a body", lists: keeps(1, ok5), asks: []asked{{method: "GET", target: "/", body: inMemory("why not")}}},
	{name: "request trailers", lists: keeps(1, ok5), asks: []asked{{method: "POST", target: "/", body: streamed("data"), edit: func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"7"}} }}}},
	{name: "a body shorter than it says", lists: keeps(1, ok5), asks: []asked{{method: "POST", target: "/", body: streamed("data"), edit: func(r *http.Request) { r.ContentLength = 10 }}}},
	{name: "a body that breaks", lists: keeps(1, ok5), asks: []asked{{method: "POST", target: "/", body: func() io.Reader {
		return io.MultiReader(strings.NewReader("da"), brokenReader{})
	}}}},
	{name: "Expect", lists: [][]step{{{early: "HTTP/1.1 100 Continue\r\n\r\n", answer: ok5}}}, asks: []asked{{method: "POST", target: "/", body: inMemory("data"), edit: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }}}},
	{name: "request says close", lists: keeps(2, ok5), asks: []asked{{method: "GET", target: "/", edit: func(r *http.Request) { r.Close = true }}, {method: "GET", target: "/"}}},
	{name: "asterisk", lists: keeps(1, ok5), asks: []asked{{method: "OPTIONS", edit: func(r *http.Request) { r.URL.Opaque = "*" }}}},
	{name: "odd targets", lists: keeps(4, ok5), asks: []asked{{method: "GET", target: ""}, {method: "GET", target: "/%2f%20a;b=c?x=%20&&y"}, {method: "GET", target: "?"}, {method: "GET", target: "/ä"}}},
	{name: "odd method", lists: keeps(1, ok5), asks: []asked{{method: "PROPFIND", target: "/dav"}}},
	{name: "own host", lists: keeps(1, ok5), asks: []asked{{method: "GET", target: "/", edit: func(r *http.Request) { r.Host = "other.test" }}}},
	{name: "closed after each answer", lists: [][]step{{{answer: ok5, close: true}}}, asks: get(4)},
	{name: "closed under the second request", lists: [][]step{{{answer: ok5}, {close: true}}, {{answer: ok5}}}, asks: get(2), once: true},
	{name: "reset under the second request", lists: [][]step{{{answer: ok5}, {reset: true}}, {{answer: ok5}}}, asks: get(2), once: true},
	{name: "refused early", lists: [][]step{{{early: "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig", blind: true, close: true}}}, asks: []asked{{method: "POST", target: "/", body: streamed("some data")}}},
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, net.ErrClosed }

func TestTheTransportDoesWhatHTTPTransportDoes(t *testing.T) {
	server, client := certified(t)
	for _, d := range differences {
		for _, config := range []*tls.Config{nil, server} {
			name := d.name
			if config != nil {
				name += " over TLS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ours := newTransport(t)
				ours.TLS = client
				std := &http.Transport{
					DisableCompression: true, MaxIdleConnsPerHost: 10, ResponseHeaderTimeout: 10 * time.Second,
					TLSClientConfig: client.Clone(),
				}
				defer std.CloseIdleConnections()

				want, wantFailed := d.run(t, std, config)
				got, failed := d.run(t, ours, config)
				if d.stricter {
					if !failed {
						t.Fatalf("believed:\n%s", got)
					}
					return
				}
				if d.once {
					if wantFailed || !failed {
						t.Fatalf("http.Transport:\n%s\nours:\n%s", want, got)
					}
					return
				}
				if failed != wantFailed || got != want {
					t.Fatalf("http.Transport:\n%s\nours:\n%s", want, got)
				}
			})
		}
	}
}

// run tells all that the caller and the origin saw.
func (d *difference) run(t *testing.T, rt http.RoundTripper, config *tls.Config) (all string, failed bool) {
	s := playingOver(t, config, d.lists...)
	origin := "http://" + s.addr
	if config != nil {
		origin = "https://" + s.addr
	}
	var b strings.Builder
	for _, a := range d.asks {
		var body io.Reader
		if a.body != nil {
			body = a.body()
		}
		req := newRequest(t, a.method, origin+a.target, body)
		if a.edit != nil {
			a.edit(req)
		}
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code != http.StatusContinue {
				fmt.Fprintf(&b, "early %d\n", code)
				describeHeader(&b, "  ", http.Header(header))
			}
			return nil
		}}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
		failed = describe(&b, rt, req, a.leave) || failed
		if len(d.lists[0]) > 0 && d.lists[0][0].close {
			<-s.ended
		}
	}
	if failed {
		return b.String(), true // how far the origin got is chance
	}
	if d.name != "refused early" && d.name != "bytes after the answer" {
		fmt.Fprintf(&b, "origin, %d connections:\n%s", s.connections(), strings.ReplaceAll(strings.Join(s.requests(), ""), s.addr, "ORIGIN"))
	}
	return b.String(), false
}

func describe(b *strings.Builder, rt http.RoundTripper, req *http.Request, leave bool) (failed bool) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		b.WriteString("error\n")
		return true
	}
	defer resp.Body.Close()
	fmt.Fprintf(b, "%s %q %d length=%d coding=%v close=%v none=%v\n", resp.Proto, resp.Status, resp.StatusCode, resp.ContentLength,
		resp.TransferEncoding, resp.Close, resp.Body == http.NoBody)
	// http.Transport drops Connection where it says close. What else it names
	// is not for the client either, so whoever forwards the answer needs it.
	resp.Header.Del("Connection")
	describeHeader(b, "< ", resp.Header)
	describeHeader(b, "announced ", resp.Trailer)
	if leave {
		return false
	}
	body, err := io.ReadAll(resp.Body)
	fmt.Fprintf(b, "%q whole=%v\n", shortened(body), err == nil)
	describeHeader(b, "trailer ", resp.Trailer)
	return err != nil
}

func shortened(body []byte) []byte {
	if len(body) < 100 {
		return body
	}
	return fmt.Appendf(nil, "%d bytes of %q: %v", len(body), body[:1], bytes.Count(body, body[:1]) == len(body))
}

func TestAnAnswerIsHandedOnAsItComes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	more := make(chan string)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadAtLeast(c, make([]byte, 4096), 10)
		for s := range more {
			io.WriteString(c, s)
		}
	}()
	defer close(more)
	send := func(s string) { more <- s }
	go send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	req := newRequest(t, "GET", "http://"+l.Addr().String()+"/", nil)
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	resp, err := newTransport(t).RoundTrip(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 100)
	for _, s := range []string{"one", "two"} {
		send(fmt.Sprintf("%x\r\n%s\r\n", len(s), s))
		n, err := resp.Body.Read(buf)
		if err != nil || string(buf[:n]) != s {
			t.Fatalf("read %q, %v, want %q", buf[:n], err, s)
		}
	}
}
