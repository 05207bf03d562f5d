package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// byteTest is a proxy with a site whose sockets are measured.
type byteTest struct {
	*testProxy
	*byteMeter
	run sync.WaitGroup
}

// newByteTest starts a site that speaks http, https, h2 or none. Without HTTP the first word
// of a connection says whether the site sends or reads.
func newByteTest(t *testing.T, speaks string, lines ...string) *byteTest {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &byteTest{testProxy: &testProxy{t: t, log: &syncBuffer{}}, byteMeter: &byteMeter{Listener: l}}
	w.patience = time.Minute
	switch speaks {
	case "":
		var live sync.WaitGroup
		live.Go(func() {
			for {
				c, err := w.Accept()
				if err != nil {
					return
				}
				live.Go(func() { serveRaw(c.(*originConn)) })
			}
		})
		t.Cleanup(func() {
			l.Close()
			w.mu.Lock()
			for _, c := range w.conns {
				c.Close()
			}
			w.mu.Unlock()
			live.Wait()
		})
	default:
		srv := httptest.NewUnstartedServer(http.HandlerFunc(serveBytes))
		srv.Listener.Close()
		srv.Listener = w.byteMeter
		srv.Config.ErrorLog = quietLog()
		if speaks == "http" {
			srv.Start()
		} else {
			srv.EnableHTTP2 = speaks == "h2"
			srv.TLS = originTLS("http/1.1")
			if speaks == "h2" {
				srv.TLS = originTLS("h2", "http/1.1")
			}
			srv.StartTLS()
		}
		t.Cleanup(srv.Close)
	}
	lines = append(lines, "timeouts: {drain: 1s}")
	w.start(map[string]string{host + ":80": l.Addr().String(), host + ":443": l.Addr().String()}, lines...)
	t.Cleanup(w.run.Wait)
	t.Cleanup(w.stop)
	return w
}

func serveRaw(c *originConn) {
	defer c.Close()
	word := make([]byte, 6)
	if _, err := io.ReadFull(c, word); err != nil {
		return
	}
	c.mu.Lock()
	c.of = string(word[5:])
	c.mu.Unlock()
	switch string(word[:5]) {
	case "take ":
		io.Copy(io.Discard, c)
		return
	case "echo ":
		io.Copy(c, c)
		return
	case "later": // when a window is used up
		<-time.After(time.Until(time.Now().Truncate(time.Second).Add(2700 * time.Millisecond)))
	}
	for piece := make([]byte, 64<<10); ; {
		if _, err := c.Write(piece); err != nil {
			return
		}
	}
}

func serveBytes(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/take":
		io.Copy(io.Discard, r.Body)
	case "/small":
		rw.Write(make([]byte, 700))
	default:
		for piece := make([]byte, 64<<10); ; {
			if _, err := rw.Write(piece); err != nil {
				return
			}
		}
	}
}

// requestUntilStop sends requests of a client until the proxy stops.
func (w *byteTest) requestUntilStop(c *http.Client, method, u string, length int64) {
	ctx := w.t.Context()
	w.run.Go(func() {
		for ctx.Err() == nil {
			var body io.Reader
			if length != 0 {
				body = io.LimitReader(zeros{}, length)
			}
			r, err := http.NewRequestWithContext(ctx, method, u, body)
			if err != nil {
				w.t.Error(err)
				return
			}
			r.ContentLength = length
			resp, err := c.Do(r)
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || err != nil {
				return
			}
		}
	})
}

// tunnel opens a tunnel from a local address and writes word.
func (w *byteTest) tunnel(from, word string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", w.addr)
	must(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", host, host)
	head := make([]byte, len(established))
	if _, err := io.ReadFull(c, head); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
		w.t.Fatalf("%q, %v", head, err)
	}
	io.WriteString(c, word)
	return c
}

// openTunnel reads what comes through a tunnel, or sends without an end.
func (w *byteTest) openTunnel(from, word string) {
	c := w.tunnel(from, word)
	w.run.Go(func() {
		if strings.HasPrefix(word, "take") {
			io.Copy(c, zeros{})
			return
		}
		io.Copy(io.Discard, c)
	})
}

// clients are n clients. Over HTTP/1 a client has one connection to each host, over HTTP/2
// one with many requests.
func (w *byteTest) clients(n int, h2 bool) []*http.Client {
	var all []*http.Client
	for range n {
		all = append(all, w.client(h2))
	}
	return all
}

