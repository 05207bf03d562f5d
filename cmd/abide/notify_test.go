//go:build unix

package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A job that has failed says so to a URL or to a program, one that is done only if it is asked to, and whoever cannot be
// told changes nothing.
func TestAJobTellsHowItHasEnded(t *testing.T) {
	t.Parallel()
	status, told := atomic.Int64{}, make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			told <- r.URL.Path + " " + string(body)
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `[{"id": 1}]`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	run := func(answer int64, notify string) *daemon {
		t.Helper()
		status.Store(answer)
		write(t, filepath.Join(dir, "orders.yaml"), "name: orders\nrequest: http://api.test/x\nnotify: "+notify+"\n")
		d := launch(t, dir, []string{"HOOK=" + server.URL + "/secret"}, "backfill", "--quiet", "--again", "orders.yaml")
		if got := d.status(); (got == 0) != (answer == 200) {
			t.Errorf("%s: status %d: %s", notify, got, d.log)
		}
		if strings.Contains(d.log.String(), "/secret") {
			t.Errorf("the URL is in the log: %s", d.log)
		}
		return d
	}
	hook := "{url: '${HOOK}'}"
	run(404, hook)
	if got := <-told; !strings.HasPrefix(got, `/secret {"job":"orders","failed":true,"text":"orders: of 1 unit 1 failed: `) {
		t.Error(got)
	}
	run(200, hook)
	run(200, "{url: '${HOOK}', when: always}")
	if got := <-told; !strings.HasPrefix(got, `/secret {"job":"orders","failed":false,"text":"orders is done"`) || len(told) > 0 {
		t.Error(got)
	}
	secure := httptest.NewTLSServer(server.Config.Handler)
	defer secure.Close()
	write(t, filepath.Join(dir, "hook.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	write(t, filepath.Join(dir, "abide.yaml"), strings.Replace(resolved(server), "egress: {", "egress: {roots: hook.pem, ", 1))
	run(404, "{url: '"+secure.URL+"/secure'}")
	if got := <-told; !strings.HasPrefix(got, "/secure ") {
		t.Error(got)
	}
	run(404, "{command: [sh, -c, 'cat > told.json; env > told.env']}")
	if text, err := os.ReadFile(filepath.Join(dir, "told.env")); err != nil || strings.Contains(string(text), "HOOK=") || !strings.Contains(string(text), "PATH=") ||
		!strings.Contains(string(text), "JOB_NAME=orders\n") || !strings.Contains(string(text), "JOB_FAILED=true\n") {
		t.Errorf("%s %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "told.json")); err != nil || !strings.Contains(string(text), `"failed":true`) {
		t.Errorf("%s %v", text, err)
	}
	status.Store(200)
	write(t, filepath.Join(dir, "numbers.yaml"), "name: numbers\nrequest: http://api.test/{item}\nitems: [a, b, c]\nid: id\nnotify: {url: '"+server.URL+"/lost'}\n")
	lost := launch(t, dir, nil, "backfill", "--quiet", "numbers.yaml")
	const want = "2 records took the place of others with the same id, of the same page or of another unit"
	if got := lost.status(); got != 0 || !strings.Contains(lost.log.String(), want) {
		t.Errorf("status %d: %s", got, lost.log)
	} else if text := <-told; !strings.HasPrefix(text, `/lost {"job":"numbers","failed":false,"text":"numbers is done, and `+want) {
		t.Error(text)
	}
	write(t, filepath.Join(dir, "renamed.yaml"), "name: renamed\nrequest: http://api.test/{item}\nitems: [a]\nid: id\ncolumns: {state: status}\nnotify: {url: '"+server.URL+"/lost'}\n")
	if d := launch(t, dir, nil, "backfill", "--quiet", "renamed.yaml"); d.status() != 0 {
		t.Errorf("it says %s", d.log)
	} else if text := <-told; !strings.Contains(text, `renamed is done, and no record has \"status\", the path of the column state"`) {
		t.Error(text)
	}
	for _, notify := range []string{"{command: none, when: always}", "{url: 'http://127.0.0.1:1/secret', when: always}"} {
		if d := run(200, notify); !strings.Contains(d.log.String(), "notify failed: ") {
			t.Errorf("%s: %s", notify, d.log)
		}
	}
	write(t, filepath.Join(dir, "secret.yaml"), "name: secret\nrequest: {url: http://api.test/x, headers: {A: '${UNSET}'}}\nnotify: {url: '"+server.URL+"/unset'}\n")
	if d := launch(t, dir, nil, "backfill", "--try", "secret.yaml"); d.status() != exitUsage || len(told) > 0 {
		t.Errorf("it says %s", d.log)
	}
	if d := launch(t, dir, nil, "backfill", "secret.yaml"); d.status() != exitUsage {
		t.Errorf("it says %s", d.log)
	} else if text := <-told; !strings.HasPrefix(text, `/unset {"job":"secret","failed":true,"text":"secret: `) || !strings.Contains(text, "the variable UNSET, which is not set") {
		t.Error(text)
	}
	for notify, want := range map[string]string{"{when: always}": "notify: needs url or command", "{url: example.com}": "is no URL with http"} {
		write(t, filepath.Join(dir, "orders.yaml"), "name: orders\nrequest: http://api.test/x\nnotify: "+notify+"\n")
		if d := launch(t, dir, nil, "backfill", "orders.yaml"); d.status() == 0 || !strings.Contains(d.log.String(), want) {
			t.Errorf("%s: %s", notify, d.log)
		}
	}
}

// A job that is ended while its host answers failures alone says how the last try has failed.
func TestAJobThatIsStoppedTellsHowItsLastTryHasFailed(t *testing.T) {
	t.Parallel()
	asked, often := atomic.Int64{}, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w.WriteHeader(http.StatusServiceUnavailable); asked.Add(1) == 30 { // a page is asked for a few times at once
			close(often)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "orders.yaml"), "name: orders\nrequest: http://api.test/x\ntries: 1000\nnotify: {command: [sh, -c, 'cat > told.json']}\n")
	d := launch(t, dir, nil, "backfill", "--quiet", "orders.yaml")
	select {
	case <-often:
	case <-time.After(patience):
		t.Fatal("it does not ask again")
	}
	d.signal(syscall.SIGTERM)
	const want = "orders was stopped; the same command goes on where it ended; the last try has failed: the site answered 503 Service Unavailable"
	if code := d.status(); code != exitFailed || !strings.Contains(d.log.String(), want) {
		t.Errorf("it ended with %d: %s", code, d.log)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "told.json")); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s %v", text, err)
	}
}
