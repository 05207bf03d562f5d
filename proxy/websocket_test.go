package proxy

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWebsocketGivesItsPermitBackAtOnceWhenItsClientCloses(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		c, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, c)
	}
	bubble(t, sites, "sites:\n  - {host: site.test, limits: [{concurrency: 1}]}\n", func(w *bubbleProxy) {
		c, err := w.front.dial(w.t.Context())
		must(t, err)
		io.WriteString(c, "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n")
		buffered := bufio.NewReader(c)
		resp, err := http.ReadResponse(buffered, nil)
		must(t, err)
		if resp.StatusCode != 101 {
			t.Fatal(resp.Status)
		}
		io.WriteString(c, "hello")
		got := make([]byte, len("hello"))
		if _, err := io.ReadFull(buffered, got); err != nil || string(got) != "hello" {
			t.Fatalf("%q %v", got, err)
		}
		done := make(chan clientResult, 1)
		go func() { done <- w.get(w.client(), "http://site.test/") }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.server.Holds("", 1000)); n != 1 {
			t.Fatalf("%d requests wait while the websocket is open", n)
		}
		closed := time.Since(w.began)
		c.Close()
		if a := <-done; a.status != 200 || a.at != closed {
			t.Errorf("%d, %v after the client had closed", a.status, a.at-closed)
		}
	})
}
