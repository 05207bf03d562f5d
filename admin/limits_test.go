package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

const asJSON = "Content-Type: application/json"

// overriding is a process whose limits can be set at run time.
type overriding struct {
	mu  sync.Mutex
	all map[string][]policy.Limit
	err error // of what is to be kept
}

func (o *overriding) into(p *policy.Policy, to *given) {
	o.all = map[string][]policy.Limit{}
	p.Defaults.Limits = limitsOf(`{"limits":[{"concurrency":2}]}`)
	p.Sites = []policy.Site{{Name: "Two of them", Group: "rule", Limits: limitsOf(`{"limits":[{"requests":7,"per":"1m"}]}`)}}
	to.Overrides = func() map[string][]policy.Limit {
		o.mu.Lock()
		defer o.mu.Unlock()
		all := map[string][]policy.Limit{}
		for site, limits := range o.all {
			all[site] = slices.Clone(limits)
		}
		return all
	}
	to.SetLimits = func(_ context.Context, site string, body []byte) error {
		limits, err := policy.ParseLimits(body)
		switch {
		case site == "Nowhere":
			return status.Missing("a site is a host")
		case err != nil:
			return err
		case len(limits) > 0 && limits[0].By == "token":
			return errors.New("the rule has no pool\nof tokens")
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all[site] = limits
		return o.err
	}
	to.ClearLimits = func(_ context.Context, site string) (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		_, set := o.all[site]
		delete(o.all, site)
		return set, o.err
	}
}

func limitsOf(text string) []policy.Limit {
	limits, err := policy.ParseLimits([]byte(text))
	if err != nil {
		panic(err)
	}
	return limits
}

func TestLimitsAreSetAndClearedAtRunTime(t *testing.T) {
	o := &overriding{}
	b := newBed(t, o.into)
	for _, site := range []string{"api.test", "api.test:8443", "a/b ü%", "Two of them", "xn--bcher-kva.test"} {
		path := "/api/v1/sites/" + url.PathEscape(site) + "/limits"
		before := b.get(path)
		if before.StatusCode != 200 || !strings.Contains(before.body, `"set":false`) {
			t.Errorf("%s before: %d %s", site, before.StatusCode, before.body)
		}
		r := b.ask(http.MethodPut, path, `{"limits":[{"requests":10,"per":"1s"},{"bytes":"1MB","per":"1m","stall":"2m"}]}`, asJSON)
		var said struct {
			Site   string
			Set    bool
			Limits []json.RawMessage
		}
		err := json.Unmarshal([]byte(r.body), &said)
		if r.StatusCode != 200 || err != nil || said.Site != site || !said.Set || len(said.Limits) != 2 {
			t.Errorf("%s: %d %s", site, r.StatusCode, r.body)
		}
		if r2 := b.get(path); r2.body != r.body {
			t.Errorf("%s afterwards: %s", site, r2.body)
		}
		written := r.body[strings.Index(r.body, `"limits":`) : len(r.body)-2]
		if again := b.ask(http.MethodPut, path, "{"+written+"}", asJSON); again.body != r.body {
			t.Errorf("what it answers cannot be set again: %d %s\nafter %s", again.StatusCode, again.body, r.body)
		}
		if r := b.ask(http.MethodDelete, path, ""); r.StatusCode != 200 || r.body != before.body {
			t.Errorf("%s cleared: %d %s, before %s", site, r.StatusCode, r.body, before.body)
		}
		if r := b.ask(http.MethodDelete, path, ""); r.StatusCode != 404 || !strings.Contains(r.body, "no limits were set") {
			t.Errorf("%s cleared twice: %d %s", site, r.StatusCode, r.body)
		}
	}
	for path, want := range map[string]string{"api.test": `"concurrency":2`, "Two%20of%20them": `"requests":7`} {
		if r := b.get("/api/v1/sites/" + path + "/limits"); !strings.Contains(r.body, want) {
			t.Errorf("%s is not in %s", want, r.body)
		}
	}
	if r := b.ask(http.MethodPut, "/api/v1/sites/api.test/limits", `{"limits":[]}`, asJSON); r.StatusCode != 200 || r.body != `{"site":"api.test","set":true,"limits":[]}`+"\n" {
		t.Errorf("none at all: %d %s", r.StatusCode, r.body)
	}
}

func TestFaultsOfLimitsHaveTheirPlace(t *testing.T) {
	o := &overriding{}
	b := newBed(t, o.into)
	for _, one := range []struct {
		path, body, kind string
		status           int
		want             string
	}{
		{"a.test", `{"limits":[{"requests":10}]}`, asJSON, 400, `"key":"limits[0]","text":"needs per`},
		{"a.test", "{\"limits\":[\n{\"requests\":10,\"per\":\"1s\"},\n{\"bytes\":\"x\",\"per\":\"1s\"}]}", asJSON, 400, `"line":3,"key":"limits[1].bytes"`},
		{"a.test", `{"limits":`, asJSON, 400, `"faults":[{`},
		{"a.test", ``, asJSON, 400, `is empty`},
		{"a.test", `{}`, asJSON, 400, `limits`},
		{"a.test", `{"limits":[]}`, "Content-Type: text/plain", 415, "application/json"},
		{"a.test", `{"limits":[{"requests":1,"per":"1s","by":"token"}]}`, asJSON, 422, "the rule has no pool of tokens"},
		{"Nowhere", `{"limits":[]}`, asJSON, 404, "a site is a host"},
		{"%00", `{"limits":[]}`, asJSON, 404, "no site of that name"},
		{"a%0Ab", `{"limits":[]}`, asJSON, 404, "no site of that name"},
		{"%FF", `{"limits":[]}`, asJSON, 404, "no site of that name"},
		{strings.Repeat("x", maxSite+1), `{"limits":[]}`, asJSON, 404, "no site of that name"},
		{"a.test", `{"limits":[` + strings.Repeat(`{},`, 1000) + `{}]}`, asJSON, 400, "limits[0]"},
		{"a.test", strings.Repeat(" ", maxBody+1), asJSON, 413, "longer"},
	} {
		r := b.ask(http.MethodPut, "/api/v1/sites/"+one.path+"/limits", one.body, one.kind)
		if r.StatusCode != one.status || !strings.Contains(r.body, one.want) || !json.Valid([]byte(r.body)) || len(r.body) > 10_000 || r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.80s: %d %s, want %d with %s", one.body, r.StatusCode, r.body, one.status, one.want)
		}
	}
	if len(o.all) != 0 {
		t.Errorf("something was set: %v", o.all)
	}
	if r := b.ask(http.MethodPost, "/api/v1/sites/a.test/limits", "{}", asJSON); r.StatusCode != 405 {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

func TestLimitsThatAreNotKeptAreAskedForAgain(t *testing.T) {
	o := &overriding{err: status.NotKept{Err: errors.New("disk full")}}
	b := newBed(t, o.into)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		body := ""
		if method == http.MethodPut {
			body = `{"limits":[]}`
		}
		r := b.ask(method, "/api/v1/sites/a.test/limits", body, asJSON)
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" || !strings.Contains(r.body, "not kept yet: disk full") {
			t.Errorf("%s: %d %s", method, r.StatusCode, r.body)
		}
	}
}

func TestLimitsOfASiteThatNobodyWroteAreTheDefaults(t *testing.T) {
	b := newBed(t, nil)
	if r := b.get("/api/v1/sites/a.test/limits"); r.StatusCode != 200 || r.body != `{"site":"a.test","set":false,"limits":[{"concurrency":32}]}`+"\n" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestAnotherOriginsPageSetsNoLimits(t *testing.T) {
	o := &overriding{}
	b := newBed(t, o.into)
	r := b.ask(http.MethodPut, "/api/v1/sites/a.test/limits", `{"limits":[]}`, asJSON, "Sec-Fetch-Site: cross-site", "Origin: http://evil.example")
	if r.StatusCode != 403 || len(o.all) != 0 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestThePageWritesLimitsAsTheConfigurationDoes(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, _ *given) {
		p.Defaults.Limits = limitsOf(`{"limits":[{"requests":100,"per":"month"}]}`)
	})
	b.metrics.Site("api.test").Request("GET", 200, 1)
	if r := b.get("/?site=api.test"); !strings.Contains(r.body, ">limits:\n  - {requests: 100, per: month, as: quota, timezone: UTC}\n</textarea>") {
		t.Error(r.body)
	}
}
