package admin

import (
	"context"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// chromium runs a real browser once and gives what it printed.
func chromium(t *testing.T, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--timeout=2000", "--user-data-dir=" + t.TempDir(),
	}, arguments...)...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v (make test installs it)", err)
	}
	return string(out)
}

func TestTheDashboardIsReadableInARealBrowser(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, o *given) {
		withHolds(many(3, "api.example.com", "2 in flight", time.Time{})...)(p, o)
		withBreakers(status.Breaker{Site: "ill.example.com", State: "open"})(p, o)
	})
	site := b.metrics.Site("api.example.com")
	site.Request("GET", 200, time.Millisecond)
	site.Read(1_500_000)
	b.metrics.Site(`<script>document.title = "run"</script>`).Request("GET", 200, time.Millisecond)

	page := chromium(t, "--dump-dom", "http://"+b.address+"/")
	for _, want := range []string{"api.<wbr>example.<wbr>com", "HTTP_PROXY", "<b>at most 2 in flight</b>", "ill.<wbr>example.<wbr>com", "&lt;script&gt;document.title"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<title>run</title>") {
		t.Error("the name of a site was run")
	}

	file := filepath.Join(t.TempDir(), "page.png")
	chromium(t, "--window-size=900,1200", "--screenshot="+file, "http://"+b.address+"/")
	shot, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer shot.Close()
	picture, _, err := image.Decode(shot)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 10 {
		t.Errorf("%d colours: the style sheet was not used or nothing was drawn", len(colours))
	}
}

// pressing is the admin listener with a script that presses a button of the first
// page, once.
func pressing(inside http.Handler, button string) http.Handler {
	var shown atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/press.js":
			fmt.Fprintf(w, "document.querySelector(%q).click()", button)
		case r.Method == http.MethodGet && r.URL.Path == "/":
			page := httptest.NewRecorder()
			inside.ServeHTTP(page, r)
			maps.Copy(w.Header(), page.Header())
			w.WriteHeader(page.Code)
			text := page.Body.String()
			if page.Code == 200 && shown.CompareAndSwap(false, true) {
				text = strings.Replace(text, "</body>", `<script src="/press.js"></script></body>`, 1)
			}
			io.WriteString(w, text)
		default:
			inside.ServeHTTP(w, r)
		}
	})
}

func TestARealBrowserShowsTokensAndItsButtonsWork(t *testing.T) {
	const button = `button[aria-label="Disable <b>news/ü 1"]`
	for _, one := range []struct {
		name   string
		change func(*policy.Policy, *given)
		url    string
	}{
		{"on loopback", nil, "http://HOST:PORT/"},
		// Browsers do not say of a name over plain http which site a request is from.
		{"by name, with a token", withToken, "http://any:" + token + "@abide.test:PORT/"},
	} {
		t.Run(one.name, func(t *testing.T) {
			k := pools(time.Now())
			k.all.Pools[0].Tokens[0].Label = "<b>news/ü 1"
			p := policy.Defaults()
			o := given{Options: Options{Policy: func() *policy.Policy { return p }, Metrics: metrics.New(10)}}
			k.into(p, &o)
			if one.change != nil {
				one.change(p, &o)
			}
			address := serve(t, Server(pressing(New(o.options()), button)), nil)
			host, port, _ := net.SplitHostPort(address)
			at := strings.NewReplacer("HOST", host, "PORT", port).Replace(one.url)
			page := chromium(t, "--host-resolver-rules=MAP abide.test "+host, "--dump-dom", at)
			if want := "[disabled twitter <b>news/ü 1]"; k.done() != want {
				t.Fatalf("it did %s:\n%s", k.done(), page)
			}
			page = chromium(t, "--host-resolver-rules=MAP abide.test "+host, "--dump-dom", at)
			for _, want := range []string{`aria-label="Enable <b>news/ü 1"`, "&lt;b&gt;news/ü 1", "twitter", "denied", "0 of 75", "75 per 15m for GET /2/tweets/*", "59 of 60"} {
				if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "<b>", "&lt;b&gt;")) {
					t.Errorf("the page lacks %q:\n%s", want, page)
				}
			}
		})
	}
}
