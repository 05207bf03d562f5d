package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/backfill"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

func backfillCommand() *cobra.Command {
	var flags struct {
		dry, try, again, json, quiet, schema bool
		every                                time.Duration
	}
	cmd := &cobra.Command{
		Use:   "backfill [flags] JOB.yaml",
		Short: "Fetch all units of a job: each day of a year, each item of a list",
		Long: `Backfill sends the requests of a job file, follows the pages of each answer, and
writes the records to a SQLite file or PostgreSQL. The records of a page and the
place behind it are one transaction: a backfill that was interrupted, by a signal
or a crash, goes on where its records end when the same command is run again.

Limits, tokens, retries and learned limits are those of the configuration, as
for requests through the proxy. With --proxy, or where HTTPS_PROXY or HTTP_PROXY
names an abide, the requests go through that abide.

Any number of processes may run the same job at the same time when its output is
PostgreSQL; those of one machine also with SQLite. Each unit belongs to one of
them.

The exit status is 0 when every unit is done or, as today, not over yet, and 1
when some failed or are incomplete: "abide jobs show NAME" tells why, and the
same command tries these again. docs/jobs.md has every form of a job file.`,
		Example: `  abide backfill --dry-run orders.yaml
  abide backfill --try orders.yaml
  abide backfill orders.yaml`,
		Args: arguments(func(cmd *cobra.Command, args []string) error {
			if flags.schema {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		}),
	}
	cmd.Flags().BoolVar(&flags.schema, "schema", false, "print the JSON Schema of job files")
	cmd.Flags().BoolVar(&flags.dry, "dry-run", false, "print the plan and the first requests, and send nothing")
	cmd.Flags().BoolVar(&flags.again, "again", false, "fetch all units again, also those that are done")
	cmd.Flags().DurationVar(&flags.every, "every", 0, "begin a run so often, such as 1h, until a signal comes: in place of cron")
	cmd.Flags().BoolVar(&flags.try, "try", false, "ask for one page, store nothing, and show what the job makes of it")
	cmd.Flags().Bool("retry-failed", false, "")
	_ = cmd.Flags().MarkDeprecated("retry-failed", "each run tries units again that failed or are incomplete") // the flag is there
	cmd.Flags().BoolVar(&flags.json, "json", false, "print the progress as JSON lines on standard output")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "print no progress")
	addProxyFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.schema {
			_, err := cmd.OutOrStdout().Write(jobfile.Schema())
			return err
		}
		job, err := loadJob(args[0])
		if err != nil && !flags.dry && !flags.try {
			err = notified(cmd, job, "", err)
		}
		if err != nil {
			return err
		}
		if job.Collect.Every > 0 {
			return usage(errors.New(args[0] + " has every, so it is for \"abide collect\""))
		}
		if cmd.Flags().Changed("every") && flags.every < time.Second {
			return usage(errors.New("--every is less than a second"))
		}
		if flags.dry {
			return dryRun(cmd.OutOrStdout(), job)
		}
		if flags.try {
			_, err = tryJob(cmd, job, cmd.OutOrStdout(), false)
			return err
		}
		errs, show := cmd.ErrOrStderr(), &jobProgress{}
		switch {
		case flags.json:
			show.events = json.NewEncoder(cmd.OutOrStdout())
		case !flags.quiet:
			show.console, errs = liveLineOf(errs)
			show.lines = errs
		}
		caught := catchSignals(cmd.Context())
		defer caught.close()
		for next := time.Now(); ; {
			lost := ""
			if err == nil {
				lost, err = runBackfill(cmd, job, caught, errs, show, flags.again)
			}
			err = notified(cmd, job, lost, err)
			if flags.every <= 0 || caught.stop.Err() != nil {
				return err
			}
			if err != nil {
				fmt.Fprintf(errs, "abide: %v\n", err)
			}
			next = status.Later(next.Add(flags.every), time.Now())
			fmt.Fprintf(errs, "abide: the next run of %s begins at %s\n", args[0], next.Format(time.TimeOnly))
			if clock.Sleep(caught.stop, time.Until(next)) != nil {
				return nil
			}
			job, err = loadJob(args[0]) // yesterday is another day now
		}
	}
	return cmd
}

// addProxyFlag adds --proxy to a command that sends requests of a job.
func addProxyFlag(cmd *cobra.Command) {
	cmd.Flags().String("proxy", "", "`URL` of a running abide that the requests go through, such as http://127.0.0.1:3128")
}

// progressEvery is the time between two updates of the progress.
const progressEvery = 500 * time.Millisecond

