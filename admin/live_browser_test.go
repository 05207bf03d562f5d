package admin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// browserTab is a tab of a real browser, and the errors of its console.
type browserTab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// newTab starts a browser. It fails where there is none.
func newTab(t *testing.T) *browserTab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true), chromedp.WSURLReadTimeout(5*time.Minute),
		chromedp.WindowSize(1300, 1000),
	)
	limited, cancelLimit := context.WithTimeout(t.Context(), 10*time.Minute)
	allocator, cancelAllocator := chromedp.NewExecAllocator(limited, options...)
	tab := &browserTab{t: t}
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithListener(tab.heard))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // the browser ends
		cancel()
		cancelAllocator()
		cancelLimit()
	})
	tab.ctx = ctx
	listen := chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, cdplog.Enable, cdp.Empty{})
		return err
	})
	if err := chromedp.Do(ctx, listen); err != nil {
		t.Fatalf("chromium: %v (make test installs it)", err)
	}
	return tab
}

// heard keeps errors of the console.
func (b *browserTab) heard(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception)
	case *cdplog.EventEntryAdded:
		text = string(e.Entry.Level) + ": " + e.Entry.Text + " " + e.Entry.URL
	case *runtime.EventConsoleAPICalled:
		text = string(e.Type)
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// does runs actions.
func (b *browserTab) does(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 3*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.OuterHTML(chromedp.CSS("html"))) // for the report alone
		b.t.Fatalf("%s: %v\n%.6000s", what, err, text)
	}
}

// until waits until an expression is true.
func (b *browserTab) until(what, expression string) {
	b.t.Helper()
	b.does(what, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(2*time.Minute), chromedp.WithPollingInterval(50*time.Millisecond)))
}

// isTrue checks an expression.
func (b *browserTab) isTrue(what, expression string) {
	b.t.Helper()
	if ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err != nil || !ok {
		b.t.Errorf("%s: not so (%v)", what, err)
	}
}

// scripts lets pages run scripts, or not.
func scripts(may bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !may})
		return err
	})
}

// pausing pauses sites, for tests.
type pausing struct {
	mu  sync.Mutex
	all map[string]status.Pause
}

func (p *pausing) into(_ *policy.Policy, o *given) {
	p.all = map[string]status.Pause{}
	o.Pauses = func() map[string]status.Pause {
		p.mu.Lock()
		defer p.mu.Unlock()
		copied := map[string]status.Pause{}
		for site, one := range p.all {
			copied[site] = one
		}
		return copied
	}
	o.PauseSite = func(site string, pause status.Pause) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all[site] = pause
		return nil
	}
	o.ResumeSite = func(site string) (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, was := p.all[site]
		delete(p.all, site)
		return was, nil
	}
}

// reason is why a site is paused, and for how long.
func (p *pausing) reason(site string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause, paused := p.all[site]
	if !paused {
		return "not paused"
	}
	return fmt.Sprint(pause.Reason, " for ", pause.Until.Sub(pause.Since))
}

// limitsOf are the limits that were set of a site.
func (o *overriding) limitsOf(site string) []policy.Limit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[site]
}

// livePage is a listener with sites, tokens, holds and limits that can be changed.
func livePage(t *testing.T) (b *bed, k *keeper, paused *pausing, set *overriding) {
	k, paused, set = pools(time.Now()), &pausing{}, &overriding{}
	b = newBed(t, func(p *policy.Policy, o *given) {
		withHolds(many(3, "api.test", "2 in flight", time.Time{})...)(p, o)
		k.into(p, o)
		paused.into(p, o)
		set.into(p, o)
	})
	b.metrics.Site("api.test").Request("GET", 200, time.Millisecond)
	b.metrics.Site(hostile[1]).Request("GET", 200, time.Millisecond)
	return b, k, paused, set
}

