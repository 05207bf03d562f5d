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
}
