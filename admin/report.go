package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// ReportQuery selects the rows of a report. Times are as RFC 3339 has them, or back from
// now; "" is the usual.
type ReportQuery struct {
	By    string // one of status.ReportKeys; "": site
	Site  string // "": each
	Since string // "": 24h
	Until string // "": now
	Step  string // 1m, 1h or 1d; "": the whole time is one
}

// reporter knows what became of requests.
type reporter interface {
	Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (status.Report, error)
}

// Check tells what is wrong with the query.
func (q ReportQuery) Check(now time.Time) error {
	if q.By != "" && !slices.Contains(status.ReportKeys, q.By) {
		return fmt.Errorf("by must be one of %s", strings.Join(status.ReportKeys, ", "))
	}
	_, _, _, err := readPeriod(q.Since, q.Until, q.Step, now)
	return err
}

// Encode is the query as that of a URL.
func (q ReportQuery) Encode() string {
	values := url.Values{}
	for name, value := range map[string]string{"by": q.By, "site": q.Site, "since": q.Since, "until": q.Until, "step": q.Step} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values.Encode()
}

// ChartStep is a step of which the time of the query has at most about 130.
func (q ReportQuery) ChartStep(now time.Time) string {
	since, until, _, err := readPeriod(q.Since, q.Until, "", now)
	switch whole := until.Sub(since); {
	case err != nil || whole <= 130*time.Minute:
		return "1m"
	case whole <= 130*time.Hour:
		return "1h"
	}
	return "1d"
}

// Answer asks for the report. The query must be one that Check accepts.
func (q ReportQuery) Answer(ctx context.Context, now time.Time, from reporter) (status.Report, error) {
	by := cmp.Or(q.By, "site")
	since, until, step, err := readPeriod(q.Since, q.Until, q.Step, now)
	if err != nil {
		return status.Report{}, err
	}
	all, err := from.Report(ctx, by, q.Site, since, until, step)
	if err != nil {
		return all, err
	}
	all.Since, all.Until, all.By, all.Step = since, until, by, q.Step
	all.Normalize()
	return all, nil
}

// report answers what became of requests.
func report(from reporter, w http.ResponseWriter, r *http.Request) {
	values, ok := queryOf(w, r, "by", "site", "since", "until", "step")
	if !ok {
		return
	}
	now := time.Now()
	q := ReportQuery{values.Get("by"), values.Get("site"), values.Get("since"), values.Get("until"), values.Get("step")}
	if err := q.Check(now); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	all, err := q.Answer(ctx, now, from)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, status.ErrorLine(err))
		return
	}
	answerJSON(w, all)
}
