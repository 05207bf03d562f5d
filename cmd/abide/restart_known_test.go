//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
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

// TestALimitThatNobodyUsesIsNotNearlyUsed: at the end of its window all of it is left, in every place, and its series
// have the name of their site after a restart.
func TestALimitThatNobodyUsesIsNotNearlyUsed(t *testing.T) {
	used := 0
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used++
		w.Header().Set("RateLimit-Limit", "5")
		w.Header().Set("RateLimit-Remaining", strconv.Itoa(max(5-used, 0)))
		w.Header().Set("RateLimit-Reset", "2")
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\npools: {some: {tokens: [{label: alice, secret: canary-1}]}}\nsites: [{host: api.test, pool: some, insecure: true}]\n")
	env := []string{"ABIDE_EGRESS_RESOLVE=api.test:80=" + site.Listener.Addr().String()}
	d := serveIn(t, dir, env)
	for range 5 {
		if code, body := d.get("http://api.test/"); code != 200 {
			t.Fatal(code, body)
		}
	}
	recovers := func() {
		t.Helper()
		for _, want := range []string{
			`abide_limit_remaining{limit="5 requests",site="api.test"} 5`, `abide_limit_usage_ratio{limit="5 requests",site="api.test"} 0`,
			`abide_token_remaining{limit="5 requests",pool="some",route="GET /",token="alice"} 5`,
		} {
			keepsTrying(t, want, func() bool { _, text := d.ask("/metrics"); return strings.Contains(text, want) })
		}
		if status := launch(t, dir, nil, "status", "--admin", d.admin); status.status() != 0 || !strings.Contains(status.out.String(), "5 of 5") {
			t.Errorf("abide status says\n%s", status.out)
		}
	}
	recovers()
	d.signal(syscall.SIGKILL)
	d.status()
	d = serveIn(t, dir, env)
	recovers()
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

func TestACheckInJSONHasListsWhereNothingIsWrong(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: none\n")
	if d := launch(t, dir, nil, "check", "--json"); d.status() != 0 || !strings.Contains(d.out.String(), `"faults": [],`) || !strings.Contains(d.out.String(), `"warnings": [],`) {
		t.Errorf("it says %.200s", d.out)
	}
}
