package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// announcingOrigin is an API that allows five requests in five seconds, says so in
// its answers, and counts those that it refuses.
type announcingOrigin struct {
	*origin
	mu      sync.Mutex
	opened  time.Time // the window
	used    int
	refused int
}

func startAnnouncingOrigin(t *testing.T) *announcingOrigin {
	t.Helper()
	return startAnnouncingOriginOf(t, 5*time.Second)
}

// startAnnouncingOriginOf allows five requests in a window.
func startAnnouncingOriginOf(t *testing.T, window time.Duration) *announcingOrigin {
	t.Helper()
	const allowed = 5
	a := &announcingOrigin{}
	a.origin = startOriginThat(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" { // browsers ask by themselves, once
			w.Header().Set("Cache-Control", "max-age=86400")
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		if now.Sub(a.opened) >= window {
			a.opened, a.used = now, 0
		}
		a.used++
		reset := strconv.Itoa(int(a.opened.Add(window).Sub(now)/time.Second) + 1)
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(allowed))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(allowed-a.used, 0)))
		w.Header().Set("X-RateLimit-Reset", reset)
		if a.used > allowed {
			a.refused++
			w.Header().Set("Retry-After", reset)
			w.WriteHeader(http.StatusTooManyRequests)
		}
		fmt.Fprintln(w, "{}")
	})
	return a
}

// environment is what a crawler has beside `abide serve`.
func (a *abide) environment() []string {
	return ca.Env("http://"+a.proxy, a.trust.caFile, a.trust.bundleFile)
}

// TestScrapyWithTheSettingsOfTheDocs crawls with the settings that docs/crawlers.md
// gives. Two sites let one request an hour pass. The third is crawled meanwhile, which it would not be with Scrapy's own
// settings: where abide holds the requests, and where it answers them with 429, as their turn is later than queue.wait.
func TestScrapyWithTheSettingsOfTheDocs(t *testing.T) {
	t.Parallel()
	clientNamed(t, "scrapy").present(t)
	page, err := os.ReadFile("../../docs/crawlers.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile("(?s)```python\n(# settings.py.*?)```").FindSubmatch(page)
	if settings == nil {
		t.Fatal("docs/crawlers.md has no block of settings for Scrapy")
	}
	path := filepath.Join(t.TempDir(), "settings.py")
	if err := os.WriteFile(path, settings[1], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []string{"1d", "1s"} {
		o := startAnnouncingOrigin(t)
		a := startAbide(t, setup{
			intercept: "all", also: []string{"held-1.test:443", "held-2.test:443"},
			more: "sites:\n  - {host: [held-1.test, held-2.test], limits: [{requests: 1, per: 1h}]}\nqueue: {wait: " + wait + "}\n",
		}, o.origin)
		out := run(t, a.environment(), python, "crawlers_scrapy.py", path)
		if want := "{200: 12}\n"; out != want {
			t.Errorf("queue.wait %s: the third site gave %q and not %q", wait, out, want)
		}
		if o.refused > 0 {
			t.Errorf("queue.wait %s: the site refused %d requests", wait, o.refused)
		}
	}
}

// TestHttpxGivesUpOnAHoldUnlessItsTimeOutIsLifted asks twice for a request that is
// held, for as long as the docs say httpx waits and for longer, or with a header that
// declines to wait.
func TestHttpxGivesUpOnAHoldUnlessItsTimeOutIsLifted(t *testing.T) {
	t.Parallel()
	clientNamed(t, "httpx").present(t)
	o := startOrigin(t)
	a := startAbide(t, setup{
		intercept: "all", also: []string{"hour.test:443", "declined.test:443", "seconds.test:443"},
		more: "sites:\n  - {host: [hour.test, declined.test], limits: [{requests: 1, per: 1h}]}\n  - {host: seconds.test, limits: [{requests: 1, per: 8s}]}\nqueue: {wait: 1d}\n",
	}, o)
	for _, one := range []struct{ host, timeout, want string }{
		{"hour.test", "", "200 ReadTimeout"},
		{"seconds.test", "timeout=None", "200 200"},
		{"declined.test", `headers={"Abide-Max-Wait": "4s"}`, "200 429"},
	} {
		script := fmt.Sprintf(`
import httpx
for _ in range(2):
    try:
        print(httpx.get("https://%s/", %s).status_code)
    except httpx.TimeoutException as error:
        print(type(error).__name__)
`, one.host, one.timeout)
		if got := strings.Join(strings.Fields(run(t, a.environment(), python, "-c", script)), " "); got != one.want {
			t.Errorf("httpx.get(%s) gave %q, and not %q", one.timeout, got, one.want)
		}
	}
}
