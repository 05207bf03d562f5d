package admin

import (
	"strings"
	"testing"
)

func TestAFormThatIsRefusedIsAnsweredWithAPage(t *testing.T) {
	set := &overriding{}
	b := newBed(t, set.into)
	const kind = "Content-Type: application/x-www-form-urlencoded"
	for body, want := range map[string]string{
		"do=set&site=api.test&limits=limits%3A+%5B%7Brequests%3A+%3Cb%3E%7D%5D": "limits[0]",
		"do=set&site=": "there can be no site of that name", "do=other&site=api.test": "do must be set or clear", "do=set&site=Nowhere&limits=limits%3A+%5B%5D": "a site is a host",
	} {
		r := b.ask("POST", "/limits", body, kind)
		if r.StatusCode < 400 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(r.body, want) || strings.Contains(r.body, "<b>") {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	for _, origin := range []string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site"} {
		if r := b.ask("POST", "/limits", "do=clear&site=api.test", kind, origin); r.StatusCode != 403 {
			t.Errorf("%s: %d", origin, r.StatusCode)
		}
	}
	if len(set.all) != 0 {
		t.Errorf("limits were set: %v", set.all)
	}
}

func TestAChosenSiteThatNobodyKnowsHasNoForms(t *testing.T) {
	b := newBed(t, nil)
	b.metrics.Site("api.test").Request("GET", 200, 1)
	for query, want := range map[string]bool{"?site=api.test": true, "?site=api": false, "?site=%ff%00": false, "?site=" + strings.Repeat("x", 9999): false, "?other=1": false} {
		if r := b.get("/" + query); r.StatusCode != 200 || strings.Contains(r.body, `action="/limits"`) != want {
			t.Errorf("%.40s: %d", query, r.StatusCode)
		}
	}
}
