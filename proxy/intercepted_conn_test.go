package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// TestClientLeavesInsideTLS checks that abide notices a client that leaves while its request
// is at the site: with a close_notify alert or without, and also on the connection's later
// requests.
func TestClientLeavesInsideTLS(t *testing.T) {
	for name, leave := range map[string]func(*tls.Conn){
		"with a goodbye": func(c *tls.Conn) { c.Close() },
		"without":        func(c *tls.Conn) { c.NetConn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all")
			came, left := make(chan struct{}, 1), make(chan struct{}, 1)
			b.handle(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/at-once" {
					return
				}
				came <- struct{}{}
				select {
				case <-r.Context().Done():
					left <- struct{}{}
				case <-time.After(5 * time.Minute):
				}
			})
			conn := b.open(viaInterception).(*tls.Conn)
			in := bufio.NewReader(conn)
			for range 3 {
				fmt.Fprintf(conn, "GET /at-once HTTP/1.1\r\nHost: %s\r\n\r\n", host)
				resp, err := http.ReadResponse(in, nil)
				must(t, err)
				io.Copy(io.Discard, resp.Body)
			}
			fmt.Fprintf(conn, "GET /never HTTP/1.1\r\nHost: %s\r\n\r\n", host)
			<-came
			leave(conn)
			select {
			case <-left:
			case <-time.After(5 * time.Minute):
				t.Error("the site was not told that the client has left")
			}
		})
	}
}

// TestRequestsBehindOneAnotherInsideTLS checks that bytes that a client sends before it has
// a response are not lost, in one TLS record or in several, bodies included.
func TestRequestsBehindOneAnotherInsideTLS(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, text)
	})
	get := func(i int) string { return fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, host) }
	post := func(i int) string {
		return fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: %s\r\nContent-Length: 3\r\n\r\nabc", i, host)
	}
	for name, pieces := range map[string][]string{
		"one piece":   {get(0) + get(1) + post(2) + get(3)},
		"pieces":      {get(0), get(1), post(2), get(3)},
		"odd pieces":  {get(0)[:9], get(0)[9:] + "G", get(1)[1:] + post(2)[:len(post(2))-1], "c" + get(3)},
		"a last byte": {get(0) + get(1) + post(2) + get(3)[:len(get(3))-1], "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := b.open(viaInterception)
			for _, piece := range pieces {
				_, err := io.WriteString(conn, piece)
				must(t, err)
			}
			in := bufio.NewReader(conn)
			for i, want := range []string{"/0 ", "/1 ", "/2 abc", "/3 "} {
				resp, err := http.ReadResponse(in, nil)
				must(t, err)
				text, err := io.ReadAll(resp.Body)
				must(t, err)
				if string(text) != want {
					t.Errorf("answer %d is %q, not %q", i, text, want)
				}
			}
		})
	}
}

// TestOpenedShowsTLS checks that a search for the connection below finds the TLS connection
// first: a relay would pass on encrypted bytes otherwise.
func TestOpenedShowsTLS(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	under := &clientConn{Conn: near}
	o := &interceptedConn{Conn: tls.Server(under, &tls.Config{}), client: under}
	if _, ok := o.NetConn().(*tls.Conn); !ok {
		t.Errorf("below is a %T", o.NetConn())
	}
	if bareConn(o) != under {
		t.Error("the client's connection is not found")
	}
}

// deadlines records the write deadlines that are set.
type deadlines struct {
	net.Conn
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.set = append(d.set, t); return nil }
func (d *deadlines) SetReadDeadline(time.Time) error    { return nil }
func (d *deadlines) Write(p []byte) (int, error)        { return len(p), nil }

// TestWriteDeadlineStays checks that the write deadline is not set for each response, and is
// removed when the connection gets another owner.
func TestWriteDeadlineStays(t *testing.T) {
	d := &deadlines{}
	c := &clientConn{Conn: d, writes: writeDeadline{stall: time.Hour}}
	for range 5 {
		c.Write([]byte("answer"))
		c.SetWriteDeadline(time.Time{})
	}
	if len(d.set) != 1 || time.Until(d.set[0]) < time.Minute {
		t.Fatalf("set %v", d.set)
	}
	c.SetDeadline(time.Time{})
	if len(d.set) != 2 || !d.set[1].IsZero() {
		t.Errorf("then set %v", d.set[1:])
	}
	soon := time.Now().Add(time.Second)
	c.SetWriteDeadline(soon) // set by the caller
	c.SetWriteDeadline(time.Time{})
	if len(d.set) != 4 || !d.set[2].Equal(soon) || !d.set[3].IsZero() {
		t.Errorf("at last set %v", d.set[2:])
	}
}

// TestStripHopFewAndMany checks that the same fields are removed from short and long
// headers.
func TestStripHopFewAndMany(t *testing.T) {
	for _, more := range []int{0, 1, 8, 24} {
		for _, name := range hopByHop {
			h := http.Header{name: {"x"}, "X-Stays": {"y"}}
			for i := range more {
				h[fmt.Sprintf("X-More-%d", i)] = []string{"z"}
			}
			stripHop(h)
			if len(h) != more+1 || h["X-Stays"] == nil {
				t.Errorf("%s among %d: left %v", name, more, h)
			}
		}
	}
}

// TestAwaitHearsDeadlines checks that waitReadable ends with the read deadline, as Read
// does.
func TestAwaitHearsDeadlines(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer far.Close()
	near, err := l.Accept()
	must(t, err)
	defer near.Close()
	c := &clientConn{Conn: near}
	if upstream.RawConn(near) == nil {
		return // this system cannot tell without reading
	}
	c.SetReadDeadline(time.Unix(1, 0))
	if err := c.waitReadable(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline that has passed: %v", err)
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	far.Write([]byte("x"))
	if err := c.waitReadable(); err != nil {
		t.Errorf("with something to be read: %v", err)
	}
	if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("what was there: %d bytes, %v", n, err)
	}
	far.Close()
	if err := c.waitReadable(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}
