package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/proxy/problem"
)

// A request that net/http refuses by itself gets a problem document too. A response of a
// site that looks like net/http's own is not changed.
func TestEachRefusalOfARequestHasAProblemDocument(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for _, w := range rawPaths {
		for _, one := range []struct {
			head, reason string
			status       int
		}{
			{"GET %s HTTP/1.1\r\nHost: api.test\r\nExpect: 200-ok\r\n\r\n", "expectation", 417},
			{"GET %s HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue,foo\r\nConnection: close\r\n\r\n", "expectation", 417},
			{"POST %s HTTP/1.1\r\nHost: api.test\r\nExpect: foo\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\na", "expectation", 417},
			{"GET %s HTTP/1.1\r\nHost: api.test\r\nbad header\r\n\r\n", "malformed", 400},
			{"GET %s HTTP/1.1\r\nHost: api.test\r\nHost: b.test\r\n\r\n", "malformed", 400},
			{"GET %s HTTP/1.1\r\n\r\n", "malformed", 400},
			{"GET %.0s\r\n\r\n", "malformed", 400},
			{"POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: x\r\n\r\n", "malformed", 400},
			{"POST %s HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip\r\n\r\n", "coding", 501},
			{"GET %s HTTP/3.0\r\nHost: api.test\r\n\r\n", "version", 505},
			{"GET %s HTTP/1.1\r\nHost: api.test\r\nX: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", "large_head", 431},
		} {
			for _, first := range []string{"", "a request before"} {
				conn := b.open(w)
				r := bufio.NewReader(conn)
				if first != "" {
					fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/"))
					resp, err := http.ReadResponse(r, nil)
					must(t, err)
					_, err = io.Copy(io.Discard, resp.Body)
					must(t, err)
				}
				fmt.Fprintf(conn, one.head, w.line("/"))
				resp, err := http.ReadResponse(r, nil)
				must(t, err)
				body, err := io.ReadAll(resp.Body)
				var said problem.Document
				if err != nil || json.Unmarshal(body, &said) != nil || said.Type != "urn:abide:"+one.reason ||
					resp.StatusCode != one.status || said.Status != one.status || !resp.Close ||
					resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(resp.Header.Get("Proxy-Status"), one.reason) {
					t.Errorf("over %s, after %q: %.40q: %d %v %v: %s", w, first, one.head, resp.StatusCode, resp.Header, err, body)
				}
				if _, err := r.ReadByte(); err == nil {
					t.Errorf("over %s: %.40q: more follows", w, one.head)
				}
				conn.Close()
			}
		}
	}
}

func TestAnAnswerOfASiteThatIsLikeNetHTTPsOwnIsTheSites(t *testing.T) {
	const text = "400 Bad Request"
	b := newTestProxy(t, "intercept: all")
	b.handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		w.WriteHeader(400)
		io.WriteString(w, text)
	})
	for _, w := range rawPaths {
		conn := b.open(w)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/"))
		resp, body := readResponse(t, conn, "GET")
		if resp.StatusCode != 400 || body != text {
			t.Errorf("over %s: %d %q", w, resp.StatusCode, body)
		}
	}
}
