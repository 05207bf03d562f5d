package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
	"github.com/abide-proxy/abide/status"
)

// unlearned is a configuration in which no request waits for the first response of a site.
const unlearned = "defaults: {limits: [], learn: false}\n"

// permitLife is the time after which a permit expires.
const permitLife = time.Minute

func (w rig) permit(u string, change ...func(*status.PermitAsk)) (status.Grant, *status.Denied) {
	w.T.Helper()
	a := status.PermitAsk{URL: u, Priority: -1}
	for _, one := range change {
		one(&a)
	}
	g, err := w.Permit(w.T.Context(), a)
	var denied *status.Denied
	if err != nil && !errors.As(err, &denied) {
		w.T.Fatalf("asking for %s: %v", u, err)
	}
	return g, denied
}

func withWait(d time.Duration) func(*status.PermitAsk) {
	return func(a *status.PermitAsk) { a.Wait = d }
}

func withBytes(n int64) func(*status.PermitAsk) { return func(a *status.PermitAsk) { a.Bytes = n } }

func withCost(n int64) func(*status.PermitAsk) { return func(a *status.PermitAsk) { a.Cost = n } }

func (w rig) settle(g status.Grant, e status.PermitEnd) {
	w.T.Helper()
	if err := w.SettlePermit(g.ID, e); err != nil {
		w.T.Errorf("settling: %v", err)
	}
}

// remainingOf is what is left of a limit with a unit, -1 if there is none.
func (w rig) remainingOf(site, unit string) int64 {
	w.T.Helper()
	for _, l := range w.WrittenLimits() {
		if l.Site == site && l.Unit == unit {
			return l.Left
		}
	}
	return -1
}

// startOfWindow advances the clock to just after the begin of a window.
func startOfWindow(window time.Duration) {
	elapse(time.Until(time.Now().Truncate(window).Add(window + time.Millisecond)))
}

func TestAPermitTakesAPlaceAndWaitsForOne(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 2, per: 10m, as: fixed}]}\n", func(w rig) {
		startOfWindow(10 * time.Minute)
		first, denied := w.permit("http://site.test/a")
		if denied != nil || len(first.ID) != 32 || first.Site != "site.test" || first.Token != "" || first.Waited != 0 || time.Until(first.Expires) != permitLife {
			t.Errorf("%+v, %v", first, denied)
		}
		second, _ := w.permit("https://site.test/a") // the same site
		if second.ID == "" || second.ID == first.ID || w.remainingOf("site.test", "requests") != 0 {
			t.Errorf("%+v, %d left", second, w.remainingOf("site.test", "requests"))
		}
		began := time.Now()
		_, denied = w.permit("http://site.test/a")
		if denied == nil || denied.Status != 429 || denied.Reason != "wait" || denied.Limit == "" || time.Until(denied.RetryAt) < 9*time.Minute || time.Since(began) > 100*time.Millisecond {
			t.Errorf("%+v after %v", denied, time.Since(began))
		}
		third, denied := w.permit("http://site.test/a", withWait(time.Hour))
		if denied != nil || time.Since(began) < 9*time.Minute || third.Waited < 9*time.Minute {
			t.Errorf("%+v, %v after %v", third, denied, time.Since(began))
		}
		if n := w.OpenPermits(); n != 1 { // the others have expired
			t.Errorf("%d are out", n)
		}
		w.settle(third, status.PermitEnd{Status: 200})
		if w.Asked.Load() != 0 {
			t.Error("the site was asked")
		}
		w.idle("site.test")
	})
}

func TestAURLThatNoRequestIsSentToHasNoPermit(t *testing.T) {
	run(t, echoing, unlearned+"", func(w rig) {
		for _, a := range []status.PermitAsk{
			{URL: "ftp://site.test/"},
			{URL: "site.test"},
			{URL: "http://"},
			{URL: "http://a b/"},
			{URL: "%"},
			{URL: ""},
			{URL: "http://site.test:0/"},
			{URL: "http://site.test/", Method: "CONNECT"},
			{URL: "http://site.test/", Method: "G T"},
			{URL: "http://site.test/", Method: "TRACE"},
		} {
			if g, err := w.Permit(w.T.Context(), a); err == nil || errors.As(err, new(*status.Denied)) {
				t.Errorf("%+v: %v, %v", a, g, err)
			}
		}
	})
}

