package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const (
	crowdedSites  = 1000
	crowdedTokens = 200
)

// crowdedConfig has many sites and tokens: one site is down, and one quota is used up by the
// first request.
func crowdedConfig(address string) string {
	var b strings.Builder
	b.WriteString("log: {level: error}\negress:\n  resolve:\n    \"down.test:80\": 127.0.0.1:1\n")
	for _, one := range append(siteNames(), "api.test", "slow.test", "quota.test") {
		fmt.Fprintf(&b, "    \"%s:80\": %s\n", one, address)
	}
	b.WriteString("pools:\n  api:\n    put: \"Authorization: Bearer {token}\"\n    tokens:\n")
	for i := range crowdedTokens {
		fmt.Fprintf(&b, "      - {label: account-%03d, secret: secret-%d}\n", i, i)
	}
	return b.String() + `sites:
  - {host: api.test, pool: api, insecure: true, limits: [{requests: 20000, per: day}]}
  - {host: slow.test, limits: [{concurrency: 1}, {requests: 10000, per: month}]}
  - {host: quota.test, limits: [{requests: 1, per: month}]}
  - {host: down.test, limits: [{requests: 100000, per: week}]}
`
}

func siteNames() []string {
	list := make([]string, crowdedSites-4)
	for i := range list {
		list[i] = fmt.Sprintf("site-%04d.example.com", i)
	}
	return list
}

// newCrowd builds and starts abide, and crawls many sites until it is in an incident: tokens are
// denied for two reasons, a site is down, one is paused, a quota is used up, and requests wait.
func newCrowd(t *testing.T) *crawl {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer secret-%d", &n) // 0 without a token
		switch {
		case r.Host == "slow.test":
			<-r.Context().Done()
		case n%50 == 7:
			w.WriteHeader(http.StatusPaymentRequired)
		case n%50 == 9:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("X-RateLimit-Limit", "60")
			w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(59-n%60))
			w.Header().Set("X-RateLimit-Reset", "300")
		}
	}))
	t.Cleanup(site.Close)
	c := &crawl{t: t}
	proxy := c.serve(t.TempDir(), crowdedConfig(site.Listener.Addr().String()))
	via := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), MaxIdleConnsPerHost: 20}
	ctx, hangUp := context.WithCancel(context.WithoutCancel(t.Context()))
	var waiting sync.WaitGroup
	t.Cleanup(func() {
		hangUp()
		waiting.Wait()
		via.CloseIdleConnections()
	})
	ask := func(site string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+site+"/", nil)
		if err != nil {
			panic(err) // the URL is of this test
		}
		if answer, err := via.RoundTrip(r); err == nil {
			answer.Body.Close()
		}
	}
	var all sync.WaitGroup
	sites := make(chan string)
	for range 16 {
		all.Go(func() {
			for site := range sites {
				ask(site)
			}
		})
	}
	for i, one := range siteNames() {
		sites <- one
		if i%4 == 0 {
			waiting.Go(func() { ask("api.test") })
		}
	}
	close(sites)
	all.Wait()
	for range 12 {
		for _, one := range []string{"slow.test", "quota.test", "down.test"} {
			waiting.Go(func() { ask(one) })
		}
	}
	waiting.Go(func() { // clients that do not give up: what abide refuses, and who is left alone, is so for as long as the test lasts
		for again := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			ask("quota.test")
			ask("down.test")
			select {
			case <-ctx.Done():
				again.Stop()
			case <-again.C:
			}
		}
	})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.admin+"/api/v1/sites/"+siteNames()[0]+"/pause", strings.NewReader(`{"reason":"they migrate"}`))
	c.check(err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	c.check(err)
	answer.Body.Close()
	return c
}

// screen has the tab show pages as on a screen of a size.
func screen(width, height int64, phone bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: phone})
		return err
	})
}

