package browser

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
)

// browserTab is a tab of a real browser, and the errors of its console.
type browserTab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// newTab starts a browser that uses a proxy, or none for "". It fails where there is no browser.
func newTab(t *testing.T, proxy string) *browserTab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(5*time.Minute),
		chromedp.WindowSize(1300, 1000),
	)
	if proxy == "" {
		options = append(options, chromedp.Flag("no-proxy-server", true))
	} else {
		options = append(options, chromedp.ProxyServer("http://"+proxy))
	}
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

// logs writes a number to the log of the test.
func (b *browserTab) logs(what, expression string) {
	b.t.Helper()
	n, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](expression))
	b.t.Logf("%s: %v (%v)", what, n, err)
}

// scripts lets pages run scripts, or not.
func scripts(may bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !may})
		return err
	})
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
