//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// post answers the status and body of a POST to the admin listener.
func (d *daemon) post(path string) (int, string) {
	d.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Post("http://"+d.admin+path, "", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestStatusOfARunningProxyShowsItsTokens(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `
pools:
  twitter:
    tokens: [{label: news/1, secret: canary-1}, {label: spare, secret: canary-2}]
    put: "Authorization: Bearer {token}"
sites:
  - {host: api.test, pool: twitter, insecure: true}
`)
	d := serveIn(t, dir, []string{o.named()})
	var said []string
	status := func(args ...string) string {
		t.Helper()
		e := launch(t, dir, nil, append([]string{"status", "--admin", d.admin}, args...)...)
		if code := e.status(); code != 0 {
			t.Fatalf("it ends with %d: %s", code, e.log.String())
		}
		said = append(said, e.out.String()+e.log.String())
		return e.out.String()
	}
	for _, want := range []string{"pool twitter: 2 of 2 tokens can go now", "\nnews/1  ready ", "\nspare   ready "} {
		if out := status(); !strings.Contains(out, want) {
			t.Errorf("at first, %q is not in\n%s", want, out)
		}
	}
	if code, body := d.get("http://api.test/"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	code, body := d.post("/api/v1/tokens/twitter/news%2F1/disable")
	if said = append(said, body); code != 200 || !strings.Contains(body, `"label":"news/1","state":"disabled"`) {
		t.Errorf("disable: %d %s", code, body)
	}
	if out := status(); !strings.Contains(out, "1 of 2 tokens can go now") || !strings.Contains(out, "news/1  disabled") {
		t.Errorf("afterwards:\n%s", out)
	}
	if out := status("--json"); !strings.Contains(out, `"label":"news/1","state":"disabled"`) || !strings.Contains(out, `"uses":1`) {
		t.Errorf("as JSON:\n%s", out)
	}
	for _, want := range []string{
		`abide_token_state{pool="twitter",state="disabled",token="news/1"} 1`, `abide_token_state{pool="twitter",state="ready",token="spare"} 1`,
		"# TYPE abide_token_uses_total counter",
	} {
		_, body := d.ask("/metrics")
		if said = append(said, body); !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if code, body := d.post("/api/v1/tokens/twitter/news%2F1/enable"); code != 200 || !strings.Contains(body, `"state":"ready"`) {
		t.Errorf("enable: %d %s", code, body)
	}
	_, page := d.ask("/")
	if said = append(said, page, d.log.String(), d.out.String()); !strings.Contains(page, "2 of 2 tokens can go now") {
		t.Errorf("the page:\n%s", page)
	}
	if strings.Contains(strings.Join(said, ""), "canary") {
		t.Errorf("a secret is in\n%s", said)
	}
}

func TestADataDirectoryThatIsOpenToAllIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: d\nsites: [{host: api.test}]\n")
	for mode, refused := range map[os.FileMode]bool{0o777: true, 0o757: true, 0o777 | os.ModeSticky: false, 0o775: false, 0o755: false, 0o700: false} {
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "d"), mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		e := launch(t, dir, nil, "check", "abide.yaml")
		if code := e.status(); code == 0 == refused || strings.Contains(e.log.String()+e.out.String(), "chmod 700") != refused {
			t.Errorf("mode %04o: it ends with %d\n%s%s", mode, code, e.out.String(), e.log.String())
		}
	}
}

// TestABlockIsSaid: in the log, the status and the advice; and so are requests that abide itself refuses.
func TestABlockIsSaid(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `egress: {resolve: {"api.test:80": "`+site.Listener.Addr().String()+`"}}`)
	d := serveIn(t, dir, nil, "--log-access")
	for range 12 {
		d.get("http://api.test/")
	}
	ask, _ := http.NewRequest(http.MethodGet, "http://api.test/", nil)
	ask.Header.Set("Abide-Priority", "urgent")
	ask.Close = true
	answer, err := d.client(nil).Do(ask)
	if err != nil || answer.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v %v", answer, err)
	}
	answer.Body.Close()
	d.log.await(t, "api.test fails: it answers 403 to all requests")
	d.log.await(t, "reason\"?[=:]\"?wish")
	for command, want := range map[string][]string{
		"status": {"api.test: failing: it answers 403 to all requests, so it may block this crawler", "\nfailed since the start\n\napi.test: 12 answers 403 ", "1 wish, see docs/"},
		"advise": {"1. api.test answered 403 to 12 of 12 requests, so it may block this crawler.\n"},
	} {
		_, out, _ := d.command(command)
		for _, one := range want {
			if !strings.Contains(out, one) {
				t.Errorf("%s has no %q:\n%s", command, one, out)
			}
		}
	}
	if code, text := d.ask("/readyz"); code != 200 || strings.Contains(text, "api.test") { // it is about abide
		t.Errorf("/readyz: %d %s", code, text)
	}
	for _, address := range []string{"169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.0.23"} {
		d.get("http://" + address + "/")
	}
	if _, out, _ := d.command("status"); !strings.Contains(out, "\n169.254.0.23, 169.254.169.254, 169.254.170.2 and 1 more, each: 1 answer 403 (by abide: destination)\n") {
		t.Errorf("refused destinations have a line each: %s", out)
	}
	d.signal(syscall.SIGTERM)
	d.log.await(t, "stopped after .*: 0 requests ended meanwhile")
}
