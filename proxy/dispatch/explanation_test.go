package dispatch_test

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/status"
)

// unopened is a clients' side that opens no https.
type unopened struct{}

func (unopened) Unread(*policy.Policy, policy.Target, *dispatch.Request) (policy.Unread, time.Time) {
	return policy.UnreadAuto, time.Time{}
}

// TestAnExplanationSaysWhereNoTokenMayGo: the proxy answers 403 there, and the explanation said that the request goes at once.
func TestAnExplanationSaysWhereNoTokenMayGo(t *testing.T) {
	run(t, echoing, `
pools: {p: {tokens: [{label: a, secret: abc}]}}
sites: [{host: site.test, pool: p}]
`, func(w rig) {
		w.View = dispatch.NewView(w.Dispatcher, unopened{})
		for u, want := range map[string]string{"http://site.test/": problem.Insecure.Detail, "https://site.test/": ""} {
			if e, err := w.Explain("", parseURL(u), "me"); err != nil || e.Refused != want {
				t.Errorf("%s: %q, want %q, %v", u, e.Refused, want, err)
			}
		}
	})
}

func TestALiveExplanation(t *testing.T) {
	run(t, echoing, `
sites:
  - host: site.test
    limits: [{requests: 2, per: 10m}, {path: /a, requests: 1, per: 1h, by: client}]
    name: news
`, func(w rig) {
		w.View = dispatch.NewView(w.Dispatcher, unopened{})
		ask := func(method, u, client string) status.Explanation {
			t.Helper()
			e, err := w.Explain(method, parseURL(u), client)
			must(t, err)
			return e
		}
		e := ask("", "http://site.test/a", "me")
		if sites, _ := w.Gate().Len(); sites != 0 {
			t.Error("a question made a site")
		}
		if e.Site != "site.test" || e.Rule != "news" || !e.Intercepted || e.Limit != "" || e.Place != 1 || len(e.Limits) != 2 || e.Limits[1].Left != 1 || e.Limits[1].Of != "me" {
			t.Errorf("%+v", e)
		}
		w.Get("http://site.test/a", "Abide-Client", "me")
		w.Get("http://site.test/b", "Abide-Client", "me")
		held := make(chan result, 1)
		go func() { held <- w.Get("http://site.test/b", "Abide-Client", "me") }()
		synctest.Wait()
		e = ask("GET", "http://site.test/b", "you")
		if e.Held != 1 || e.Place != 2 || e.Limit != "2 requests per 10m" || time.Until(e.Until) < 9*time.Minute || e.Expected.IsZero() || e.Limits[0].Held != 1 {
			t.Errorf("%+v", e)
		}
		if e = ask("GET", "http://site.test/a", "me"); e.Limits[1].Left != 0 || time.Until(e.Limits[1].Next) < 50*time.Minute {
			t.Errorf("%+v", e)
		}
		if e = ask("GET", "https://other.test/", ""); e.Intercepted || e.Rule != "" || e.Limits[0].Limit != "32 requests at once" && len(e.Limits) != 1 {
			t.Errorf("%+v", e)
		}
		for method, u := range map[string]string{"GET": "ftp://site.test/", "CONNECT": "http://site.test/", "TRACE": "http://site.test/", "HEAD": "http:///"} {
			if _, err := w.Explain(method, parseURL(u), ""); err == nil {
				t.Errorf("%s %s was explained", method, u)
			}
		}
		if _, err := w.Explain("GET", &url.URL{}, ""); err == nil {
			t.Error("nothing was explained")
		}
		// Without a client, the explanation is about the clients that wait.
		e = ask("GET", "http://site.test/a", "")
		if e.Client != "me" || !e.ClientGuessed || e.Place != 2 || e.Limits[1].Of != "me" || e.Limits[1].Left != 0 {
			t.Errorf("for nobody in particular: %+v", e)
		}
		if e = ask("GET", "http://site.test/b", "you"); e.Client != "you" || e.ClientGuessed {
			t.Errorf("for you: %+v", e)
		}
		if e = ask("GET", "http://quiet.test/", ""); e.Client != "127.0.0.1" || !e.ClientGuessed {
			t.Errorf("where nobody waits: %+v", e)
		}
		<-held
	})
}
