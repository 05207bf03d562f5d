//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNoAttemptIsSpentOnADeadBackendWhileAnotherWorks(t *testing.T) {
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(50 * time.Millisecond) }))
	defer well.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	for _, order := range []string{`"%[1]s", "http://%[2]s"`, `"http://%[2]s", "%[1]s"`} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
egress: {allow: [127.0.0.0/8]}
sites:
  - host: api.test
    backends: [`+order+"]\n", well.URL, dead))
		d := serveIn(t, dir, nil)
		var requests sync.WaitGroup
		for range 25 {
			requests.Go(func() {
				if code, body := d.get("http://api.test/"); code != 200 {
					t.Errorf("%s: %d %s", strings.ReplaceAll(order, dead, "dead"), code, body)
				}
			})
		}
		requests.Wait()
	}
}