func TestAThousandSitesAndTwoHundredTokensFitTwoScreens(t *testing.T) {
	c := newCrowd(t)
	tab := newTab(t, "")
	tab.does("opening the page", screen(1440, 900, false), chromedp.Navigate("http://"+c.admin+"/"), chromedp.WaitVisible(chromedp.CSS("#live.on")))
	tab.until("what waits is shown", `document.querySelectorAll("#queue .waits tbody tr").length >= 2`)
	for _, one := range []struct {
		what, has string
	}{
		{"tokens that are denied", "tokens of api"},
		{"the site that is down", "down.test"},
		{"the pause", "they migrate"},
		{"the quota", "quota.test"},
	} {
		tab.until(one.what, fmt.Sprintf(`document.querySelector("#trouble").textContent.includes(%q)`, one.has))
	}
	tab.isTrue("all sites are counted", `document.querySelector("#sites").textContent.includes("more of 1\u202f000 sites")`)
	tab.isTrue("tokens are one line", `document.querySelectorAll("#tokens section > details").length === 1 && document.querySelector("#tokens").offsetHeight < 100`)
	const inOrder = `["trouble", "queue", "sites", "tokens", "limits"].map(id => document.getElementById(id).getBoundingClientRect().top).every((top, i, all) => i === 0 || top > all[i-1])`
	tab.isTrue("what is wrong is above what waits, above what flows", inOrder)
	tab.isTrue("it fits two screens", `document.documentElement.scrollHeight <= 2 * 900`)
	tab.isTrue("bars of limits have one left edge", `[...document.querySelectorAll("#limits .groups > div")].every(g => new Set([...g.querySelectorAll(".bar")].filter(b => b.offsetParent !== null || b.getClientRects().length).map(b => Math.round(b.getBoundingClientRect().left))).size <= 1)`)
	tab.isTrue("no text of a table stands over its neighbour", `[...document.querySelectorAll("#trouble td, #limits td, #queue td")].filter(e => e.getClientRects().length > 0).every(e => e.scrollWidth <= e.clientWidth + 1)`)
	tab.isTrue("a limit has room in the table of sites", `document.querySelector("#sites thead th:nth-child(9)").offsetWidth >= 240`)
	tab.does("opening what waits by client", chromedp.Evaluate[chromedp.Void](`document.querySelector("#queue details").open = true`))
	tab.isTrue("the panel beside is not stretched", `document.querySelector("#queue section").offsetTop === document.querySelector("#flow section").offsetTop && document.querySelector("#flow section").offsetHeight < 500`)
	tab.does("closing it", chromedp.Evaluate[chromedp.Void](`document.querySelector("#queue details").open = false`))
	tab.logs("height in pixels", `document.documentElement.scrollHeight`)
	tab.does("a small window", screen(800, 900, false))
	tab.until("sites tell what abide refuses", `[...document.querySelectorAll("#sites .warm")].some(e => e.textContent.includes("refused by abide"))`)
	tab.isTrue("no text of a table stands over its neighbour there", `[...document.querySelectorAll("#trouble td, #limits td, #queue td, #sites :is(th, td)")].filter(e => e.getClientRects().length > 0).every(e => e.scrollWidth <= e.clientWidth + 1)`)
	tab.does("a laptop", screen(1280, 800, false))
	tab.isTrue("what flows is beside what waits, on the first screen", `document.querySelector("#queue").getBoundingClientRect().top === document.querySelector("#flow").getBoundingClientRect().top && document.querySelector("#flow .big").getBoundingClientRect().bottom < 800`)
	tab.does("a long wait", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#sites td:nth-child(8) .small").forEach(e => { e.textContent = "for up to 3 min 46 s" })`))
	tab.isTrue("a wait takes two lines at most", `[...document.querySelectorAll("#sites td:nth-child(8)")].every(e => e.getClientRects().length === 0 || e.querySelector("b") === null || e.offsetHeight < 62)`)
	for _, width := range []int64{720, 820, 1024, 1152, 1440, 1920} {
		tab.does("another window", screen(width, 900, false))
		tab.isTrue(fmt.Sprintf("no text of sites runs into another in a window of %d", width), textsApart)
	}
	tab.until("a site that is left alone can be tried", `(() => { const button = document.querySelector("#trouble button[value=try]"); button?.click(); return !!button })()`)
	tab.until("the page says what follows", `document.querySelector("#answer").textContent === "down.test can be asked again: the next request tries it"`)
	tab.until("and then what came of it", `document.querySelector("#answer").textContent === "down.test was tried, and failed again"`)
	tab.does("a phone", screen(390, 844, true))
	tab.isTrue("why is above until when", `[...document.querySelectorAll("#trouble tbody tr")].filter(e => e.getClientRects().length > 0).every(e => e.cells[2].getClientRects().length === 0 || e.cells[1].getBoundingClientRect().bottom <= e.cells[2].getBoundingClientRect().top + 1)`)
	tab.isTrue("it fits four screens of a phone", `document.documentElement.scrollHeight <= 4 * 844`)
	tab.isTrue("it is as wide as a phone", `document.documentElement.scrollWidth <= 390 && innerWidth === 390`)
	tab.isTrue("a finger finds links, folds and buttons", `[...document.querySelectorAll("a, summary, button")].every(e => e.getClientRects().length === 0 || e.offsetHeight >= 24)`)
	tab.isTrue("the rate of each site is at one place", `new Set([...document.querySelectorAll("#sites tr td:nth-child(3)")].filter(e => e.getClientRects().length > 0).map(e => e.getBoundingClientRect().left)).size === 1`)
	tab.logs("height in pixels on a phone", `document.documentElement.scrollHeight`)
	tab.isTrue("without opening anything, headings are in order", `[...document.querySelectorAll("h1, h2, h3")].every((h, i, all) => i === 0 ? h.tagName === "H1" : h.tagName[1] - all[i-1].tagName[1] <= 1)`)
	tab.isTrue("each control has a name", `[...document.querySelectorAll("button, input:not([type=hidden]), summary, a")].every(e => (e.getAttribute("aria-label") || e.textContent || e.closest("label")?.textContent || "").trim() !== "")`)
	tab.does("the past on a phone", chromedp.Navigate("http://"+c.admin+"/past?since=7d&step=1d"), chromedp.WaitVisible(chromedp.CSS(".past td")))
	tab.isTrue("nothing of the past is beside the screen", `document.documentElement.scrollWidth <= 390 && [...document.querySelectorAll(".wide, .past tr, pre")].every(e => e.scrollWidth <= e.clientWidth + 1)`)
	tab.isTrue("each number of the past has its name", `[...document.querySelectorAll(".past td")].every(e => e.dataset.name !== "" && getComputedStyle(e, "::before").content.includes(e.dataset.name))`)
	tab.quiet()
}

// textsApart is true where each text of the table of sites is beside the others, also where requests wait for long.
const textsApart = `(() => {
	document.querySelectorAll("#sites td:nth-child(8) .small").forEach(e => { e.textContent = "for up to 59 min 59 s" });
	const boxes = [...document.querySelectorAll("#sites .sites :is(th, td)")].filter(cell => cell.getClientRects().length > 0).map(cell => {
		const range = document.createRange();
		range.selectNodeContents(cell);
		return range.getBoundingClientRect();
	}).filter(box => box.width > 0);
	return boxes.every((a, i) => boxes.slice(i + 1, i + 12).every(b => Math.min(a.right, b.right) - Math.max(a.left, b.left) < 1 || Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) < 1));
})()`
