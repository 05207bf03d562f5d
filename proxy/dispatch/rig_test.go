package dispatch_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
)

// rig is a Rig with what the tests of this package ask of it.
type rig struct{ *dispatchtest.Rig }

type result = dispatchtest.Result

// run runs a test in a bubble. sites answers for every host.
func run(t *testing.T, sites http.HandlerFunc, yaml string, test func(w rig)) {
	t.Helper()
	dispatchtest.Run(t, sites, yaml, func(w *dispatchtest.Rig) { test(rig{w}) })
}

// idle checks that no request has left anything behind at a site.
func (w rig) idle(site string) {
	w.T.Helper()
	synctest.Wait()
	_, held := w.Gate().Len()
	if flying := w.Gate().Explain(queue.Request{Site: site}).InFlight; held != 0 || flying != 0 {
		w.T.Errorf("%d requests are held, %d requests in flight", held, flying)
	}
	if n := w.Sizes()["at backends"]; n != 0 {
		w.T.Errorf("%d requests are in flight at backends", n)
	}
}

// lines is the log.
func (w rig) lines() string {
	var text strings.Builder
	for _, line := range w.Log.AllEntries() {
		s, err := line.String()
		must(w.T, err)
		text.WriteString(s)
	}
	return text.String()
}

// requestTogether sends n requests at once and returns all results.
func (w rig) requestTogether(n int, get func(i int) result) []result {
	all := make([]result, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { all[i] = get(i) })
	}
	running.Wait()
	return all
}

// echoing answers with the method, path and body of a request.
func echoing(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	io.WriteString(rw, r.Method+" "+r.URL.Path+" "+string(body))
}

// elapse lets fake time pass in a bubble, whose clock begins in the year 2000. Elsewhere it
// panics.
func elapse(d time.Duration) {
	if time.Now().Year() >= 2026 {
		panic("elapse is for bubbles")
	}
	time.Sleep(d)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parseURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}
