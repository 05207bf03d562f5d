//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// refusingOrigin is a site that answers the first n requests with 429 and
// Retry-After: 1.
func refusingOrigin(t *testing.T, n int64) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if count.Add(1) <= n {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "accepted")
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return &origin{url: "http://" + l.Addr().String()}
}

// heldConfig lets one request at a time go to the origin.
const heldConfig = "sites: [{host: api.test, limits: [{concurrency: 1}]}]\n"

func TestTheLogSaysWhenASiteHoldsRequestsAndWhenThatIsOver(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), heldConfig)
	d := serveIn(t, dir, []string{o.named()})
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			if answer, err := d.client(nil).Get("http://api.test/held?canary"); err == nil {
				answer.Body.Close()
			}
		}()
	}
	o.wait(t, 1)
	d.log.await(t, `level=info msg="api\.test: 1 request of 127\.0\.0\.1 is held until another request is finished, limit: 1 in flight, written in .*abide.yaml"`)
	o.letGo()
	<-done
	<-done
	d.log.await(t, `level=info msg="api\.test: no request is held any more, after .*; held for over a second: 1 request, the longest for `)
	if strings.Contains(d.log.String(), "canary") {
		t.Error("the log has a query")
	}
}

func TestTheLogSaysThatASiteRefusesAndWhatFollows(t *testing.T) {
	t.Parallel()
	o, dir := refusingOrigin(t, 2), t.TempDir()
	d := serveIn(t, dir, []string{o.named()})
	if code, body := d.get("http://api.test/canary"); code != 200 || body != "accepted" {
		t.Fatalf("%d %s", code, body)
	}
	d.log.await(t, `level=info msg="api\.test: the site refuses a request \(status 429\)(; nothing .* until .*)? \(Retry-After\); the request is sent again( then)?, the client does not see it"`)
	d.log.await(t, `level=info msg="api\.test: the site accepts requests again, after .*; refusals: 2, of which clients saw 0"`)
	if strings.Contains(d.log.String(), "canary") {
		t.Error("the log has a path")
	}
}

func TestDebugWritesALineForEachDecision(t *testing.T) {
	o, dir := refusingOrigin(t, 1), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `
pools: {p: {tokens: [{label: alice, secret: canary-token}], put: "query: api_key={token}"}}
sites: [{host: api.test, pool: p, insecure: true}]
`)
	d := serveIn(t, dir, []string{o.named()}, "--log-level", "debug")
	if code, body := d.get("http://api.test/canary-path?q=canary-query"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	d.signal(syscall.SIGTERM)
	d.status()
	for _, want := range []string{
		"sent, attempt 1, with the token alice", `refused after .*: status 429, of the \w+ until .* \(Retry-After\)`, "is sent again: refused",
		`held until .*`, `let go after `, "sent, attempt 2, with the token alice", "answered after .*: status 200",
	} {
		if !regexp.MustCompile(`level=debug msg="request 1, GET http://api\.test:80: ` + want).MatchString(d.log.String()) {
			t.Errorf("there is no line of %q", want)
		}
	}
	if strings.Contains(d.log.String(), "canary") {
		t.Error("a path, a query or a secret is in the log")
	}
}

func TestTheAccessLogSaysWhichLimitAClientDidNotWaitFor(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), heldConfig)
	d := serveIn(t, dir, []string{o.named()}, "--log-access", "--log-level", "debug")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if answer, err := d.client(nil).Get("http://api.test/held"); err == nil {
			answer.Body.Close()
		}
	}()
	o.wait(t, 1)
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		_, err := d.client(nil).Do(request)
		left <- err
	}()
	d.log.await(t, "request 2, .*: held until another request is finished")
	leave()
	if <-left == nil {
		t.Error("it has an answer")
	}
	d.log.await(t, `request 2, .*: not let go, after .*: its client has left`)
	d.log.await(t, `msg=request attempts=0 .*limit="1 in flight" .* status=499 `)
	o.letGo()
	<-done
}

func TestTheAccessLogSaysWhatARequestWentThrough(t *testing.T) {
	o := refusingOrigin(t, 1)
	const config = `
pools: {p: {tokens: [{label: alice, secret: canary-token}], put: "Authorization: Bearer {token}"}}
sites: [{host: api.test, pool: p, insecure: true}]
`
	for _, format := range []string{"json", "text"} {
		dir := t.TempDir() // what the first learned would have the second wait
		write(t, filepath.Join(dir, "abide.yaml"), config)
		d := serveIn(t, dir, []string{o.named()}, "--log-access", "--log-format", format)
		answer, err := d.client(nil).Post("http://api.test/orders/bot1:canaryAAAAAAAAAAAAA1?key=canary", "text/plain", strings.NewReader("four"))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if format == "text" {
			d.log.await(t, `level=info msg=request attempts=1 client=127\.0\.0\.1 .*method=POST ms=[0-9.]+ priority=3 received=8 refusals=0 sent=4 site=api\.test status=200 token=alice url="http://api\.test:80/orders/\[redacted\]" wait=0`)
			continue
		}
		if printed := d.out.String(); strings.Count(printed, "\n") != 1 || !json.Valid([]byte(printed)) {
			t.Errorf("text is between the JSON: %s", printed)
		}
		text := d.log.await(t, `\{.*"msg":"request".*\}`)[0]
		var line struct {
			Wait, MS                                             float64
			Status, Attempts, Refusals, Received, Sent           int
			Limit, Token, Client, Method, URL, Site, Level, Time string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line.Wait < .9 || line.MS < 1000*line.Wait || line.Limit == "" || line.Attempts != 2 || line.Refusals != 1 ||
			line.Token != "alice" || line.Received != 8 || line.Sent != 4 || line.URL != "http://api.test:80/orders/[redacted]" || line.Status != 200 || line.Time == "" {
			t.Errorf("the line is %s", text)
		}
		if strings.Contains(d.log.String(), "canary") {
			t.Error("the log has a query or a secret")
		}
		d.signal(syscall.SIGTERM)
		d.status()
	}
}