func TestAPermitThatNobodySettlesCountsAsSent(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 10, per: 1h, as: fixed}, {concurrency: 1}, {bytes: 1MB, per: 1h}]}\n", func(w rig) {
		startOfWindow(time.Hour)
		g, _ := w.permit("http://site.test/", withBytes(100_000))
		if left := w.remainingOf("site.test", "bytes"); left != 900_000 {
			t.Errorf("%d bytes are left", left)
		}
		began := time.Now()
		if a := w.Get("http://site.test/"); a.Status != 200 || time.Since(began) != permitLife {
			t.Errorf("%d after %v", a.Status, time.Since(began))
		}
		if n := w.remainingOf("site.test", "requests"); n != 8 {
			t.Errorf("%d requests are left", n)
		}
		if left := w.remainingOf("site.test", "bytes"); left > 900_000 || left < 899_000 {
			t.Errorf("%d bytes are left", left)
		}
		if err := w.SettlePermit(g.ID, status.PermitEnd{Status: 200}); !errors.As(err, new(status.Missing)) {
			t.Errorf("settling it then: %v", err)
		}
		w.idle("site.test")
	})
}

func TestAPermitIsSettledOnce(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 10, per: 1h, as: fixed}, {cost: 100, per: 1h, as: fixed}, {bytes: 1MB, per: 1h}, {concurrency: 5}]}\n", func(w rig) {
		startOfWindow(time.Hour)
		g, _ := w.permit("http://site.test/")
		w.settle(g, status.PermitEnd{Unsent: true})
		for _, c := range []struct {
			end                   status.PermitEnd
			requests, cost, bytes int64
		}{
			{status.PermitEnd{Status: 200, Bytes: 5_000}, 1, 7, 5_000},
			{status.PermitEnd{Status: 200, Bytes: 300_000}, 1, 7, 300_000},
			{status.PermitEnd{Status: 200}, 1, 7, 10_000}, // as asked
			{status.PermitEnd{}, 1, 7, 10_000},
			{status.PermitEnd{Status: 500, Bytes: 100}, 1, 7, 100},
			{status.PermitEnd{Unsent: true}, 0, 0, 0},
			{status.PermitEnd{Unsent: true, Bytes: 100, Status: 429}, 0, 0, 0},
		} {
			requests, cost, bytes := w.remainingOf("site.test", "requests"), w.remainingOf("site.test", "cost"), w.remainingOf("site.test", "bytes")
			g, denied := w.permit("http://site.test/", withBytes(10_000), withCost(7))
			if denied != nil {
				t.Fatal(denied)
			}
			if took := bytes - w.remainingOf("site.test", "bytes"); took != 10_000 {
				t.Errorf("%d bytes were taken", took)
			}
			w.settle(g, c.end)
			if err := w.SettlePermit(g.ID, c.end); !errors.As(err, new(status.Missing)) {
				t.Errorf("settled twice: %v", err)
			}
			requests -= w.remainingOf("site.test", "requests")
			cost -= w.remainingOf("site.test", "cost")
			bytes -= w.remainingOf("site.test", "bytes")
			if requests != c.requests || cost != c.cost || bytes != c.bytes {
				t.Errorf("%+v: %d requests, %d cost and %d bytes were taken", c.end, requests, cost, bytes)
			}
		}
		if err := w.SettlePermit("", status.PermitEnd{}); !errors.As(err, new(status.Missing)) {
			t.Error(err)
		}
		w.idle("site.test")
	})
}

func TestMoreBytesThanThereEverAreHaveNoPermit(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{bytes: 100kB, per: 1h}]}\n", func(w rig) {
		_, denied := w.permit("http://site.test/", withBytes(100_001), withWait(24*time.Hour))
		if denied == nil || denied.Reason != "never" || denied.Status != 429 {
			t.Errorf("%+v", denied)
		}
	})
}

// The bytes that one client declares are not the estimate for others.
func TestDeclaredBytesAreNobodyElses(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{bytes: 32kB, per: 1h}]}\n", func(w rig) {
		startOfWindow(time.Hour)
		g, denied := w.permit("http://site.test/", withBytes(16<<10))
		if took := 32_000 - w.remainingOf("site.test", "bytes"); denied != nil || took != 16<<10 {
			t.Errorf("%v, %d bytes were taken", denied, took)
		}
		if _, denied := w.permit("http://site.test/"); denied != nil { // a fourth of the limit
			t.Errorf("%+v", denied)
		}
		w.settle(g, status.PermitEnd{})
	})
}