const (
	someBytes = 200_000
	someTime  = 500 * time.Millisecond
)

// kinds are the ways by which bytes pass.
var kinds = []struct {
	name, speaks, intercept string
	conns                   int
	begin                   func(w *byteTest)
}{
	{"plain", "http", "none", 1, func(w *byteTest) { w.requestUntilStop(w.client(false), "GET", "http://"+host+"/", 0) }},
	{"plain, four clients", "http", "none", 4, func(w *byteTest) {
		for _, c := range w.clients(4, false) {
			w.requestUntilStop(c, "GET", "http://"+host+"/", 0)
		}
	}},
	{"plain, small answers", "http", "none", 8, func(w *byteTest) {
		for _, c := range w.clients(8, false) {
			w.requestUntilStop(c, "GET", "http://"+host+"/small", 0)
		}
	}},
	{"plain upload", "http", "none", 1, func(w *byteTest) { w.requestUntilStop(w.client(false), "POST", "http://"+host+"/take", 1<<30) }},
	{"https", "https", "all", 1, func(w *byteTest) { w.requestUntilStop(w.client(false), "GET", "https://"+host+"/", 0) }},
	{"https, small answers", "https", "all", 8, func(w *byteTest) {
		for _, c := range w.clients(8, false) {
			w.requestUntilStop(c, "GET", "https://"+host+"/small", 0)
		}
	}},
	// Their handshakes take more than what is left beside what is kept for their answers.
	{"https, small answers to forty", "https", "all", 40, func(w *byteTest) {
		for _, c := range w.clients(40, false) {
			w.requestUntilStop(c, "GET", "https://"+host+"/small", 0)
		}
	}},
	{"https upload", "https", "all", 1, func(w *byteTest) { w.requestUntilStop(w.client(false), "POST", "https://"+host+"/take", 1<<30) }},
	{"h2, four streams", "h2", "all", 1, func(w *byteTest) {
		for _, c := range w.clients(4, true) {
			w.requestUntilStop(c, "GET", "https://"+host+"/", 0)
		}
	}},
	{"h2, small answers", "h2", "all", 1, func(w *byteTest) {
		for _, c := range w.clients(8, true) {
			w.requestUntilStop(c, "GET", "https://"+host+"/small", 0)
		}
	}},
	{"h2 upload", "h2", "all", 1, func(w *byteTest) { w.requestUntilStop(w.client(true), "POST", "https://"+host+"/take", 1<<30) }},
	{"tunnel", "", "none", 1, func(w *byteTest) { w.openTunnel("127.0.0.1", "flooda") }},
	{"tunnels up and down", "", "none", 4, func(w *byteTest) {
		w.openTunnel("127.0.0.1", "flooda")
		w.openTunnel("127.0.0.1", "take a")
		w.openTunnel("127.0.0.2", "floodb")
		w.openTunnel("127.0.0.2", "take b")
	}},
}

// measureTime is for how long each kind is measured.
const measureTime = 8 * someTime

func TestNoWindowHasMoreBytesThanItsLimit(t *testing.T) {
	for some := range slices.Chunk(kinds, 5) { // at once, for they hardly do anything
		retryOnSlowMachine(t, some[0].name, func(t *testing.T) bool {
			all, enough := make([]*byteTest, len(some)), true
			for i, k := range some {
				all[i] = newByteTest(t, k.speaks, "intercept: "+k.intercept, limitsOf("{bytes: 200kB, per: 500ms}"))
				k.begin(all[i])
			}
			measureAll(all)
			for i, k := range some {
				byteVerdict := all[i].windows(t, "", someBytes, someTime)
				enough = all[i].check(t, k.name, k.conns, byteVerdict.over, byteVerdict.used) && enough
			}
			return enough
		})
	}
}

// retryOnSlowMachine measures up to ten times whether enough of a limit is used, because
// the machine may be busy. Exceeding a limit fails at once.
func retryOnSlowMachine(t *testing.T, name string, look func(*testing.T) (enough bool)) {
	t.Helper()
	for range 10 {
		enough := true
		if !t.Run(name, func(t *testing.T) { enough = look(t) }) || enough {
			return
		}
	}
	t.Errorf("%s: more than a limit passed, or not enough of it was used", name)
}

