//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A job that a limit holds which was found by refusals says which command drops it, and that command drops it while the job
// runs.
func TestAJobSaysHowToDropALimitThatWasFound(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < 300*time.Millisecond {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		last = time.Now()
		_, _ = io.WriteString(w, `[{"id": 1}]`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), strings.Replace(resolved(server), ", learn: false", "", 1))
	write(t, filepath.Join(dir, "many.yaml"), "name: many\nrequest: http://api.test/{item}\nitems: {from: 1, to: 100000}\n")
	job := launch(t, dir, nil, "backfill", "--json", "many.yaml")
	job.out.await(t, `about [0-9]+ in [^"]*, not announced, found by refusals; \\"abide forget api.test\\" drops it`)
	job.says(0, []string{"forget", "api.test"}, "api.test: forgot about ")
	job.signal(syscall.SIGTERM)
	job.status()
}
