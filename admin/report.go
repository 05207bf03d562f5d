package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin/page"
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
	values := url.Values{"by": {q.By}, "site": {q.Site}, "since": {q.Since}, "until": {q.Until}, "step": {q.Step}}
	maps.DeleteFunc(values, func(_ string, v []string) bool { return v[0] == "" })
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
func (q ReportQuery) Answer(ctx context.Context, now time.Time, from Process) (status.Report, error) {
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

// pastPath is the page that shows a report as text.
const pastPath = "/past"

// report answers what became of requests, in JSON or as a page.
func report(from Process, w http.ResponseWriter, r *http.Request) (any, error) {
	values, err := queryOf(r, "by", "site", "since", "until", "step")
	now := time.Now()
	q := ReportQuery{values.Get("by"), values.Get("site"), values.Get("since"), values.Get("until"), values.Get("step")}
	if err = cmp.Or(err, q.Check(now)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	all, err := q.Answer(ctx, now, from)
	if err == nil && r.URL.Path == pastPath {
		show(w, http.StatusOK, page.Report(q.Site, "/api/v1/report?"+q.Encode(), all))
		return nil, nil
	}
	return all, failed(http.StatusServiceUnavailable, err)
}

// Bounds of what is told of the past: how many steps may be asked for, and how long looking
// them up may take.
const (
	mostSteps = 10_000
	patience  = 10 * time.Second
)

// Steps are those that can be asked for.
var Steps = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour, "1d": 24 * time.Hour}

// bandwidth tells what went from and to ?site=, or each, since ?since= until ?until=,
// by ?step=.
func bandwidth(from Process, _ http.ResponseWriter, r *http.Request) (any, error) {
	query, err := queryOf(r, "site", "since", "until", "step")
	list := status.TrafficList{Step: cmp.Or(query.Get("step"), "1h")}
	since, until, step, wrong := readPeriod(query.Get("since"), query.Get("until"), list.Step, time.Now())
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	list.Since, list.Until = since, until
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	list.Traffic, err = from.Bandwidth(ctx, query.Get("site"), list.Since, list.Until, step)
	list.Normalize()
	return list, failed(http.StatusServiceUnavailable, err)
}

// readPeriod is the time that is asked about, in whole steps from its beginning. A step of ""
// is the whole time, from a full minute on.
func readPeriod(since, until, step string, now time.Time) (from, to time.Time, by time.Duration, err error) {
	by, ok := Steps[step]
	if !ok && step != "" {
		return from, to, 0, errors.New("step must be 1m, 1h or 1d")
	}
	if to, err = moment(cmp.Or(until, "0s"), now); err != nil {
		return from, to, 0, fmt.Errorf("until %w", err)
	}
	if from, err = moment(cmp.Or(since, "24h"), now); err != nil {
		return from, to, 0, fmt.Errorf("since %w", err)
	}
	from = from.Truncate(cmp.Or(by, time.Minute))
	switch n := to.Sub(from) / cmp.Or(by, to.Sub(from), 1); {
	case !from.Before(to):
		return from, to, 0, errors.New("since must be before until")
	case n > mostSteps:
		return from, to, 0, fmt.Errorf("these are more than %d steps; take a longer one", mostSteps)
	}
	return from, to, by, nil
}

var errMoment = errors.New("must be a time back from now such as 24h or 7d, or one such as 2026-03-01T12:00:00Z")

// moment is a time as RFC 3339 has it, or as long as that ago.
func moment(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Year() < 1970 || at.Year() > 9000 {
			return at, errMoment
		}
		return at.UTC(), nil
	}
	back, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		back, err = time.ParseDuration(days + "h")
		if back > 10*365*24*time.Hour/24 {
			return now, errMoment
		}
		back *= 24
	}
	if err != nil || back < 0 || back > 10*365*24*time.Hour {
		return now, errMoment
	}
	return now.Add(-back).UTC(), nil
}