func runBackfill(cmd *cobra.Command, job *jobfile.Job, caught *signals, errs io.Writer, show *jobProgress, all bool) (lost string, err error) {
	j, err := openJob(cmd, job, caught, errs, true)
	if err != nil {
		return "", err
	}
	defer j.close()
	j.remember(nil)
	if text := job.Doubles(all, time.Now()); text != "" {
		j.line().Warn(text)
	}
	known := j.output // by whose records since goes on
	if all {
		known = nil
	}
	b := j.backfill(cmd.Context(), known, all)
	j.expose(b)
	waited, pages := "", int64(0) // for what, since the last page
	err = showWhile(progressEvery, func(now time.Time) {
		shown := b.Status(now)
		if show.update(shown, now); j.caught.stop.Err() == nil && (shown.Limited != "" || shown.Run.Pages > pages) {
			waited, pages = shown.Limited, shown.Run.Pages
		}
	}, func() error { return b.Run(j.caught.stop) })
	now := time.Now()
	last := b.Status(now)
	if errors.Is(err, context.Canceled) && j.caught.stop.Err() != nil {
		err = &exit{code: exitFailed, err: errors.New(stoppedText(job.Name, waited, last.Run.Failing))}
	}
	if err != nil {
		last.Reason = status.ErrorLine(err)
	}
	show.close(last, now)
	j.remember(&last)
	if last.Units.Open > 0 && !last.Run.Open.IsZero() {
		j.line().Infof("%s fetched by the first run after %s", status.Number(int(last.Units.Open), "unit is not over yet; it is", "units are not over yet; they are"), last.Run.Open.Format(time.RFC3339))
	}
	if lost = lostText(last.Run, job); lost != "" {
		j.line().Warn(lost)
	}
	if err == nil && last.State == status.JobFailed {
		err = &exit{code: exitFailed, err: fmt.Errorf("of %s %s: \"abide jobs show %s\" tells why, the same command tries again",
			countText(int(last.Units.Total), "unit"), missingText(last.Units), job.Name)}
	}
	return lost, err
}

// stoppedText says that a job was stopped, what it waited for, and why its last try has failed; "" for neither.
func stoppedText(name, waited, failing string) string {
	text := name + " was stopped; the same command goes on where it ended"
	for _, why := range [][2]string{{"; the last try has failed: ", failing}, {"; it waited for ", waited}} {
		if why[1] != "" {
			text += why[0] + why[1]
		}
	}
	return text
}

// lostText says which records of a run are not in the table of a job, and which columns stayed empty; "" for none.
func lostText(run *status.JobRun, job *jobfile.Job) string {
	var parts []string
	if run.Rejects > 0 {
		parts = append(parts, fmt.Sprintf("%s rejected: %s_rejects says why", status.Number(int(run.Rejects), "record was", "records were"), job.Name))
	}
	if run.Replaced > 0 && len(job.ID) == 0 {
		parts = append(parts, status.Number(int(run.Replaced), "record is equal to one", "records are equal to ones")+" of earlier pages of the same unit, and such records are kept once: where each counts, write as id what tells them apart, or id: place and replace: unit")
	} else if run.Replaced > 0 {
		parts = append(parts, status.Number(int(run.Replaced), "record", "records")+" took the place of others with the same id, of the same page or of another unit: where these are different records, id needs more, such as \"{date}\" or \"{item}\"; where records move between units, write moves: on")
	}
	if run.Empty != "" {
		parts = append(parts, run.Empty)
	}
	return strings.Join(parts, "; ")
}

// backfill prepares the backfill of the process.
func (j *jobProcess) backfill(ctx context.Context, known *output.Output, anew bool) *backfill.Backfill {
	return backfill.New(backfill.Options{
		Job: j.job, Output: j.records, Sender: j.sender, Units: units.Of(ctx, j.job, known, anew), Anew: anew,
		Log: j.line().Infof, Warn: j.line().Warnf, Limited: j.limited, Ends: j.ends,
	})
}

// showWhile calls show again and again while run runs.
func showWhile(every time.Duration, show func(now time.Time), run func() error) error {
	shown, end := context.WithCancel(context.Background())
	var showing sync.WaitGroup
	showing.Go(func() {
		for now := range clock.Ticks(shown, every) {
			show(now)
		}
	})
	defer showing.Wait()
	defer end()
	return run()
}

// tryJob asks for one page of a job, and shows what the job makes of it. With drafts it returns the keys that it proposes.
func tryJob(cmd *cobra.Command, job *jobfile.Job, w io.Writer, drafts bool) (*jobfile.Draft, error) {
	caught := catchSignals(cmd.Context())
	defer caught.close()
	j, err := openJob(cmd, job, caught, cmd.ErrOrStderr(), false)
	if err != nil {
		return nil, err
	}
	defer j.close()
	return j.backfill(j.caught.stop, nil, false).Try(j.caught.stop, w, drafts)
}

// shownRequests is the number of requests that a dry run prints.
const shownRequests = 3

