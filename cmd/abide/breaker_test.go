//go:build unix

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
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
		"/":              `class="bad"><a href="/?site=ill.test">ill.<wbr>test</a></th><td class="text">left alone: the host closed the connection before it answered; abide itself answered `,
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
	if code, out, errs := d.command("try", "ill.test"); code != 0 || !strings.Contains(out, ": ill.test is asked by one request at once\n") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, errs := d.command("try", "well.test"); code != 1 || !strings.Contains(errs, `"well.test" does not fail`) {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// TestABackendThatCannotBeReachedIsSaidAtOnce: clients do not notice it, so that nothing else says it. Failures that follow
// have no line of their own, and an answer ends it.
func TestABackendThatCannotBeReachedIsSaidAtOnce(t *testing.T) {
	dir, o := t.TempDir(), newOrigin(t)
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	write(t, filepath.Join(dir, "abide.yaml"), `
egress: {resolve: {"a.test:80": "`+strings.TrimPrefix(o.url, "http://")+`", "b.test:80": "`+address+`"}}
sites: [{host: api.test, backends: ["http://a.test", "http://b.test"], balance: round-robin}]
`)
	d := serveIn(t, dir, nil)
	for range 3 {
		if code, body := d.get("http://api.test/"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	const line = "api.test, backend http://b.test cannot be reached: the host refused the connection; after 10 failures in a row it is left alone"
	d.log.await(t, regexp.QuoteMeta(line))
	if n := strings.Count(d.log.String(), line); n != 1 {
		t.Errorf("%d lines:\n%s", n, d.log)
	}
	for path, want := range map[string]string{
		"/api/v1/status": `"breakers":[{"site":"api.test","backend":"http://b.test","state":"failing","why":"the host refused the connection","since":"`,
		"/":              `class="warm"><a href="/?site=api.test">api.<wbr>test / http://b.<wbr>test</a></th><td class="text">failing: the host refused the connection</td>`,
	} {
		if _, answer := d.ask(path); !strings.Contains(answer, want) {
			t.Errorf("%s lacks %s:\n%s", path, want, answer)
		}
	}
	if _, out, _ := d.command("status"); !strings.Contains(out, "api.test / http://b.test: failing: the host refused the connection") {
		t.Errorf("the status is\n%s", out)
	}
	back, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(back, http.NotFoundHandler())
	defer back.Close()
	for end := time.Now().Add(patience); ; {
		d.get("http://api.test/")
		if _, answer := d.ask("/api/v1/status"); !strings.Contains(answer, "failing") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it still fails: %s", answer)
		}
	}
	d.log.await(t, "api.test, backend http://b.test answers again after ")
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

// TestAnOutageIsWrong: a site that refuses everything is called so on the page, in the status and the log, without a look
// at what waits.
func TestAnOutageIsWrong(t *testing.T) {
	var blocks atomic.Bool
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if blocks.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `
egress: {resolve: {"wall.test:80": "`+site.Listener.Addr().String()+`"}}
queue: {wait: 5s}
`)
	d := serveIn(t, dir, nil)
	for range 12 {
		if code, body := d.get("http://wall.test/"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	blocks.Store(true)
	d.get("http://wall.test/")
	d.log.await(t, `wall\.test fails: it answers 403 to all requests`)
	for path, want := range map[string]string{
		"/":                       `class="bad"><a href="/?site=wall.test">wall.<wbr>test</a></th><td class="text">failing: it answers 403 to all requests, so it may block this crawler; abide itself answered 1 request since the start</td><td><span class="whole">since at least `,
		"/?site=wall.test":        `class="bad"><a href="/?site=wall.test">wall.<wbr>test</a></th><td class="text">failing: `,
		"/api/v1/status":          `"breakers":[{"site":"wall.test","state":"failing","why":"it answers 403 to all requests","since":"`,
		"/api/v1/sites/wall.test": `"breaker":"failing"`,
	} {
		if _, answer := d.ask(path); !strings.Contains(answer, want) {
			t.Errorf("%s lacks %s:\n%s", path, want, answer)
		}
	}
	if _, out, _ := d.command("status"); !strings.Contains(out, "wall.test: failing: it answers 403 to all requests, so it may block this crawler; abide itself answered 1 request since the start (since at least ") {
		t.Error(out)
	}
}
