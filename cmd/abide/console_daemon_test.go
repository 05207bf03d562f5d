//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// send answers the status and body of a request to the admin listener.
func (d *daemon) send(method, path, body string) (int, string) {
	d.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.admin+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestWhatIsSetAndCountedOutlivesTheProcess(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\nsites: [{host: api.test, limits: [{requests: 1000, per: day}]}]\n")
	d := serveIn(t, dir, []string{o.named()})
	if code, body := d.ask("/readyz"); code != 200 || !strings.Contains(body, "\nstate: ok (") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := d.send("PUT", "/api/v1/sites/api.test/limits", `{"limits":[{"requests":2,"per":"day"}]}`); code != 200 || !strings.Contains(body, `"set":true`) {
		t.Errorf("PUT: %d %s", code, body)
	}
	if code, body := d.get("http://api.test/"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	code, body := d.send("POST", "/api/v1/permits", `[{"url":"http://api.test/x"},{"url":"http://api.test/y"}]`)
	var said []struct {
		ID      string
		Granted bool
		Status  int
	}
	if err := json.Unmarshal([]byte(body), &said); code != 200 || err != nil || len(said) != 2 || said[0].Granted == said[1].Granted || said[0].Status+said[1].Status != 629 {
		t.Errorf("one of two permits: %d %s", code, body)
	}
	for _, one := range said {
		if one.Granted {
			if code, body := d.send("POST", "/api/v1/permits/"+one.ID, `{"status":200,"bytes":10}`); code != 200 {
				t.Errorf("settled: %d %s", code, body)
			}
		}
	}
	if code, body := d.send("DELETE", "/api/v1/permits/0123", ""); code != 404 {
		t.Errorf("no permit: %d %s", code, body)
	}
	for path, want := range map[string]string{
		"/api/v1/sites/api.test": `"limits_set":true`, "/api/v1/sites": `"site":"api.test"`, "/api/v1/status": `"store":{"kind":"local"`,
		"/api/v1/forecast": `[`, "/metrics": "\nabide_store_up 1\n", "/": ">Limits<",
	} {
		if code, body := d.ask(path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %s is not in\n%s", path, code, want, body)
		}
	}
	d.signal(syscall.SIGTERM)
	if code := d.status(); code != 0 {
		t.Fatalf("it ends with %d", code)
	}

	d = serveIn(t, dir, []string{o.named()})
	if code, body := d.send("GET", "/api/v1/sites/api.test/limits", ""); code != 200 || !strings.Contains(body, `"set":true`) {
		t.Errorf("after a restart: %d %s", code, body)
	}
	code, body = d.ask("/api/v1/bandwidth?site=api.test&since=1h&step=1d")
	var past struct {
		Traffic []struct{ Requests int }
	}
	n := 0
	if err := json.Unmarshal([]byte(body), &past); err != nil {
		t.Error(err)
	}
	for _, one := range past.Traffic {
		n += one.Requests
	}
	if code != 200 || n != 2 {
		t.Errorf("%d requests were recorded, not 2: %d %s", n, code, body)
	}
	if code, body := d.send("POST", "/api/v1/permits", `{"url":"http://api.test/z"}`); code != 429 {
		t.Errorf("the quota is there again: %d %s", code, body)
	}
	if code, body := d.send("DELETE", "/api/v1/sites/api.test/limits", ""); code != 200 || !strings.Contains(body, `"requests":1000`) {
		t.Errorf("DELETE: %d %s", code, body)
	}
}
