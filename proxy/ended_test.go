package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/abide-proxy/abide/proxy/dispatch"
)

// endedReports are reports of requests that have ended.
type endedReports struct {
	mu   sync.Mutex
	list []dispatch.Report
}

func (e *endedReports) add(r dispatch.Report) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, r)
}

// reported is what became of requests, in few words. The proxy is stopped first, so that all
// have ended.
func (b *testProxy) reported() string {
	b.stop()
	var words []string
	for _, r := range b.ended.list {
		kind := "request"
		if r.Tunnel {
			kind = "tunnel"
		}
		words = append(words, fmt.Sprintf("%s of %s to %s, priority %d, %d refusals, %d up, %d down", kind, r.Client, r.Site, r.Priority, r.Refusals, r.Uploaded, r.Received))
	}
	slices.Sort(words)
	return strings.Join(words, "\n")
}

func TestWhatBecameOfEachRequestIsReportedOnce(t *testing.T) {
	b := newTestProxy(t)
	refused := false
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" && !refused {
			refused = true
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "12345678")
	})
	for _, one := range []struct{ path, body, priority string }{{"/", "abc", "6"}, {"/again", "", ""}} {
		r, err := http.NewRequest("POST", "http://"+host+one.path, strings.NewReader(one.body))
		must(t, err)
		r.Header.Set("Abide-Client", "news")
		if one.priority != "" {
			r.Header.Set("Abide-Priority", one.priority)
		}
		resp, err := b.client(false).Do(r)
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	want := "request of news to api.test, priority 3, 1 refusals, 0 up, 8 down\n" +
		"request of news to api.test, priority 6, 0 refusals, 3 up, 8 down"
	if got := b.reported(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestATunnelIsReportedWithItsBytes(t *testing.T) {
	b := newTestProxy(t, "intercept: none")
	client := b.client(false)
	resp, err := client.Get("https://" + host + "/")
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	client.CloseIdleConnections()
	b.stop()
	if len(b.ended.list) != 1 {
		t.Fatalf("%+v", b.ended.list)
	}
	r := b.ended.list[0]
	if !r.Tunnel || r.Site != host || r.Client != "127.0.0.1" || r.Received <= int64(len(body)) || r.Uploaded < 100 {
		t.Errorf("%+v", r)
	}
}

func TestSharedAnswersAreReportedOnceForEachClient(t *testing.T) {
	b := newTestProxy(t, "sites: [{host: "+host+", coalesce: true}]")
	come, release := make(chan struct{}, 1), make(chan struct{})
	b.handle(func(w http.ResponseWriter, _ *http.Request) {
		come <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "1234")
	})
	var clients sync.WaitGroup
	get := func() {
		resp, err := b.client(false).Get("http://" + host + "/")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	clients.Go(get)
	<-come
	clients.Go(get)
	close(release)
	clients.Wait()
	if got := b.reported(); strings.Count(got, "request of 127.0.0.1 to api.test, priority 3, 0 refusals, 0 up, 4 down") != 2 || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}
