package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// reportCall is what "abide report" was asked.
type reportCall struct {
	by, site, since, until, step string
	json, csv                    bool
	svg                          string
}

func reportCommand() *cobra.Command {
	var x reportCall
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say what became of requests: by site, client, token or priority",
		Long: `Report prints how many requests there were, how many answers refused one, how
long requests waited, and the bytes of their bodies, by site, client, token or
priority; and below that, which limits held requests, and for which part of the
time. Https that passed unread has bytes, but no requests.

It asks the running proxy. If none runs, it reads the state file that the last one has left. Minutes
are kept for 2 days, hours for 60 days, days for 5 years.`,
		Example: `  abide report
  abide report --by client --since 7d
  abide report --by token --site api.x.com --csv > tokens.csv
  abide report --since 24h --svg requests.svg`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return x.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&x.by, "by", "site", "site, client, token or priority")
	f.StringVar(&x.site, "site", "", "of this site alone")
	f.StringVar(&x.since, "since", "24h", "from so long ago, such as 90m or 7d, or from a time such as 2026-03-01T12:00:00Z")
	f.StringVar(&x.until, "until", "", "until so long ago, or until a time; now if it is left out")
	f.StringVar(&x.step, "step", "", "a row for each minute, hour or day: 1m, 1h or 1d")
	f.BoolVar(&x.json, "json", false, "print what the proxy's API answers")
	f.BoolVar(&x.csv, "csv", false, "print comma-separated values")
	f.StringVar(&x.svg, "svg", "", "write a chart of the requests over time to this file; - is standard output")
	return cmd
}

func (x *reportCall) run(cmd *cobra.Command) error {
	if x.json && x.csv || x.svg != "" && (x.json || x.csv) {
		return usage(errors.New("--json, --csv and --svg: choose one"))
	}
	query := admin.ReportQuery{By: x.by, Site: x.site, Since: x.since, Until: x.until, Step: x.step}
	now := time.Now()
	if x.svg != "" && x.step == "" {
		query.Step = query.ChartStep(now)
	}
	if err := query.Check(now); err != nil {
		return usage(err)
	}
	r, err := x.read(cmd, query, now)
	if err != nil {
		return err
	}
	if x.svg != "" && x.svg != "-" {
		return os.WriteFile(x.svg, reportChart(r), 0o644)
	}
	return x.print(cmd.OutOrStdout(), r)
}

func (x *reportCall) print(w io.Writer, r status.Report) error {
	var text bytes.Buffer
	switch {
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
	_, err := text.WriteTo(w)
	return err
}

// read asks a running abide, or else reads the state file. Abides with the same data directory
// have the same file, so the first that answers is enough.
func (x *reportCall) read(cmd *cobra.Command, query admin.ReportQuery, now time.Time) (r status.Report, err error) {
	list, api, err := findRunning(cmd)
	if err != nil {
		return r, err
	}
	api.warnGuessed(cmd, list)
	for _, one := range list {
		var body []byte
		ctx, cancel := context.WithTimeout(cmd.Context(), liveTimeout)
		body, err = api.get(ctx, one.Admin, "report?"+query.Encode(), "reports what became of requests")
		cancel()
		if err == nil {
			if json.Unmarshal(body, &r) != nil || r.Rows == nil {
				return r, notAbide(one.Admin, "reports what became of requests")
			}
			return r, nil
		}
	}
	var none notRunning
	if !errors.As(err, &none) {
		return r, err
	}
	kept, there, readErr := x.readFile(cmd, query, now)
	if there {
		return kept, readErr
	}
	return r, err
}

// readFile reads the state file of the data directory, if there is one.
func (x *reportCall) readFile(cmd *cobra.Command, query admin.ReportQuery, now time.Time) (r status.Report, there bool, err error) {
	p, _, err := adminSettings(cmd)
	if err != nil {
		return r, true, err
	}
	path := filepath.Join(p.Data, stateFile)
	if _, err := os.Stat(path); p.Data == "none" || err != nil {
		return r, false, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), openingPatience)
	defer cancel()
	file, err := store.OpenFile(ctx, path, store.FileOptions{Strict: true})
	if err != nil {
		return r, true, fmt.Errorf("no abide runs, and its state file cannot be read: %w", err)
	}
	defer file.Close()
	r, err = query.Answer(ctx, now, fileReports{history.New(history.Options{File: file})})
	return r, true, err
}

// fileReports reports what a state file has.
type fileReports struct{ history *history.Recorder }

// Report is what became of requests.
func (f fileReports) Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (status.Report, error) {
	return reportOf(ctx, f.history, by, site, since, until, step)
}