// dryRun prints the plan of a job and its first requests.
func dryRun(w io.Writer, job *jobfile.Job) error {
	total, first := 0, []output.Unit{}
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed() // hashes, as there may be millions of units
	for u, err := range units.Of(context.Background(), job, nil, false) {
		if err != nil {
			return err
		}
		total++
		sum := maphash.String(seed, u.Key)
		if _, again := seen[sum]; !again && len(first) < shownRequests {
			first = append(first, u)
		}
		seen[sum] = struct{}{}
	}
	count := strconv.Itoa(len(seen))
	if total > len(seen) {
		count += fmt.Sprintf(" (%d are given, some more than once)", total)
	}
	style := cmp.Or(job.Paginate.Style, "none: each answer is one page")
	fmt.Fprintf(w, "job        %s (%s)\nunits      %s\nworkers    %d\npages      %s\noutput     %s\n\n", job.Name, filepath.Base(job.File), count, job.Workers, style, job.Output)
	for _, u := range first {
		r, err := units.Fill(job, u)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %s %s\n", u.Key, r.Method, r.URL)
	}
	if more := len(seen) - len(first); more > 0 {
		fmt.Fprintf(w, "and %s\n", countText(more, "request")+" more")
	}
	if text := job.Doubles(false, time.Now()); text != "" {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w, "nothing was sent")
	return nil
}

const (
	// jobLineEvery is the time between two lines about a job where there is no terminal.
	jobLineEvery = 10 * time.Second
	// jobEventEvery is the time between two JSON lines.
	jobEventEvery = time.Second
	// barWidth is the width of a progress bar in characters.
	barWidth = 20
)

// jobProgress shows how far a job is: in the status line of a terminal, or in lines, or as JSON
// lines. The zero value shows nothing.
type jobProgress struct {
	console *liveLine     // nil: there is no terminal
	lines   io.Writer     // nil: there are no lines
	events  *json.Encoder // nil: there are no JSON lines
	next    time.Time     // of the next line
}

// update shows a status.
func (p *jobProgress) update(s status.Job, now time.Time) {
	switch {
	case p.events != nil && !now.Before(p.next):
		p.next = now.Add(jobEventEvery)
		_ = p.events.Encode(s) // a reader that is gone does not matter
	case p.console != nil:
		p.console.show(jobBar(s) + " " + jobText(s, now))
	case p.lines != nil && !now.Before(p.next):
		if !p.next.IsZero() {
			fmt.Fprintln(p.lines, "abide: "+jobText(s, now))
		}
		p.next = now.Add(jobLineEvery)
	}
}

// close shows the last status.
func (p *jobProgress) close(s status.Job, now time.Time) {
	p.console.show("")
	s.Rate, s.Ends, s.Limited = 0, time.Time{}, "" // nothing goes on
	switch {
	case p.events != nil:
		_ = p.events.Encode(s) // a reader that is gone does not matter
	case p.lines != nil && !s.Started.IsZero():
		fmt.Fprintf(p.lines, "abide: %s; this run: %s, %s in %s; all runs: %s came%s, in %s\n", unitsText(s), countText(int(s.Run.Requests), "request"),
			countText(int(s.Run.Records), "record"), sitelog.InSeconds(now.Sub(s.Started)), countText(int(s.Records), "record"), rejectsText(s), s.Output)
	}
}

// jobBar is a progress bar.
func jobBar(s status.Job) string {
	full := int(barWidth * (s.Units.Total - s.Units.Left()) / max(s.Units.Total, 1))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
}

// missingText counts the units that are over and not done, such as "2 failed, 3 incomplete"; "": none.
func missingText(u status.JobUnits) string {
	var parts []string
	for i, n := range []int64{u.Failed, u.Incomplete, u.Open} {
		if n > 0 {
			parts = append(parts, fmt.Sprint(n, []string{" failed", " incomplete", " not over yet"}[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// unitsText counts the units of a job.
func unitsText(s status.Job) string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %d of %d units, %s", s.Name, s.Units.Done, s.Units.Total, missingText(s.Units)), ", ")
}

// rejectsText counts the records that a job has rejected; "": none.
func rejectsText(s status.Job) string {
	if s.Rejects == 0 {
		return ""
	}
	return fmt.Sprintf(", %d rejected (%s_rejects says why)", s.Rejects, s.Name)
}

// endsText says when a job ends, such as "in 59m50s"; "" where that is not known, or where it should be over.
func endsText(s status.Job, now time.Time) string {
	if left := s.Ends.Sub(now); left > time.Second/10 {
		return "in " + sitelog.InSeconds(left)
	}
	return ""
}

// jobText is a status in a line.
func jobText(s status.Job, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s on %s%s", unitsText(s), countText(int(s.Records), "record"), countText(int(s.Pages), "page"), rejectsText(s))
	if s.Units.Left() == 0 && s.Reason == "" {
		return b.String()
	}
	if s.Rate >= 0.1 {
		fmt.Fprintf(&b, ", %s/s", status.PerSecond(s.Rate))
	}
	if text := endsText(s, now); text != "" {
		b.WriteString(", ends " + text)
	}
	switch {
	case s.State == status.JobPaused:
		b.WriteString("; paused")
	case s.Limited != "":
		b.WriteString("; " + s.Limited)
	case s.Reason != "":
		b.WriteString("; stopped: " + s.Reason)
	}
	return b.String()
}
