//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const restartConfig = `
data: %s
pools:
  twitter: {tokens: [{label: alice, secret: canary-1}, {label: bob, secret: canary-2}]}
sites:
  - {host: api.test, pool: twitter, insecure: true, limits: [{requests: 7, per: day}]}
  - {host: "*.wild.test", limits: [{requests: 9, per: day}]}
`

// What docs/tokens.md, docs/state.md and docs/operating.md say of disable.
func TestADisabledTokenStaysDisabledOverRestartsUntilItIsEnabled(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(restartConfig, "data"))
	d := serveIn(t, dir, []string{o.named()})
	if code, body := d.post("/api/v1/tokens/twitter/alice/disable"); code != 200 || !strings.Contains(body, `"state":"disabled"`) {
		t.Fatalf("%d %s", code, body)
	}
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		d.signal(end)
		d.status()
		d = serveIn(t, dir, []string{o.named()})
		if _, body := d.ask("/api/v1/tokens/twitter"); !strings.Contains(body, `"label":"alice","state":"disabled"`) || !strings.Contains(body, `"label":"bob","state":"ready"`) {
			t.Errorf("after %v: %s", end, body)
		}
		if label := d.sentWith("http://api.test/"); label != "bob" {
			t.Errorf("after %v a request went with %q", end, label)
		}
	}
	if code, body := d.post("/api/v1/tokens/twitter/alice/enable"); code != 200 || !strings.Contains(body, `"state":"ready"`) {
		t.Fatalf("%d %s", code, body)
	}
	d.signal(syscall.SIGTERM)
	d.status()
	d = serveIn(t, dir, []string{o.named()})
	if _, body := d.ask("/api/v1/tokens/twitter"); strings.Contains(body, "disabled") {
		t.Errorf("after it was enabled: %s", body)
	}
}

func TestWithoutDataADisabledTokenIsBackAfterARestart(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(restartConfig, "none"))
	d := serveIn(t, dir, []string{o.named()})
	d.post("/api/v1/tokens/twitter/alice/disable")
	d.post("/api/v1/reload")
	if _, body := d.ask("/api/v1/tokens/twitter"); !strings.Contains(body, `"label":"alice","state":"disabled"`) {
		t.Errorf("after a reload: %s", body)
	}
	d.signal(syscall.SIGTERM)
	d.status()
	d = serveIn(t, dir, []string{o.named()})
	if _, body := d.ask("/api/v1/tokens/twitter"); strings.Contains(body, "disabled") {
		t.Errorf("after a restart: %s", body)
	}
}

func TestSitesAreKnownAfterARestart(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(restartConfig, "data"))
	env := []string{"ABIDE_EGRESS_RESOLVE=api.test:80=" + strings.TrimPrefix(o.url, "http://") + ",a.wild.test:80=" + strings.TrimPrefix(o.url, "http://")}
	d := serveIn(t, dir, env)
	known := func(site string, want ...string) {
		t.Helper()
		code, body := d.ask("/api/v1/sites/" + site)
		for _, one := range want {
			if code != 200 || !strings.Contains(body, one) {
				t.Errorf("%s: %d %s, want %s", site, code, body, one)
			}
		}
		if _, list := d.ask("/api/v1/sites"); !strings.Contains(list, `"site":"`+site+`"`) {
			t.Errorf("the list has no %s: %s", site, list)
		}
	}
	known("api.test", `"requests":0`, `"limit":"7 requests per day"`, `"left":7`)
	if code, body := d.ask("/api/v1/sites/a.wild.test"); code != 404 {
		t.Errorf("a site that nobody has asked: %d %s", code, body)
	}
	d.get("http://a.wild.test/")
	d.signal(syscall.SIGTERM)
	d.status()
	d = serveIn(t, dir, env)
	known("api.test", `"requests":0`, `"left":7`)
	known("a.wild.test", `"requests":0`, `"limit":"9 requests per day"`, `"left":8`, `"last_30_days":{"requests":1,`)
	if code, body := d.ask("/api/v1/sites/b.wild.test"); code != 404 {
		t.Errorf("a site that nobody has asked: %d %s", code, body)
	}
}

// sentWith is the label of the token that a GET through the proxy was sent with.
func (d *daemon) sentWith(at string) string {
	d.t.Helper()
	answer, err := d.client(nil).Get(at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.Header.Get("Abide-Token")
}
