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

func TestRefusalsWithoutAKnownLimitAreNoLimitInAReport(t *testing.T) {
	r := Report{Limits: []ReportBlocked{{Site: "api.test", Limit: HiddenTitle + " for GET /a", Held: 21}}}
	if r.Normalize(); r.Limits[0].Limit != "refusals for GET /a, by an unknown limit or at random" {
		t.Error(r.Limits[0].Limit)
	}
}
