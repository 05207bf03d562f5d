//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// A job is seen where operators look: in "abide status", which counts its requests, and in the
// metrics of a serve with the same data directory.
func TestAJobIsSeenInTheStatusAndInTheMetricsOfTheServe(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/last" {
			close(asked)
			<-release
		}
		if r.URL.Path == "/wrong" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, `[{"id":"`+r.URL.Path+`"}]`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "job.yaml"), "name: seen\nrequest: http://api.test/{item}\nitems: [a, b, c, last]\nid: id\nworkers: 1\n")
	proxy := serveIn(t, dir, nil)
	job := launch(t, dir, nil, "backfill", "--quiet", "job.yaml")
	<-asked
	said := launch(t, dir, nil, "status")
	if code := said.status(); code != 0 || !strings.Contains(said.out.String(), "3 requests to 1 site") {
		t.Errorf("status %d\n%s", code, said.out)
	}
	if _, text := proxy.ask("/metrics"); !strings.Contains(text, `abide_job_units{job="seen",state="done"}`) {
		t.Errorf("the metrics have no units of the job:\n%s", text)
	}
	close(release)
	if code := job.status(); code != 0 {
		t.Errorf("the job ended with %d", code)
	}
	seen := func(lines ...string) {
		t.Helper()
		_, text := proxy.ask("/metrics")
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("there is no %s:\n%s", line, text)
			}
		}
	}
	seen(`abide_job_units{job="seen",state="done"} 4`, `abide_job_done_timestamp_seconds{job="seen"}`)
	write(t, filepath.Join(dir, "job.yaml"), "name: seen\nrequest: http://api.test/{item}\nitems: [a, b, c, last, wrong]\nid: id\n")
	if job = launch(t, dir, nil, "backfill", "--quiet", "job.yaml"); job.status() != 1 {
		t.Errorf("the job ended with %d", job.status())
	}
	seen(`abide_job_units{job="seen",state="failed"} 1`, `abide_job_done_timestamp_seconds{job="seen"}`)
}
