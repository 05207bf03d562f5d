package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/bench/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const config = `
egress: {resolve: {"api.test:80": %[1]s, "slow.test:80": %[1]s}}
pools:
  twitter:
    put: "Authorization: Bearer {token}"
    tokens:
      - {label: "news/ü 1", secret: first}
      - {label: cool, secret: second}
      - {label: dead, secret: third}
sites:
  - host: api.test
    pool: twitter
    insecure: true
    limits: [{concurrency: 2}]
  - host: slow.test
    limits: [{concurrency: 1}]
`

// crawl is a running abide with a site that it crawls.
type crawl struct {
	t      *testing.T
	admin  string // the address of the admin listener
	client http.Client
	stop   func()      // ends abide
	cools  atomic.Bool // the site refuses the first token for ten minutes
}

// newCrawl builds and starts abide. The site answers the third token with 401. Three requests to
// another site are under way or wait until the test ends.
func newCrawl(t *testing.T) *crawl {
	t.Helper()
	c := &crawl{t: t}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := r.Header.Get("Authorization"); {
		case r.Host == "slow.test":
			<-r.Context().Done()
		case token == "Bearer third":
			w.WriteHeader(http.StatusUnauthorized)
		case token == "Bearer first" && c.cools.Load():
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(site.Close)
	dir := t.TempDir()
	proxy := c.serve(dir, fmt.Sprintf(config, site.Listener.Addr()))
	via := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
	c.client.Transport = via
	slow, hangUp := context.WithCancel(context.WithoutCancel(t.Context()))
	var waiting sync.WaitGroup
	for range 3 {
		r, err := http.NewRequestWithContext(slow, http.MethodGet, "http://slow.test/", nil)
		c.check(err)
		waiting.Go(func() {
			if answer, err := via.RoundTrip(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	t.Cleanup(func() {
		hangUp()
		waiting.Wait()
		via.CloseIdleConnections()
	})
	return c
}

// serve builds and starts abide with a configuration, and returns the address of the proxy.
func (c *crawl) serve(dir, config string) (proxy string) {
	c.t.Helper()
	root, err := process.RepositoryRoot(c.t.Context())
	c.check(err)
	c.check(process.Build(c.t.Context(), root, filepath.Join(dir, "abide"), "./cmd/abide"))
	c.check(os.WriteFile(filepath.Join(dir, "abide.yaml"), []byte(config), 0o600))
	proxy, err = process.FreeAddress()
	c.check(err)
	c.admin, err = process.FreeAddress()
	c.check(err)
	abide := process.New("abide", filepath.Join(dir, "abide"), "serve", "--config", filepath.Join(dir, "abide.yaml"), "--listen", proxy, "--admin", c.admin, "--data", filepath.Join(dir, "data"))
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	c.stop = abide.Stop
	c.t.Cleanup(func() { c.stop(); cancel() })
	c.check(abide.StartAt(ctx, c.admin))
	return proxy
}

func (c *crawl) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ask sends requests to the site, one after the other.
func (c *crawl) ask(times int) {
	c.t.Helper()
	for range times {
		answer, err := c.client.Get("http://api.test/")
		c.check(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			c.t.Fatalf("the crawler sees %s", answer.Status)
		}
	}
}

// shown returns the JSON of a path of the API.
func (c *crawl) shown(path string) string {
	c.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + c.admin + "/api/v1/" + path)
	c.check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	c.check(err)
	return string(text)
}

// shows checks that the JSON of a path of the API has a text.
func (c *crawl) shows(path, text string) {
	c.t.Helper()
	if got := c.shown(path); !strings.Contains(got, text) {
		c.t.Errorf("%s has no %q:\n%s", path, text, got)
	}
}

func TestARealBrowserKeepsThePageLive(t *testing.T) {
	c := newCrawl(t)
	c.ask(1)
	tab := newTab(t, "")
	tab.does("opening the page", chromedp.Navigate("http://"+c.admin+"/"), chromedp.WaitVisible(chromedp.CSS("#live.on")))
	const row = `document.querySelector('tr[data-key="api.test"]')`
	tab.does("opening details and writing", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#queue details, #tokens details").forEach(d => d.open = true); window.seen = `+row), chromedp.SendKeys(chromedp.CSS(`input[name=site]`), "ap"))
	c.ask(41)
	tab.until("the number of requests changes", row+`.cells[4].innerText === "42"`)
	tab.does("pressing a button of the mouse", chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new PointerEvent("pointerdown", {buttons: 1})); (window.other = new EventSource("/api/v1/events")).addEventListener("part", e => { window.came ||= JSON.parse(e.data).html.includes(">47<"); })`))
	c.ask(5)
	tab.until("another number has come", `window.came`)
	tab.isTrue("no row changes under a click", row+`.cells[4].innerText === "42"`)
	tab.does("letting go", chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new PointerEvent("pointerup", {buttons: 0})); window.other.close()`))
	tab.until("it changes then", row+`.cells[4].innerText === "47"`)
	c.cools.Store(true)
	c.ask(2)
	tab.until("the token is seen put away", `!!document.querySelector('tr[data-key="news/ü 1"] .t-partly')`)
	tab.isTrue("details stay open", `document.querySelector("#queue details").open && document.querySelector("#tokens details").open`)
	tab.isTrue("the focus stays, and what was entered", `document.activeElement.name === "site" && document.activeElement.value === "ap"`)
	tab.isTrue("the row is the same element", row+` === window.seen`)
	tab.isTrue("there is one script", `document.scripts.length === 1`)
	tab.does("opening a pool, and loading the page again", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#tokens details").forEach(d => d.open = false)`), chromedp.Click(chromedp.CSS("#tokens .pool > summary")), chromedp.Evaluate[chromedp.Void](`window.seen = undefined`), chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("#live.on")))
	tab.isTrue("what was opened is open, and nothing else", `document.querySelector("#tokens .pool").open && !document.querySelector("#queue details").open`)
	const fits = `document.documentElement.scrollWidth <= document.documentElement.clientWidth`
	tab.isTrue("the page is as wide as the window", fits)
	tab.does("a phone", screen(390, 800, true))
	tab.isTrue("the page is as wide as a phone", fits+` && innerWidth === 390`)
	tab.isTrue("the title says what is wrong", `document.title === "abide: 1 thing is wrong"`)
	tab.quiet()
	c.stop()
	tab.until("the page says when it was last live", `/^connection lost, trying again; last seen \d\d:\d\d:\d\d UTC$/.test(document.querySelector("#live.off")?.textContent) && /^abide: last seen /.test(document.title) && getComputedStyle(document.querySelector("main")).opacity < 1`)
	tab.does("pausing what is gone", chromedp.Click(chromedp.CSS(`button[aria-label="Pause api.test"]`)))
	tab.until("that nothing was changed is as plain as ever", `document.querySelector("#answer").textContent === "Nothing was changed: abide does not answer" && document.querySelector("#answer").closest("main") === null`)
}

func TestARealBrowserPausesASiteAndChangesALimit(t *testing.T) {
	for _, one := range []struct {
		name    string
		script  bool
		refusal string
	}{{"with script", true, `//p[@role="alert"]`}, {"without script", false, `//h2[text()="This was not done"]`}} {
		t.Run(one.name, func(t *testing.T) {
			c := newCrawl(t)
			c.ask(3)
			tab := newTab(t, "")
			tab.does("opening the page", scripts(one.script), chromedp.Navigate("http://"+c.admin+"/"))
			tab.does("pausing", chromedp.Click(chromedp.CSS(`button[aria-label="Pause api.test"]`)), chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Resume api.test"]`)))
			c.shows("sites/api.test", `"reason":"with the button on the page"`)
			if one.script {
				tab.until("the focus stays at the row", `document.activeElement.getAttribute("aria-label")?.startsWith("Resume api.test")`)
			}
			tab.does("resuming", chromedp.Click(chromedp.CSS(`button[aria-label="Resume api.test"]`)), chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Pause api.test"]`)))
			if got := c.shown("sites/api.test"); strings.Contains(got, `"paused"`) {
				t.Errorf("it is not resumed: %s", got)
			}
			tab.does("pausing on the page of the site, which follows", chromedp.Click(`//a[.="api.test"]`), chromedp.WaitVisible(chromedp.CSS(".chosen")),
				chromedp.Click(chromedp.CSS(`#sites button[aria-label="Pause api.test"]`)), chromedp.WaitVisible(chromedp.CSS(`.chosen button[value=resume]`)),
				chromedp.Click(chromedp.CSS(`.chosen button[value=resume]`)), chromedp.WaitVisible(chromedp.CSS(`.chosen button[value=pause]`)))
			tab.does("pausing with a reason",
				chromedp.SendKeys(chromedp.CSS(`input[name=reason]`), "they migrate"), chromedp.SendKeys(chromedp.CSS(`input[name=for]`), "2h"),
				chromedp.Click(chromedp.CSS(`.chosen button[value=pause]`)), chromedp.WaitVisible(chromedp.CSS(`.chosen button[value=resume]`)))
			c.shows("sites/api.test", `"reason":"they migrate"`)
			const limits = `textarea[name=limits]`
			tab.does("changing limits", chromedp.SetValue(chromedp.CSS(limits), "limits:\n- {requests: 7, per: 1s}\n"), chromedp.Click(chromedp.CSS(`button[value=set]`)), chromedp.WaitVisible(chromedp.CSS(`button[value=clear]`)))
			c.shows("sites/api.test/limits", `"requests":7`)
			tab.does("changing limits to nonsense", chromedp.SetValue(chromedp.CSS(limits), "limits: [{requests: many}]"), chromedp.Click(chromedp.CSS(`button[value=set]`)), chromedp.WaitVisible(one.refusal))
			if one.script {
				tab.isTrue("the reason stands beside the form, which keeps what was entered", `document.querySelector(".chosen .refused").textContent.includes("requests") && document.querySelector("textarea[name=limits]").value === "limits: [{requests: many}]"`)
			}
			c.shows("sites/api.test/limits", `"requests":7`)
			tab.does("disabling a token", chromedp.Navigate("http://"+c.admin+"/"), chromedp.Click(chromedp.CSS(`#tokens .pool > summary`)), chromedp.Click(chromedp.CSS(`#tokens .pool details > summary`)), chromedp.Click(chromedp.CSS(`button[aria-label="Disable cool"]`)), chromedp.WaitReady(chromedp.CSS(`button[aria-label="Enable cool"]`)))
			c.shows("tokens", `"state":"disabled"`)
			tab.does("ending a quarantine", chromedp.Click(chromedp.CSS(`#trouble button[aria-label="Try dead again now"]`)))
			if one.script {
				tab.until("the page says what follows", `document.querySelector("#answer").textContent === "dead can go again: the next request tries it"`)
			}
			tab.does("seeing it gone", chromedp.WaitNotPresent(chromedp.CSS(`button[aria-label="Try dead again now"]`)))
			if got := c.shown("tokens"); strings.Contains(got, `"state":"quarantined"`) {
				t.Errorf("a token is in quarantine: %s", got)
			}
		})
	}
}
