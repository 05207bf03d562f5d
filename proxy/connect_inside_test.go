package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestAConnectInsideOneIsTheEndOfTheConnection checks that the bytes after a CONNECT that is
// refused are not read as a request.
func TestAConnectInsideOneIsTheEndOfTheConnection(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths[1:] {
		conn := b.open(w)
		fmt.Fprintf(conn, "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\nGET /inside HTTP/1.1\r\nHost: api.test\r\n\r\n")
		all, _ := io.ReadAll(conn)
		if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(all), "HTTP/1.1 501 ") {
			t.Errorf("over %s: %q", w, all)
		}
	}
	if n := b.served.Load(); n != 0 {
		t.Errorf("%d requests reached the site", n)
	}
}

func TestAnExpectationThatNobodyKnowsIsRefused(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths {
		conn := b.open(w)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\nExpect: 200-ok\r\n\r\n", w.line("/"))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if resp.StatusCode != 417 {
			t.Errorf("over %s: %d", w, resp.StatusCode)
		}
	}
	for expect, want := range map[string]string{"200-ok": "417", "100-continue": "200", "100-Continue": "200"} {
		a := b.abuse()
		a.request("/")
		a.enc.WriteField(hpack.HeaderField{Name: "expect", Value: expect})
		must(t, a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bytes.Clone(a.head.Bytes()), EndStream: true, EndHeaders: true}))
		a.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		var got string
		must(t, a.readUntil(func(f http2.Frame) bool {
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				got = h.PseudoValue("status")
			}
			return got != "" && got != "100"
		}))
		if got != want {
			t.Errorf("%q over HTTP/2: %s, not %s", expect, got, want)
		}
		a.conn.Close()
	}
}

// TestZerosInFrontOfAPortMeanNothing checks that leading zeros of a port change nothing for
// rules, egress.ports and the target of an intercepted connection.
func TestZerosInFrontOfAPortMeanNothing(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "sites: [{host: api.test, limits: [{requests: 100, per: 1m}]}]", "abide: {headers: true}")
	for _, port := range []string{":80", ":080", ":00080", ":0000000000080"} {
		resp, _ := sendRaw(t, b.dial(), "GET http://api.test"+port+"/ HTTP/1.1\r\nHost: api.test"+port+"\r\n\r\n")
		if resp.StatusCode != 200 || resp.Header.Get("Abide-Site") != "api.test" {
			t.Errorf("%s: %d %v", port, resp.StatusCode, resp.Header)
		}
	}
	for _, port := range []string{":443", ":00443", ":0000000443"} {
		conn := b.secure(b.connect("api.test"+port), host, "http/1.1")
		resp, _ := sendRaw(t, conn, "GET / HTTP/1.1\r\nHost: api.test"+port+"\r\n\r\n")
		if resp.StatusCode != 200 || resp.Header.Get("Abide-Site") != "api.test" {
			t.Errorf("%s: %d %v", port, resp.StatusCode, resp.Header)
		}
	}
}
