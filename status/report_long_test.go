package status

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestALongReportBeginsWithTheLimits: fifty sites with a request each hide them otherwise.
func TestALongReportBeginsWithTheLimits(t *testing.T) {
	for rows, first := range map[int]bool{2: false, 60: true} {
		r := Report{By: "site", Limits: []ReportBlocked{{Site: "api.test", Limit: "5 requests per 1s", Held: 3}}}
		for i := range rows {
			r.Rows = append(r.Rows, ReportRow{Name: fmt.Sprint("site", i), Requests: 1, In: 7})
		}
		var b bytes.Buffer
		r.Describe(&b)
		if text := b.String(); (strings.Index(text, "LIMIT") < strings.Index(text, "REQUESTS")) != first || strings.Contains(text, "SENT") {
			t.Errorf("%d rows:\n%s", rows, text)
		}
		r.Rows[0].Out = 9
		b.Reset()
		r.Describe(&b)
		if !strings.Contains(b.String(), "SENT") || !strings.Contains(b.String(), "9 B") {
			t.Error(b.String())
		}
	}
}

func TestAReportLeavesOutRowsOfNothing(t *testing.T) {
	r := Report{
		By:     "token",
		Rows:   []ReportRow{{Name: "ann", Pool: "x", Requests: 1}, {Name: "ben", Pool: "x", Waited: 0.0001}, {Name: "carl", Waited: 0.001}, {Name: "dora", In: 1}},
		Limits: []ReportBlocked{{Site: "api.test", Limit: "5 requests per 1s", Held: 0.0004, Busy: 0.0003}, {Site: "b.test", Limit: "token", Held: 0.001}},
	}
	var b bytes.Buffer
	r.Describe(&b)
	for part, want := range map[string]bool{"ann of x": true, "ben": false, "carl": true, "dora": true, "api.test": false, "b.test": true} {
		if strings.Contains(b.String(), part) != want {
			t.Errorf("%s:\n%s", part, b.String())
		}
	}
	b.Reset()
	if (Report{Rows: r.Rows[1:2], Limits: r.Limits[:1]}).Describe(&b); strings.Contains(b.String(), "LIMIT") || !strings.Contains(b.String(), "no request") {
		t.Error(b.String())
	}
}

func TestRefusalsWithoutAKnownLimitAreNoLimitInAReport(t *testing.T) {
	r := Report{Limits: []ReportBlocked{{Site: "api.test", Limit: HiddenTitle + " for GET /a", Held: 21}}}
	if r.Normalize(); r.Limits[0].Limit != "refusals for GET /a, by an unknown limit or at random" {
		t.Error(r.Limits[0].Limit)
	}
}
