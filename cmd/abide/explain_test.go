//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// await asks the admin listener until it says so.
func (d *daemon) await(path, want string) {
	d.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; {
		if _, body := d.ask(path); strings.Contains(body, want) {
			return
		}
	}
	d.t.Fatalf("%s never says %s", path, want)
}

func TestExplainSaysWhatKeepsARequestNow(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `
sites:
  - host: api.test
    limits: [{concurrency: 1}, {requests: 1000, per: 15m}]
`)
	token := "ABIDE_ADMIN_TOKEN=sesame-open-canary"
	// Without a file the first request goes at once, so that nobody has had a turn yet.
	d := serveIn(t, dir, []string{o.named(), token, "ABIDE_INTERCEPT=none", "ABIDE_DATA=none"})
	explain := func(env []string, args ...string) (int, string, string) {
		t.Helper()
		e := launch(t, dir, env, append([]string{"explain", "--admin", d.admin}, args...)...)
		code := e.status()
		return code, e.out.String(), e.log.String()
	}

	code, out, errs := explain([]string{token}, "http://api.test/held?key=canary")
	for _, want := range []string{"0 requests wait, 0 in flight", "blocked by      nothing", "nothing keeps it", "1000 left"} {
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("at first: %d, %q is not in\n%s%s", code, want, out, errs)
		}
	}

	answered := make(chan int, 2)
	client := d.client(nil)
	get := func() {
		answer, err := client.Get("http://api.test/held")
		if err != nil {
			answered <- 0
			return
		}
		answer.Body.Close()
		answered <- answer.StatusCode
	}
	go get()
	o.wait(t, 1)
	go get()
	operator := *d
	operator.admin = ":sesame-open-canary@" + d.admin
	operator.await("/api/v1/holds", `"site":"api.test"`)

	code, out, errs = explain([]string{token}, "http://api.test/")
	for _, want := range []string{
		"1 request waits, 1 in flight", "place           2\n", "raise the limit \"1 in flight\"",
		"1 other is before it: a smaller Abide-Priority goes first", "999 left",
	} {
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("while one waits: %d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
	code, out, errs = explain([]string{token}, "--json", "http://api.test/")
	if code != 0 || !strings.HasPrefix(out, `{"target":"http://api.test:80","site":"api.test",`) || !strings.Contains(out, `"place":2`) || errs != "" {
		t.Errorf("as JSON: %d\n%s%s", code, out, errs)
	}
	operator.await("/metrics", `abide_queue_blocked_seconds_total{limit="1 in flight",site="api.test"}`)
	code, out, errs = explain(nil, "http://api.test/")
	if code != 0 || strings.Contains(out, "wait") || !strings.Contains(errs, "401") {
		t.Errorf("without the token: %d\n%s%s", code, out, errs)
	}
	if code, _, errs := d.command("status"); code == 0 || !strings.Contains(errs, "401") || !strings.Contains(errs, "kill -HUP") {
		t.Errorf("status without the token: %d %s", code, errs)
	}

	o.letGo()
	for range 2 {
		if got := <-answered; got != 200 {
			t.Errorf("a request got %d", got)
		}
	}
	d.signal(syscall.SIGTERM)
	d.status()
	code, out, errs = explain([]string{token}, "http://api.test/")
	if code != 0 || !strings.Contains(out, "api.test") || errs != "no proxy is running at "+d.admin+", so this is the configuration alone\n" {
		t.Errorf("afterwards: %d\n%s%s", code, out, errs)
	}
	if all := d.log.String() + d.out.String(); strings.Contains(all, "canary") {
		t.Errorf("a secret is in\n%s", all)
	}
}
