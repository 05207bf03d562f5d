package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Options that a client gives in CONNECT apply to the requests inside; a request's own
// options take precedence.
func TestWishesOfAConnectHoldForTheRequestsInside(t *testing.T) {
	b := newTestProxy(t, "sites: [{host: "+host+", limits: [{cost: 10, per: 10m}]}]")
	b.handle(func(rw http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Abide-") {
				t.Errorf("the site was told %s", name)
			}
		}
	})
	connect := func(extra string) (*http.Response, net.Conn) {
		conn := b.dial()
		fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n%s\r\n", host, host, extra)
		resp, err := http.ReadResponse(bufio.NewReaderSize(byteReader{conn}, 16), &http.Request{Method: "CONNECT"})
		must(t, err)
		return resp, conn
	}
	if resp, _ := connect("Abide-Priority: high\r\n"); resp.StatusCode != 400 {
		t.Errorf("a wish that makes no sense: %d", resp.StatusCode)
	}
	_, conn := connect("Abide-Cost: 11\r\n")
	inside := b.secure(conn, host, "http/1.1")
	for _, c := range []struct {
		own  string
		want int
	}{{"", 429}, {"Abide-Cost: 2\r\n", 200}} {
		resp, body := sendRaw(t, inside, "GET / HTTP/1.1\r\nHost: "+host+"\r\n"+c.own+"\r\n")
		if resp.StatusCode != c.want {
			t.Errorf("%q: %d %s", c.own, resp.StatusCode, body)
		}
	}
}
