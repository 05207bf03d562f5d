package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/abide-proxy/abide/status"
)

// TestTheStoreIsNotReachedThroughTheProxy checks that for a store on this machine, by all
// names of its address, by CONNECT and by plain http.
func TestTheStoreIsNotReachedThroughTheProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var reached atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		b := newTestProxy(t, "egress: {ports: any}", fmt.Sprintf("store: redis://%s:%d", host, port))
		for _, name := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0", "[::]", "[::127.0.0.1]"} {
			authority := fmt.Sprintf("%s:%d", name, port)
			for _, request := range []string{
				"CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n",
				"CONNECT " + name + fmt.Sprintf(":0%d", port) + " HTTP/1.1\r\nHost: x\r\n\r\n",
				"GET http://" + authority + "/ HTTP/1.1\r\nHost: " + authority + "\r\n\r\n",
			} {
				conn := b.dial()
				fmt.Fprint(conn, request)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				must(t, err)
				if resp.StatusCode < 400 {
					t.Errorf("store at %s, %.40q: %d", host, request, resp.StatusCode)
				}
				conn.Close()
			}
			var denied *status.Denied
			if _, err := b.server.Permit(t.Context(), status.PermitAsk{URL: "http://" + authority + "/", Priority: -1}); err == nil || errors.As(err, &denied) && denied.Status != 508 && denied.Status != 403 {
				t.Errorf("store at %s, a permit for %s: %v, %+v", host, authority, err, denied)
			}
		}
		b.stop()
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the store was reached %d times", n)
	}
}
