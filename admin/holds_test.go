package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// withHolds has a queue of these.
func withHolds(all ...status.Hold) func(*policy.Policy, *given) {
	return func(_ *policy.Policy, o *given) {
		o.Holds = func(site string, most int) []status.Hold {
			var list []status.Hold
			for _, one := range all {
				if (site == "" || one.Site == site) && len(list) < most {
					list = append(list, one)
				}
			}
			return list
		}
	}
}

// many are n holds of a site that one limit keeps.
func many(n int, site, limit string, until time.Time) []status.Hold {
	list := make([]status.Hold, n)
	for i := range list {
		list[i] = status.Hold{Site: site, Client: "news", Priority: 3, Limit: limit, Until: until, Place: i + 1}
	}
	return list
}

func TestHoldsSayWhatKeepsThem(t *testing.T) {
	until := time.Date(2026, time.March, 1, 12, 0, 0, 500_000_000, time.FixedZone("", 3600))
	b := newBed(t, withHolds(
		status.Hold{Site: "api.test", Client: "news", Priority: 2, Waited: 12.5, Limit: "900 requests per 15m", Why: "Retry-After", Until: until, Place: 1, Expected: until},
		status.Hold{Site: "other.test", Priority: 3, Limit: "2 in flight", Place: 7},
	))
	r := b.get("/api/v1/holds")
	want := `{"holds":[{"site":"api.test","client":"news","priority":2,"waited_seconds":12.5,"limit":"900 requests per 15m","why":"Retry-After","until":"2026-03-01T11:00:00.5Z","place":1,"expected":"2026-03-01T11:00:00.5Z"},` +
		`{"site":"other.test","priority":3,"waited_seconds":0,"limit":"2 in flight","place":7}],"more":false}` + "\n"
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || r.body != want {
		t.Errorf("%d %s\n%s", r.StatusCode, r.body, want)
	}
	if r := b.get("/api/v1/holds?site=other.test"); strings.Contains(r.body, "api.test") || !strings.Contains(r.body, "other.test") {
		t.Error(r.body)
	}
	if r := b.get("/api/v1/holds?site=nowhere.test"); r.body != `{"holds":[],"more":false}`+"\n" {
		t.Error(r.body)
	}
	if r := b.ask(http.MethodPost, "/api/v1/holds", ""); r.StatusCode != 405 {
		t.Errorf("POST: %d", r.StatusCode)
	}
	if r := newBed(t, nil).get("/api/v1/holds"); r.StatusCode != 200 || r.body != `{"holds":[],"more":false}`+"\n" {
		t.Errorf("nothing waits: %d %s", r.StatusCode, r.body)
	}
}

func TestHoldsAreListedUpToABound(t *testing.T) {
	b := newBed(t, withHolds(many(status.MaxHolds+1, "api.test", "2 in flight", time.Time{})...))
	for query, want := range map[string]int{"": usualHolds, "?limit=1": 1, "?limit=10000": status.MaxHolds, "?site=api.test&limit=7": 7} {
		var got status.HoldList
		r := b.get("/api/v1/holds" + query)
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Holds) != want || !got.More {
			t.Errorf("%s: %d holds of %d, %v", query, len(got.Holds), want, err)
		}
	}
	for _, query := range []string{"?limit=", "?limit=0", "?limit=-1", "?limit=10001", "?limit=1e3", "?limit=99999999999999999999", "?limit=%zz", "?site=a;limit=1", "?limit=%3Cscript%3E"} {
		if r := b.get("/api/v1/holds" + query); r.StatusCode != 400 || !json.Valid([]byte(r.body)) || strings.Contains(r.body, "script") {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
}

func TestThePageSaysHowManyWaitForWhat(t *testing.T) {
	soon, late := time.Now().Add(10*time.Minute), time.Now().Add(20*time.Minute)
	holds := many(1500, "api.test", "900 requests per 15m", late)
	holds[700].Until = soon
	holds = append(holds, many(3, "api.test", "2 in flight", time.Time{})...)
	holds = append(holds, status.Hold{Site: "other.test", Place: 1})
	b := newBed(t, withHolds(holds...))
	r := b.get("/")
	for _, want := range []string{
		"<b>1\u202f500</b></td><th scope=\"row\">900 requests per 15m</th><td class=\"text\"><a href=\"/?site=api.test\">api.test</a></td><td>in 9 min ",
		"<b>3</b></td><th scope=\"row\">at most 2 in flight</th><td class=\"text\"><a href=\"/?site=api.test\">api.test</a></td><td>another is done</td>",
		"<b>1</b></td><th scope=\"row\">its turn</th><td class=\"text\"><a href=\"/?site=other.test\">other.test</a></td><td>another is done</td>",
		"<b>1\u202f504</b> requests wait, the longest for ",
		`href="/api/v1/holds"`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, r.body)
		}
	}
	if r := newBed(t, withHolds()).get("/"); !strings.Contains(r.body, "No request waits.") {
		t.Errorf("nothing waits:\n%s", r.body)
	}
}

func TestThePageListsAHundredOfWhatIsWaitedFor(t *testing.T) {
	var holds []status.Hold
	for i := range 300 {
		holds = append(holds, many(1+i%2, fmt.Sprintf("%d.test", i), fmt.Sprint(i, " in flight"), time.Time{})...)
	}
	r := newBed(t, withHolds(holds...)).get("/")
	if n := strings.Count(r.body, `in flight</th>`); n != status.MaxListed || !strings.Contains(r.body, "<b>450</b> requests wait") || !strings.Contains(r.body, "200 more are not listed.") {
		t.Errorf("%d lines:\n%s", n, r.body)
	}
	r = newBed(t, withHolds(many(status.MaxHolds+1, "api.test", "2 in flight", time.Time{})...)).get("/")
	if !strings.Contains(r.body, "<b>&gt; 10\u202f000</b> requests wait") {
		t.Errorf("the page:\n%s", r.body)
	}
}

func TestWhatWaitsIsShownAndNeverRun(t *testing.T) {
	var holds []status.Hold
	for _, one := range hostile {
		holds = append(holds, status.Hold{Site: one, Client: one, Limit: one, Why: one, Place: 1})
	}
	b := newBed(t, withHolds(holds...))
	r := b.get("/")
	found := tags(t, r.body)
	nothingRuns(t, found)
	if found["tr"] != 5+3*len(hostile) { // with the sites, the sums and both tables of the queue
		t.Errorf("the table has %d rows", found["tr"])
	}
	if r := b.get("/api/v1/holds"); !json.Valid([]byte(r.body)) || strings.Contains(r.body, "<") {
		t.Errorf("holds: %s", r.body)
	}
}
