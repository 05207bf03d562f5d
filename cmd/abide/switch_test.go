//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// TestATokenIsDisabledInAllProcessesOfADataDirectory: by hand in one of them, and back in
// the other; a third one that starts then has heard of it.
func TestATokenIsDisabledInAllProcessesOfADataDirectory(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	dir := t.TempDir()
	write(t, dir+"/abide.yaml", `
data: data
egress: {resolve: {"api.test:80": "`+site.Listener.Addr().String()+`"}}
pools: {p: {tokens: [{label: ann, secret: first-secret}, {label: bob, secret: second-secret}]}}
sites: [{host: api.test, pool: p, insecure: true}]
`)
	press := func(d *daemon, action string) {
		t.Helper()
		answer, err := http.Post("http://"+d.admin+"/api/v1/tokens/p/ann/"+action, "", nil)
		if err != nil || answer.StatusCode >= 300 {
			t.Fatal(err, answer)
		}
		answer.Body.Close()
	}
	tokens := func(d *daemon) string {
		_, text := d.ask("/api/v1/tokens/p")
		return text
	}
	item := serveIn(t, dir, nil)
	press(item, "disable") // before the other one is there
	other := serveIn(t, dir, nil)
	if text := tokens(other); !strings.Contains(text, "disabled") {
		other.log.await(t, `the token ann of p is disabled: the operator told another instance so`)
	}
	for range 2 {
		press(other, "enable")
		item.log.await(t, `the token ann of p is enabled: the operator told another instance so`)
		if text := tokens(item); strings.Contains(text, "disabled") {
			t.Errorf("enabled, and yet %s", text)
		}
		other.log.forget()
		press(item, "disable")
		other.log.await(t, `the token ann of p is disabled: the operator told another instance so`)
		item.log.forget()
	}
	press(other, "enable")
	item.log.await(t, `the token ann of p is enabled`)
	for _, d := range []*daemon{item, other} {
		d.signal(syscall.SIGTERM)
		d.status()
	}
	third := serveIn(t, dir, nil)
	fourth := serveIn(t, dir, nil)
	press(third, "disable")
	fourth.log.await(t, `the token ann of p is disabled`)
	if text := third.log.String(); strings.Contains(text, "another instance") {
		t.Errorf("an old order is obeyed:\n%s", text)
	}
}
