package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestABackendThatFailsDoesNotHoldTheOthersUp: while one of two backends answers 503, the other one is asked by as
// many as want to. A backend that answers nothing else is left alone, however many the other one answers.
func TestABackendThatFailsDoesNotHoldTheOthersUp(t *testing.T) {
	for name, works := range map[string]int64{"it never worked": 0, "it worked before": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const together = 6
			var sick, flying atomic.Int64
			var waits atomic.Bool
			all := make(chan struct{})
			ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if sick.Add(1) > works {
					w.WriteHeader(503)
				}
			}))
			defer ill.Close()
			well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !waits.Load() {
					return
				}
				defer flying.Add(-1)
				if flying.Add(1) == together {
					close(all)
				}
				select {
				case <-all:
				case <-r.Context().Done():
				}
			}))
			defer well.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "abide.yaml"), `
egress: {resolve: {"a.test:80": "`+strings.TrimPrefix(well.URL, "http://")+`", "b.test:80": "`+strings.TrimPrefix(ill.URL, "http://")+`"}}
sites: [{host: api.test, backends: ["http://a.test", "http://b.test"], balance: round-robin}]
`)
			d := serveIn(t, dir, nil)
			for end := time.Now().Add(patience); ; {
				code, body := d.get("http://api.test/")
				_, shown := d.ask("/api/v1/status")
				if code != 200 || time.Now().After(end) {
					t.Fatalf("%d %s, with the backends %s", code, body, shown)
				}
				// What worked before may refuse by a rate.
				if works > 0 && sick.Load() > works || strings.Contains(shown, `"backend":"http://b.test","state":"open"`) {
					break
				}
			}
			waits.Store(true)
			codes := make(chan int, together)
			for range together {
				go func() {
					code, _ := d.get("http://api.test/")
					codes <- code
				}()
			}
			select {
			case <-all:
			case <-time.After(patience):
				_, shown := d.ask("/api/v1/status")
				t.Fatalf("%d of %d requests are at the backend that works: %s", flying.Load(), together, shown)
			}
			for range together {
				if code := <-codes; code != 200 {
					t.Errorf("an answer is %d", code)
				}
			}
		})
	}
}
