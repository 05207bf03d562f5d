package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestAReportIsAskedForByItsParts(t *testing.T) {
	asked := ""
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Report = func(_ context.Context, by, site string, since, until time.Time, step time.Duration) (status.Report, error) {
			asked = fmt.Sprint(by, " ", site, " ", until.Sub(since), " ", step)
			if site == "ill" {
				return status.Report{}, errors.New("the disk is ill")
			}
			return status.Report{
				Rows:     []status.ReportRow{{Start: since, Name: "b", Requests: 1}, {Start: since, Name: "a", Requests: 2}},
				Failures: status.Failures{Codes: map[string][]status.CodeCount{"x.test": {{Code: 402, Answers: 3}}}, Own: map[string]uint64{"wait": 1}},
			}, nil
		}
	})
	r := b.get("/api/v1/report?by=client&site=x.test&since=2026-03-01T12:34:56Z&until=2026-03-01T13:00:00Z")
	want := `{"since":"2026-03-01T12:34:00Z","until":"2026-03-01T13:00:00Z","by":"client","rows":[` +
		`{"start":"2026-03-01T12:34:00Z","name":"a","requests":2,"refusals":0,"waited_seconds":0,"bytes_received":0,"bytes_sent":0},` +
		`{"start":"2026-03-01T12:34:00Z","name":"b","requests":1,"refusals":0,"waited_seconds":0,"bytes_received":0,"bytes_sent":0}],"limits":[],"failed":{"x.test":[{"code":402,"answers":3}]},"own_answers":{"wait":1},"denied":[],"more":false}` + "\n"
	if r.StatusCode != 200 || r.body != want || asked != "client x.test 26m0s 0s" {
		t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/report?step=1m&since=1h"); r.StatusCode != 200 || asked[:6] != "site  " {
		t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
	}
	if r := b.get("/past?site=x.test&since=24h"); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || !strings.Contains(r.body, "<h2>x.test in the past</h2>") || !strings.Contains(r.body, "3 answers 402") || !strings.Contains(r.body, `href="/api/v1/report?since=24h&amp;site=x.test"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/past?step=2m"); r.StatusCode != 400 || !strings.Contains(r.body, "<h2>This was not done</h2>") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/report?site=ill"); r.StatusCode != 503 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, query := range []string{"?by=x", "?by=site&by=site", "?step=2m", "?since=x", "?since=1h&until=2h", "?form=csv"} {
		if r := b.get("/api/v1/report" + query); r.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
}
