package browser

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// shopPage has twenty pictures and a script that asks for data.
var shopPage = func() string {
	page := `<!DOCTYPE html><title>shop</title><body>`
	for n := range 20 {
		page += fmt.Sprintf(`<img src="/picture/%d">`, n)
	}
	return page + `<script>fetch("/data").then(r => r.text()).then(text => { document.title = text })</script>`
}()

// TestABrowserThatIgnoresCertificateErrorsIsCrawledWith: tools such as Playwright have Chromium
// ignore the certificate of abide's CA. Chromium refuses it once and comes back at once, on
// several connections, which is no reason to stop reading the requests.
func TestABrowserThatIgnoresCertificateErrorsIsCrawledWith(t *testing.T) {
	var asked atomic.Int64
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, shopPage)
		case r.URL.Path == "/data":
			fmt.Fprint(w, "complete")
		}
	}))
	t.Cleanup(origin.Close)
	c, dir := &crawl{t: t}, t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	c.check(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: origin.Certificate().Raw}), 0o600))
	proxy := c.serve(dir, fmt.Sprintf("intercept: all\negress: {resolve: {\"example.com:443\": %q}, roots: %q}\n", origin.Listener.Addr(), roots))
	for run := range 3 {
		asked.Store(0)
		t.Run(fmt.Sprintf("run %d", run+1), func(t *testing.T) {
			tab := newTab(t, proxy)
			ignore := chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
				_, err := cdp.Call(ctx, to, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
				return err
			})
			tab.does("a page through abide", ignore, chromedp.Navigate("https://example.com/"))
			tab.until("all of the page", `document.title == "complete"`)
		})
		if n := asked.Load(); n < 22 {
			t.Errorf("run %d: the site was asked %d times", run+1, n)
		}
	}
	if sites := c.shown("status"); strings.Contains(sites, "unread") && !strings.Contains(sites, `"unread":[]`) {
		t.Errorf("https passed unread: %s", sites)
	}
}
