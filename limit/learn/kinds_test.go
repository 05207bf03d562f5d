package learn

import (
	"net/http"
	"testing"
	"time"
)

// The kind of a refusal follows from what its answer says.
func TestKindsOfRefusals(t *testing.T) {
	type kind struct{ throttled, overload, block, concurrency, named bool }
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   kind
	}{
		"the SEC's page":           {403, nil, "<html><title>SEC.gov | Request Rate Threshold Exceeded</title>", kind{throttled: true, block: true}},
		"Akamai's page":            {403, nil, `<HTML><TITLE>Access Denied</TITLE> Reference&#32;&#35;18 https&#58;&#47;&#47;errors.edgesuite.net/18`, kind{throttled: true, block: true}},
		"Imperva's page":           {403, nil, `<iframe src="/_Incapsula_Resource?x">Request unsuccessful. Incapsula incident ID: 1`, kind{throttled: true, block: true}},
		"a page about a rate":      {403, nil, "<h1>Too many requests</h1>", kind{throttled: true, block: true}},
		"a block with its end":     {403, http.Header{"Retry-After": {"30"}}, "<h1>Too many requests</h1>", kind{throttled: true, named: true}},
		"JSON about a rate":        {403, nil, `{"error":"Rate limit exceeded"}`, kind{throttled: true}},
		"a permission":             {403, nil, `{"message":"Forbidden"}`, kind{}},
		"a page about permissions": {403, nil, "<html><h1>403 Forbidden</h1><hr>nginx", kind{}},
		"S3":                       {503, nil, "<Error><Code>SlowDown</Code></Error>", kind{throttled: true, overload: true}},
		"529":                      {529, nil, `{"type":"error","error":{"type":"overloaded_error"}}`, kind{throttled: true, overload: true}},
		"requests in flight":       {429, nil, `{"error":"Too many concurrent requests"}`, kind{throttled: true, concurrency: true}},
		"Stripe":                   {429, http.Header{"Stripe-Rate-Limited-Reason": {"endpoint-concurrency"}}, "{}", kind{throttled: true, concurrency: true}},
		"a reset is not named":     {429, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"60"}}, "", kind{throttled: true}},
		"a plain 503":              {503, nil, "<h1>503 Service Temporarily Unavailable</h1>", kind{}},
	} {
		l := Read(c.status, c.header, []byte(c.body), Request{Method: "GET", Host: "site.test", Path: "/a"}, time.Unix(1_700_000_000, 0))
		if got := (kind{l.Throttled, l.Overload, l.Block, l.Concurrency, l.Named}); got != c.want {
			t.Errorf("%s: %+v, and not %+v", name, got, c.want)
		}
	}
}

// A refusal of a dialect that names no text is every answer with its status.
func TestARefusalWithoutATextIsEveryAnswerWithItsStatus(t *testing.T) {
	d := Dialect{Refusals: []Refusal{{Status: []int{503}, Overload: true}}}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]bool{503: true, 500: false, 429: false} {
		for _, body := range []string{"", "<h1>whatever</h1>"} {
			l := Read(status, nil, []byte(body), Request{Method: "GET", Host: "site.test", Path: "/a", Dialect: &d}, time.Unix(1_700_000_000, 0))
			if l.Overload != want || status == 503 && !l.Throttled {
				t.Errorf("%d %q: %+v", status, body, l)
			}
		}
	}
}