func TestWhatASiteSaidToOthersHoldsForAll(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 100, per: 1m}]}\n", func(w rig) {
		g, _ := w.permit("http://site.test/")
		w.settle(g, status.PermitEnd{Status: 429, Headers: [][2]string{{"retry-after", "120"}}})
		began := time.Now()
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Reason != "wait" || time.Until(denied.RetryAt) < 119*time.Second {
			t.Errorf("%+v", denied)
		}
		if a := w.Get("http://site.test/"); a.Status != 200 || time.Since(began) < 119*time.Second || time.Since(began) > 125*time.Second {
			t.Errorf("%d after %v", a.Status, time.Since(began))
		}
		w.idle("site.test")
	})
}

func TestAPermitNamesItsTokenAndNeverTellsIt(t *testing.T) {
	const secret = "s3cr3t-one-two"
	run(t, echoing, unlearned+`
pools:
  crawl: {tokens: [{label: first, secret: `+secret+`}], limits: [{requests: 1, per: 1h, by: token}]}
sites:
  - {host: site.test, pool: crawl}
`, func(w rig) {
		g, denied := w.permit("https://site.test/")
		if denied != nil || g.Token != "first" {
			t.Errorf("%+v, %v", g, denied)
		}
		_, denied = w.permit("https://site.test/")
		if denied == nil {
			t.Error("a second one")
		}
		if text := fmt.Sprintf("%+v %+v %s", g, denied, w.lines()); strings.Contains(text, secret) {
			t.Errorf("the token: %s", text)
		}
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Status != 403 || denied.Reason != "insecure" {
			t.Errorf("in the open: %+v", denied)
		}
		w.settle(g, status.PermitEnd{Status: 200})
	})
}

func TestASiteThatIsLeftAloneGivesNoPermits(t *testing.T) {
	run(t, echoing, unlearned+"breaker: {failures: 2, pause: 1m}\nretry: {attempts: 0}\n", func(w rig) {
		for range 2 {
			g, denied := w.permit("http://site.test/")
			if denied != nil {
				t.Fatal(denied)
			}
			w.settle(g, status.PermitEnd{Status: 503})
		}
		if _, denied := w.permit("http://site.test/"); denied == nil || denied.Reason != "breaker" || denied.Status != 503 || denied.RetryAt.IsZero() {
			t.Errorf("%+v", denied)
		}
		elapse(61 * time.Second)
		probe, denied := w.permit("http://site.test/")
		if denied != nil {
			t.Fatal(denied)
		}
		elapse(2 * permitLife) // it is not settled
		g, denied := w.permit("http://site.test/")
		if denied != nil {
			t.Fatalf("after a probe that was never settled: %+v", denied)
		}
		w.settle(g, status.PermitEnd{Status: 200})
		if err := w.SettlePermit(probe.ID, status.PermitEnd{Status: 200}); !errors.As(err, new(status.Missing)) {
			t.Error(err)
		}
		w.idle("site.test")
	})
}

func TestWhoStopsWaitingForAPermitLeavesNothingBehind(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 1, per: 10m, as: fixed}]}\n", func(w rig) {
		startOfWindow(10 * time.Minute)
		w.permit("http://site.test/")
		ctx, leave := context.WithCancel(w.T.Context())
		asked := make(chan error)
		go func() {
			_, err := w.Permit(ctx, status.PermitAsk{URL: "http://site.test/", Wait: time.Hour, Priority: -1})
			asked <- err
		}()
		synctest.Wait()
		if len(w.Holds("site.test", 1000)) != 1 {
			t.Error("it does not wait")
		}
		leave()
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		elapse(10 * time.Minute)
		if _, denied := w.permit("http://site.test/"); denied != nil {
			t.Errorf("its place was not given up: %+v", denied)
		}
	})
}

