//go:build unix

package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestABrokenSiteIsShownWhereOperatorsLook(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `
egress: {resolve: {"ill.test:80": "`+hangUp(t)+`"}}
retry: {attempts: 0}
breaker: {failures: 1, pause: 1h}
`)
	d := serveIn(t, dir, nil)
	if code, body := d.get("http://ill.test/"); code != 502 {
		t.Fatalf("%d %s", code, body)
	}
	d.log.await(t, `ill\.test is left alone for 1s and then tried again: failures in a row: 1, the last because the host closed the connection before it answered`)
	for path, want := range map[string]string{
		"/metrics":       `abide_breaker_state{site="ill.test"} 2`,
		"/api/v1/status": `"breakers":[{"site":"ill.test","state":"open","until":"`,
		"/":              `class="bad">ill.test</th><td class="text">left alone: the host closed the connection before it answered</td><td>tried again in `,
	} {
		// The circuit is open for a second, and then again for longer.
		shown, refused, answer := false, false, ""
		for end := time.Now().Add(patience); !shown && time.Now().Before(end); {
			code, body := d.get("http://ill.test/")
			refused = code == 503 && strings.Contains(body, "the last time because the host closed the connection")
			_, answer = d.ask(path)
			shown = refused && strings.Contains(answer, want)
		}
		if !shown {
			t.Errorf("refused: %v; %s lacks %s:\n%s", refused, path, want, answer)
		}
	}
}

// hangUp is the address of a site that ends every connection unanswered.
func hangUp(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String()
}
