package admin

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestASiteIsPausedAndResumed(t *testing.T) {
	paused := map[string]status.Pause{}
	b := newBed(t, func(_ *policy.Policy, g *given) {
		g.Pauses = func() map[string]status.Pause { return paused }
		g.PauseSite = func(site string, p status.Pause) error {
			if site == "Nowhere" {
				return status.Missing("a site is a host")
			}
			paused[site] = p
			return nil
		}
		g.ResumeSite = func(site string) (bool, error) {
			_, was := paused[site]
			delete(paused, site)
			return was, nil
		}
	})
	const path = "/api/v1/sites/api.test/"
	r := b.ask(http.MethodPost, path+"pause", `{"for":"2h","reason":"they migrate"}`, asJSON)
	if pause := paused["api.test"]; r.StatusCode != 200 || !strings.Contains(r.body, `"paused":true`) || pause.Reason != "they migrate" || pause.Until.Sub(pause.Since) != 2*time.Hour {
		t.Errorf("%d %s, %+v", r.StatusCode, r.body, pause)
	}
	if r := b.get("/api/v1/sites/api.test"); r.StatusCode != 200 || !strings.Contains(r.body, `"paused":{"reason":"they migrate"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	paused["<script>"] = status.Pause{Since: time.Now(), Reason: "<b>"}
	if page := b.get("/"); !strings.Contains(page.body, "they migrate") || !strings.Contains(page.body, `aria-label="Resume api.test"`) || strings.Contains(page.body, "<script>") || !strings.Contains(page.body, `: &lt;b&gt;</td>`) {
		t.Error(page.body)
	}
	if r := b.ask(http.MethodPost, path+"resume", ""); r.StatusCode != 200 || !strings.Contains(r.body, `{"site":"api.test","paused":false}`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, row := range []struct {
		path, body string
		want       int
		says       string
	}{
		{path + "resume", "", 404, "is not paused"},
		{path + "pause", `{"for":"nonsense"}`, 400, "30m or 2h"},
		{path + "pause", `{"for":"0s"}`, 400, "30m or 2h"},
		{path + "pause", `{"untill":"x"}`, 400, "untill"},
		{"/api/v1/sites/Nowhere/pause", "", 404, "a site is a host"},
	} {
		if r := b.ask(http.MethodPost, row.path, row.body, asJSON); r.StatusCode != row.want || !strings.Contains(r.body, row.says) {
			t.Errorf("%s %s: %d %s", row.path, row.body, r.StatusCode, r.body)
		}
	}
	for do, want := range map[string]int{"pause": 200, "nothing": 400} {
		form := url.Values{"site": {"page.test"}, "do": {do}}.Encode()
		if r := b.ask(http.MethodPost, "/sites", form, "Content-Type: application/x-www-form-urlencoded"); r.StatusCode != want {
			t.Errorf("%s: %d %s", do, r.StatusCode, r.body)
		}
	}
	if _, ok := paused["page.test"]; !ok {
		t.Error("the button pauses nothing")
	}
	for from, want := range map[string]string{"?site=page.test": "/?site=page.test", "": "/#sites"} {
		r := b.ask(http.MethodPost, "/sites", "site=page.test&do=pause", "Content-Type: application/x-www-form-urlencoded", "Referer: http://abide.test/"+from)
		if at := r.Request.URL; at.RequestURI() != strings.TrimSuffix(want, "#sites") || !strings.HasSuffix(want, at.Fragment) {
			t.Errorf("from %q to %s, want %s", from, at, want)
		}
	}
}

func TestASiteThatFailsIsTriedAtOnce(t *testing.T) {
	tried := map[string]int{}
	soon := time.Now().Add(time.Minute)
	b := newBed(t, func(_ *policy.Policy, g *given) {
		g.Breakers = func() []status.Breaker {
			return []status.Breaker{{Site: "a.test", State: "open", Why: "refused", Until: soon}, {Site: "b.test", State: "open", Why: "refused", Until: soon}, {Site: "c.test", State: status.Failing, Why: "it answers 500"}}
		}
		g.TrySite = func(site string) error {
			if site == "c.test" {
				return status.Missing("c.test does not fail")
			}
			tried[site]++
			return nil
		}
	})
	page := b.get("/").body
	for _, want := range []string{`<input type="hidden" name="site" value="a.test"><input type="hidden" name="site" value="b.test"><button name="do" value="try"`, `aria-label="Try 2 sites again now">Try all now</button>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(page, `value="try"`); n != 1 {
		t.Errorf("%d buttons: a site that is asked all the time needs none", n)
	}
	for form, want := range map[string]int{"do=try&site=a.test&site=c.test": 200, "do=try&site=c.test": 404, "do=try": 404} {
		if r := b.ask(http.MethodPost, "/sites", form, "Content-Type: application/x-www-form-urlencoded"); r.StatusCode != want {
			t.Errorf("%s: %d %s", form, r.StatusCode, r.body)
		}
	}
	for site, want := range map[string]int{"b.test": 200, "c.test": 404} {
		if r := b.ask(http.MethodPost, "/api/v1/sites/"+site+"/try", ""); r.StatusCode != want || !strings.Contains(r.body, site) {
			t.Errorf("%s: %d %s", site, r.StatusCode, r.body)
		}
	}
	if tried["a.test"] != 1 || tried["b.test"] != 1 {
		t.Error(tried)
	}
}
