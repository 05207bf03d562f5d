package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// explaining has this answer, or error, for whatever is asked.
func explaining(e status.Explanation, err error, asked *[3]string) func(*policy.Policy, *given) {
	return func(_ *policy.Policy, o *given) {
		o.Explain = func(method, url, client string) (status.Explanation, error) {
			if asked != nil {
				*asked = [3]string{method, url, client}
			}
			return e, err
		}
	}
}

func TestAnExplanationSaysWhatARequestWouldMeet(t *testing.T) {
	past := time.Date(2026, time.March, 1, 12, 0, 0, 500_000_000, time.FixedZone("", 3600))
	at := time.Date(time.Now().Year()+1, time.March, 1, 12, 0, 0, 500_000_000, time.FixedZone("", 3600))
	var asked [3]string
	b := newBed(t, explaining(status.Explanation{
		Target: "https://api.test:443", Site: "api.test", Rule: "sites[0]", Intercepted: true,
		Held: 3, InFlight: 2, Place: 4, Expected: at, Limit: "75 requests per 15m", Until: at,
		Limits: []status.ExplainedLimit{
			{Limit: "75 requests per 15m", Next: at, Held: 3, InFlight: 2},
			{Limit: "10 in flight", Of: "news", Left: 8, Next: past, Cooling: past, Why: "Retry-After"},
		},
		Breaker: "closed", Backends: []status.ExplainedBackend{{Backend: "b.test", Breaker: "half-open", Tries: past, InFlight: 1}},
	}, nil, &asked))
	r := b.get("/api/v1/explain?url=" + url.QueryEscape("https://api.test/a?b=c&d") + "&method=POST&client=news")
	if asked != [3]string{"POST", "https://api.test/a?b=c&d", "news"} {
		t.Errorf("it was asked for %q", asked)
	}
	want := `{"target":"https://api.test:443","site":"api.test","rule":"sites[0]","intercepted":true,"observed":false,` +
		`"held":3,"in_flight":2,"place":4,"expected":"AT",` +
		`"limit":"75 requests per 15m","until":"AT","others_first":false,"asks_store":false,"never":false,` +
		`"limits":[{"limit":"75 requests per 15m","left":0,"next":"AT","keeps":true,"held":3,"in_flight":2},` +
		`{"limit":"10 in flight","of":"news","left":8,"keeps":false,"cooling_until":"2026-03-01T11:00:00.5Z","why":"Retry-After","held":0,"in_flight":0}],` +
		`"breaker":"closed","backends":[{"backend":"b.test","breaker":"half-open","breaker_tries":"2026-03-01T11:00:00.5Z","in_flight":1}],"blocked_by":`
	want = strings.ReplaceAll(want, "AT", at.UTC().Format(time.RFC3339Nano))
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.body, want) {
		t.Errorf("%d %s\n%s", r.StatusCode, r.body, want)
	}
	b.ask(http.MethodHead, "/api/v1/explain?url=x", "")
	if asked != [3]string{"GET", "x", ""} {
		t.Errorf("it was asked for %q", asked)
	}
}

func TestAnExplanationOfNothingHasNoNulls(t *testing.T) {
	b := newBed(t, explaining(status.Explanation{}, nil, nil))
	r := b.get("/api/v1/explain?url=x")
	want := `{"target":"","site":"","intercepted":false,"observed":false,"held":0,"in_flight":0,"place":0,"others_first":false,"asks_store":false,"never":false,` +
		`"limits":[],"blocked_by":"","would_change":["nothing keeps it: it goes at once"]}` + "\n"
	if r.body != want {
		t.Errorf("%s\n%s", r.body, want)
	}
}

func TestATimeThatNobodyKnowsIsLeftOut(t *testing.T) {
	far := time.Now().AddDate(10, 0, 0)
	b := newBed(t, explaining(status.Explanation{
		Limit: "2 in flight", Until: far, Expected: far, Limits: []status.ExplainedLimit{{Limit: "2 in flight", Next: far}},
	}, nil, nil))
	r := b.get("/api/v1/explain?url=x")
	if strings.Contains(r.body, "203") || !strings.Contains(r.body, `all of \"2 in flight\" is in use until another is done`) {
		t.Error(r.body)
	}
}

func TestWhatCannotBeExplainedIsRefused(t *testing.T) {
	b := newBed(t, explaining(status.Explanation{}, nil, nil))
	for _, query := range []string{
		"", "?", "?url=", "?uri=https://a.test/", "?url=%zz", "?url=a;method=GET", "?url=a&url=b",
		"?url=" + strings.Repeat("a", maxURL+1),
		"?url=a&method=G%20ET", "?url=a&method=%00", "?url=a&method=" + strings.Repeat("A", maxMethod+1), "?url=a&method=GET&method=PUT",
		"?url=a&client=" + strings.Repeat("a", maxClient+1), "?url=a&client=a&client=b",
	} {
		r := b.get("/api/v1/explain" + query)
		if r.StatusCode != 400 || !json.Valid([]byte(r.body)) || len(r.body) > 1000 {
			t.Errorf("%.60s: %d %.200s", query, r.StatusCode, r.body)
		}
	}
	bad := newBed(t, explaining(status.Explanation{}, errors.New("neither http nor\r\nhttps\x00\xff "+strings.Repeat("é", 1000)), nil))
	var got status.Problem
	r := bad.get("/api/v1/explain?url=ftp://a.test/")
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.StatusCode != 400 || len(got.Detail) > status.MaxDetail+10 ||
		!strings.HasPrefix(got.Detail, "neither http nor  https ") {
		t.Errorf("%d %s %v", r.StatusCode, r.body, err)
	}
	if r := b.ask(http.MethodPost, "/api/v1/explain?url=x", ""); r.StatusCode != 405 {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

func TestWhatIsObservedIsExplainedAsSuch(t *testing.T) {
	b := newBed(t, explaining(status.Explanation{Limit: "2 in flight", Observed: true}, nil, nil))
	r := b.get("/api/v1/explain?url=x")
	if !strings.Contains(r.body, `"observed":true`) || !strings.Contains(r.body, "mode is observe") {
		t.Error(r.body)
	}
}