func TestARealBrowserKeepsThePageLive(t *testing.T) {
	b, k, _, _ := livePage(t)
	tab := newTab(t)
	tab.does("opening the page", chromedp.Navigate("http://"+b.address+"/"), chromedp.WaitVisible(chromedp.CSS("#live.on")))
	const row = `document.querySelector('tr[data-key="api.test"]')`
	tab.does("opening details and writing", chromedp.Evaluate[chromedp.Void](`document.querySelector("#queue details").open = true; window.seen = `+row), chromedp.SendKeys(chromedp.CSS(`input[name=site]`), "ap"))
	for range 41 {
		b.metrics.Site("api.test").Request("GET", 200, time.Millisecond)
	}
	tab.until("the number of requests changes", row+`.cells[4].innerText === "42"`)
	if err := k.set("cooling")("twitter", "news/ü 1"); err != nil {
		t.Fatal(err)
	}
	tab.until("the token is seen cooling", `document.querySelector('tr[data-key="news/ü 1"] .t-word').innerText === "cooling" && !!document.querySelector('tr[data-key="news/ü 1"] .t-cooling')`)
	tab.isTrue("details stay open", `document.querySelector("#queue details").open`)
	tab.isTrue("the focus stays, and what was entered", `document.activeElement.name === "site" && document.activeElement.value === "ap"`)
	tab.isTrue("the row is the same element", row+` === window.seen`)
	tab.isTrue("a hostile name is text", `document.scripts.length === 1 && document.querySelector("#sites").innerText.includes("<script>alert(1)</script>")`)
	const fits = `document.documentElement.scrollWidth <= document.documentElement.clientWidth`
	tab.isTrue("the page is as wide as the window", fits)
	tab.does("a phone", chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 800, DeviceScaleFactor: 1, Mobile: true})
		return err
	}))
	tab.isTrue("the page is as wide as a phone", fits+` && innerWidth === 390`)
	tab.quiet()
}

// quiet checks that the console has no error.
func (b *browserTab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.t.Errorf("the console has:\n%s", strings.Join(b.errors, "\n"))
	}
}

func TestARealBrowserPausesASiteAndChangesALimit(t *testing.T) {
	for _, one := range []struct {
		name   string
		script bool
	}{{"with script", true}, {"without script", false}} {
		t.Run(one.name, func(t *testing.T) {
			b, k, paused, set := livePage(t)
			tab := newTab(t)
			tab.does("opening the page", scripts(one.script), chromedp.Navigate("http://"+b.address+"/"))
			tab.does("pausing", chromedp.Click(chromedp.CSS(`button[aria-label="Pause api.test"]`)), chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Resume api.test"]`)))
			if got := paused.reason("api.test"); !strings.HasPrefix(got, "with the button on the page for ") {
				t.Errorf("it is %s", got)
			}
			tab.does("resuming", chromedp.Click(chromedp.CSS(`button[aria-label="Resume api.test"]`)), chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Pause api.test"]`)))
			tab.does("pausing with a reason", chromedp.Click(`//a[text()="api.test"]`), chromedp.WaitVisible(chromedp.CSS(".chosen")),
				chromedp.SendKeys(chromedp.CSS(`input[name=reason]`), "they migrate"), chromedp.SendKeys(chromedp.CSS(`input[name=for]`), "2h"),
				chromedp.Click(chromedp.CSS(`.chosen button[value=pause]`)), chromedp.WaitVisible(chromedp.CSS(`.chosen button[value=resume]`)))
			if got := paused.reason("api.test"); got != "they migrate for 2h0m0s" {
				t.Errorf("it is paused because of %s", got)
			}
			const limits = `textarea[name=limits]`
			tab.does("changing limits", chromedp.SetValue(chromedp.CSS(limits), "limits:\n- {requests: 7, per: 1s}\n"), chromedp.Click(chromedp.CSS(`button[value=set]`)), chromedp.WaitVisible(chromedp.CSS(`button[value=clear]`)))
			if got := set.limitsOf("api.test"); len(got) != 1 || got[0].Amount != 7 {
				t.Errorf("the limits are %+v", got)
			}
			tab.does("changing limits to nonsense", chromedp.SetValue(chromedp.CSS(limits), "limits: [{requests: many}]"), chromedp.Click(chromedp.CSS(`button[value=set]`)), chromedp.WaitVisible(`//h2[text()="Nothing was changed"]`))
			tab.does("disabling a token", chromedp.Navigate("http://"+b.address+"/"), chromedp.Click(chromedp.CSS(`button[aria-label="Disable cool"]`)), chromedp.WaitVisible(chromedp.CSS(`button[aria-label="Enable cool"]`)))
			if got := k.done(); got != "[disabled twitter cool]" {
				t.Errorf("it did %s", got)
			}
			tab.does("ending a quarantine", chromedp.Click(chromedp.CSS(`button[aria-label="Enable dead"]`)), chromedp.WaitNotPresent(chromedp.CSS(`button[aria-label="Enable dead"]`)))
		})
	}
}