// measureAll measures several sites at once.
func measureAll(all []*byteTest) {
	var looking sync.WaitGroup
	until := time.Now().Add(measureTime)
	for _, w := range all {
		looking.Go(func() { w.measure(until) })
	}
	looking.Wait()
}

// check compares the measured bytes with the limit: receive buffers of connections may
// exceed it, and a few percent may be unused.
func (w *byteTest) check(t *testing.T, what string, conns int, over int64, used float64) (enough bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%s: %d connections, at most %d bytes beyond the limit, %.1f %% used", what, len(w.conns), over, 100*used)
	if len(w.conns) > conns {
		t.Errorf("%s: %d connections, not %d", what, len(w.conns), conns)
	}
	if most := int64(conns) * buffer; over > most {
		t.Errorf("%s: %d bytes beyond the limit came, and at most %d may", what, over, most)
	}
	least := 0.95
	switch {
	case strings.Contains(what, "small"):
		least = 0.5 // clients that wait for each response may use no more
	case strings.Contains(what, "rolling"):
		least = 0.75 // the window drifts, so that one of six windows of the clock may have nothing
	}
	return used >= least || used >= 0 && raced // under the race detector everything is slow
}

func TestNoIntervalHasMoreBytesThanItsLimit(t *testing.T) { retryOnSlowMachine(t, "all", inIntervals) }

func inIntervals(t *testing.T) bool {
	type kind struct {
		limit   string
		allowed func(time.Duration) int64
	}
	rolling := kind{
		"{bytes: 200kB, per: 500ms, as: rolling}",
		func(d time.Duration) int64 { return someBytes * (1 + int64(d/someTime)) },
	}
	bucket := kind{
		"{bytes: 200kB, per: 500ms, as: bucket, burst: 64KiB}",
		func(d time.Duration) int64 { return 64<<10 + int64(someBytes*d.Seconds()/someTime.Seconds()) },
	}
	var all []*byteTest
	kinds := []kind{rolling, rolling, rolling, bucket, bucket, bucket}
	for i, k := range kinds {
		var w *byteTest
		switch i % 3 {
		case 0:
			w = newByteTest(t, "", "intercept: none", limitsOf(k.limit))
			w.openTunnel("127.0.0.1", "flooda")
		case 1:
			w = newByteTest(t, "h2", "intercept: all", limitsOf(k.limit))
			w.requestUntilStop(w.client(true), "GET", "https://"+host+"/", 0)
		default:
			w = newByteTest(t, "http", "intercept: none", limitsOf(k.limit))
			w.requestUntilStop(w.client(false), "GET", "http://"+host+"/", 0)
		}
		all = append(all, w)
	}
	measureAll(all)
	enough := true
	for i, k := range kinds {
		enough = all[i].check(t, k.limit, 1, all[i].intervals("", k.allowed), all[i].windows(t, "", someBytes, someTime).used) && enough
	}
	return enough
}

func TestSeveralLimitsOfBytesHoldAtOnce(t *testing.T) { retryOnSlowMachine(t, "all", inSeveral) }

func inSeveral(t *testing.T) bool {
	two := newByteTest(t, "http", "intercept: none", limitsOf("{bytes: 200kB, per: 500ms}, {bytes: 300kB, per: 1s}"))
	for _, c := range two.clients(2, false) {
		two.requestUntilStop(c, "GET", "http://"+host+"/", 0)
	}
	each := newByteTest(t, "", "intercept: auto", limitsOf("{bytes: 200kB, per: 500ms, by: client}"))
	each.openTunnel("127.0.0.1", "flooda")
	each.openTunnel("127.0.0.2", "floodb")
	each.openTunnel("127.0.0.2", "floodb")
	measureAll([]*byteTest{two, each})
	short, long := two.windows(t, "", someBytes, someTime), two.windows(t, "", 300_000, 2*someTime)
	enough := two.check(t, "two limits", 2, max(short.over, long.over), long.used)
	a, b := each.windows(t, "a", someBytes, someTime), each.windows(t, "b", someBytes, someTime)
	if a.over > buffer || b.over > 2*buffer {
		t.Errorf("%d and %d bytes beyond the limit", a.over, b.over)
	}
	return each.check(t, "each client's", 3, max(a.over, b.over), min(a.used, b.used)) && enough
}