func TestPermitsAndRequestsHaveOneQueue(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 1, per: 1s, as: paced}]}\n", func(w rig) {
		w.Get("http://site.test/")
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		said := func(who string) {
			mu.Lock()
			order = append(order, who)
			mu.Unlock()
		}
		for range 3 {
			all.Go(func() {
				w.Get("http://site.test/", "Abide-Client", "a")
				said("a")
			})
			synctest.Wait()
		}
		for range 2 {
			all.Go(func() {
				g, _ := w.permit("http://site.test/", withWait(time.Minute), func(a *status.PermitAsk) { a.Client = "b" })
				said("b")
				w.settle(g, status.PermitEnd{Status: 200})
			})
			synctest.Wait()
		}
		all.Go(func() {
			g, _ := w.permit("http://site.test/", withWait(time.Minute), func(a *status.PermitAsk) { a.Client, a.Priority = "c", 0 })
			said("c")
			w.settle(g, status.PermitEnd{Status: 200})
		})
		all.Wait()
		if got := fmt.Sprint(order); got != "[c a b a b a]" && got != "[c b a b a a]" {
			t.Errorf("%s", got)
		}
	})
}

func TestASettlementAfterItsRuleIsGone(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, limits: [{requests: 5, per: 1m}, {bytes: 1MB, per: 1m}, {concurrency: 2}]}\n"
	run(t, echoing, unlearned+yaml, func(w rig) {
		for _, next := range []string{unlearned, unlearned + yaml, unlearned + "sites:\n  - {host: \"*.test\", limits: [{requests: 1, per: 1m}]}\n"} {
			elapse(2 * time.Minute)
			w.Reload(unlearned + yaml)
			g, denied := w.permit("http://site.test/", withBytes(1000))
			h, also := w.permit("http://site.test/", withBytes(1000))
			if denied != nil || also != nil {
				t.Fatal(denied, also)
			}
			w.Reload(next)
			w.settle(g, status.PermitEnd{Status: 429, Bytes: 5000, Headers: [][2]string{{"Retry-After", "1"}}})
			w.settle(h, status.PermitEnd{Status: 200})
			elapse(2 * permitLife)
			w.idle("site.test")
		}
	})
}

func TestAPermitThatIsOnlyObservedIsThereAtOnce(t *testing.T) {
	run(t, echoing, unlearned+"mode: observe\nsites:\n  - {host: site.test, limits: [{requests: 1, per: 1h}]}\n", func(w rig) {
		for range 3 {
			g, denied := w.permit("http://site.test/")
			if denied != nil {
				t.Fatal(denied)
			}
			w.settle(g, status.PermitEnd{Status: 429, Headers: [][2]string{{"Retry-After", "60"}}})
		}
		w.idle("site.test")
	})
}

// TestWhatAPermitIsSettledWithNamesNoToken checks a crawler that sends its requests
// itself and passes on the site's response.
func TestWhatAPermitIsSettledWithNamesNoToken(t *testing.T) {
	const secret = "s3cr3t-one-two"
	run(t, echoing, `
pools:
  crawl: {tokens: [{label: first, secret: `+secret+`}]}
sites:
  - {host: site.test, pool: crawl}
`, func(w rig) {
		g, denied := w.permit("https://site.test/?api_key=of-the-client")
		if denied != nil {
			t.Fatal(denied)
		}
		w.settle(g, status.PermitEnd{Status: 404, Headers: [][2]string{
			{"RateLimit", `"` + secret + `";r=9;t=60, "for of-the-client";r=8;t=60`},
		}})
		var names []string
		w.Gate().VisitResources(func(_ time.Time, at queue.ResourceInfo) { names = append(names, at.Title) })
		all := strings.Join(names, "\n")
		if !strings.Contains(all, "{token}") || !strings.Contains(all, "for {") || strings.Contains(all, secret) || strings.Contains(all, "of-the-client") {
			t.Error(all)
		}
	})
}

// BenchmarkPermit asks for a permit that is granted at once, and settles it.
func BenchmarkPermit(b *testing.B) {
	w := dispatchtest.Start(b, echoing, "sites:\n  - {host: site.test, limits: [{requests: 1000000000, per: 1h}, {bytes: 1TB, per: 1h}, {concurrency: 1000}]}\n", dispatch.Keeping{})
	defer w.Close()
	for b.Loop() {
		g, err := w.Permit(b.Context(), status.PermitAsk{URL: "https://site.test/a/b?c=d", Priority: -1, Bytes: 10_000})
		must(b, err)
		must(b, w.SettlePermit(g.ID, status.PermitEnd{Status: 200, Bytes: 9_000}))
	}
}
