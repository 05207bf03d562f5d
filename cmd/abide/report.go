package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/admin/chart"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

func reportCommand() *cobra.Command {
	var x struct {
		query     admin.ReportQuery
		json, csv bool
		svg       string
	}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say what became of requests: by site, client, token or priority",
		Long: `Report prints how many requests there were, how many answers refused one, how
long requests waited, and the bytes of their bodies, by site, client, token or
priority, those that waited longest first (50 of them; --csv and --json have all);
and below that, or above more than 20 rows, which limits held requests, and for
which part of the time; and the answers from status 400 on, with those of abide
itself to requests for a site, and requests that clients gave up; and the tokens
that are denied now. What abide refuses before it knows a site (400, 407) is in
/metrics alone. Https that passed unread has bytes, but no requests.

It asks the running proxy. If none runs, it reads the state file that the last one has left. Minutes
are kept for 2 days, hours for 60 days, days for 5 years.`,
		Example: `  abide report
  abide report --by client --since 7d
  abide report --by token --site api.x.com --csv > tokens.csv
  abide report --since 24h --svg requests.svg`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if x.json && x.csv || x.svg != "" && (x.json || x.csv) {
				return usage(errors.New("--json, --csv and --svg: choose one"))
			}
			query := x.query
			now := time.Now()
			if x.svg != "" && query.Step == "" {
				query.Step = query.ChartStep(now)
			}
			if err := query.Check(now); err != nil {
				return usage(err)
			}
			var r status.Report
			// Abides with the same data directory have the same file, so one answer is enough.
			answered, err := askRunning(cmd, nil, true, func(ctx context.Context, at abideAt) (err error) {
				if r.Rows == nil {
					_, err = at.ask(ctx, http.MethodGet, "report?"+query.Encode(), nil, &r)
				}
				return err
			})
			if !answered {
				err = orSaved(cmd, err, false, func(a adminProcess) (err error) {
					r, err = query.Answer(cmd.Context(), now, a)
					return err
				})
				if err != nil {
					return err
				}
			}
			var text bytes.Buffer
			switch {
			case x.svg != "" && x.svg != "-":
				return os.WriteFile(x.svg, reportChart(r), 0o644)
			case x.json:
				e := json.NewEncoder(&text)
				e.SetEscapeHTML(false)
				_ = e.Encode(r) // its parts have no error
			case x.csv:
				_ = r.CSV(&text) // nor has a buffer
			case x.svg != "":
				text.Write(reportChart(r))
			default:
				r.Describe(&text)
			}
			_, err = text.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.query.By, "by", "site", "site, client, token or priority")
	f.StringVar(&x.query.Site, "site", "", "of this site alone")
	f.StringVar(&x.query.Since, "since", "24h", "from so long ago, such as 90m or 7d, or from a time such as 2026-03-01T12:00:00Z")
	f.StringVar(&x.query.Until, "until", "", "until so long ago, or until a time; now if it is left out")
	f.StringVar(&x.query.Step, "step", "", "a row for each minute, hour or day: 1m, 1h or 1d")
	f.BoolVar(&x.json, "json", false, "print what the proxy's API answers")
	f.BoolVar(&x.csv, "csv", false, "print comma-separated values")
	f.StringVar(&x.svg, "svg", "", "write a chart of the requests over time to this file; - is standard output")
	return cmd
}

// reportChart draws the requests of a report over time. The report must have a step.
func reportChart(r status.Report) []byte {
	step := admin.Steps[r.Step]
	count := int((r.Until.Sub(r.Since) + step - 1) / step)
	c := chart.Bars{
		Title: fmt.Sprintf("Requests per %s by %s, UTC", map[string]string{"1m": "minute", "1h": "hour", "1d": "day"}[r.Step], r.By),
		Start: r.Since, Step: step, Count: count,
		Format: func(n float64) string { return fmt.Sprintf("%.4g", n) },
	}
	for _, row := range r.Rows {
		c.Add(row.Title(), row.Start, float64(row.Requests))
	}
	return c.SVG()
}

// Bandwidth is the recorded traffic of a site, or of all sites.
func (c adminProcess) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
	kept, err := c.history.Rows(ctx, store.TrafficRows, site, since, until, step)
	return lists.Map(kept, func(t store.Row) status.Traffic {
		return status.Traffic{Site: t.Site, Start: t.Minute, In: t.In, Out: t.Out, Requests: t.Requests}
	}), err
}

// Report counts what became of requests, by site, client, token or priority, and lists the
// limits that held them and the tokens that are denied now.
func (c adminProcess) Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (r status.Report, err error) {
	usage, err := c.history.UsageBy(ctx, by, c.poolOf, site, since, until, step)
	if err != nil {
		return r, err
	}
	blocked, err := c.history.Rows(ctx, store.BlockedRows, site, since, until, step)
	if err != nil {
		return r, err
	}
	failed, err := c.history.Rows(ctx, store.FailedRows, site, since, until, 0)
	for _, u := range usage {
		row := status.ReportRow{Start: u.Minute, Name: u.Site, Requests: u.Requests, Refusals: u.Refusals, Waited: u.Waited.Seconds(), In: u.In, Out: u.Out}
		if by == "token" {
			row.Name, row.Pool = u.Token, u.Site
		}
		r.Rows = append(r.Rows, row)
	}
	named := status.Labels(c.proxy.Learned)
	for _, b := range blocked {
		r.Limits = append(r.Limits, status.ReportBlocked{Start: b.Minute, Site: b.Site, Limit: named(b.Site, status.Past(b.Limit)), Held: b.Held.Seconds(), Busy: b.Busy.Seconds()})
	}
	for _, one := range failed[:min(len(failed), status.MaxReport)] {
		r.Add(one.Site, one.What, one.Requests)
	}
	for site, codes := range r.Codes {
		r.Codes[site] = status.TimeOuts(codes)
	}
	for _, pool := range c.proxy.Pools() {
		if site == "" || pool.Name == c.poolOf(site) {
			r.Denied = append(r.Denied, pool.Denied()...)
		}
	}
	r.More = len(failed) > status.MaxReport
	return r, err
}
