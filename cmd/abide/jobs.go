package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/status"
)

func jobsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of this machine and how far they are",
		Long: `Jobs lists the jobs that "abide backfill" and "abide collect" have run on this
machine, with the units that are done, failed and left, and when a running job
is expected to end. "abide jobs show NAME" lists the units that failed or are
incomplete, and why.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := listedJobs(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			writeJobs(cmd.OutOrStdout(), list, time.Now())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(showJobCommand())
	return cmd
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// listedJob is a line of "abide jobs".
type listedJob struct {
	status.Job
	File  string `json:"file"`
	Error string `json:"error,omitempty"` // why the counts are not known
}

// listedJobs are the jobs of this machine.
func listedJobs(cmd *cobra.Command) ([]listedJob, error) {
	p, err := loadPolicy(cmd)
	if err != nil {
		return nil, err
	}
	known, err := knownJobs(p.Data)
	if err != nil {
		return nil, err
	}
	running := runningJobs(cmd.Context(), p)
	list := []listedJob{}
	for _, k := range known {
		job := listedJob{File: k.File, Job: status.Job{Name: k.Name, Kind: k.Kind, State: status.JobStopped}}
		if live := lists.Find(running, func(j *status.Job) bool { return j.Name == k.Name }); live != nil {
			job.Job = *live
		} else if !k.isThere() {
			continue
		} else if read, err := readJob(cmd.Context(), k); err != nil {
			job.Error = err.Error()
		} else {
			job.Job = read
		}
		job.Done = k.Last.Done
		list = append(list, job)
	}
	return list, nil
}

// readJob reads from the output of a job how far the job is.
func readJob(ctx context.Context, k knownJob) (shown status.Job, err error) {
	kept, o, err := k.open(ctx)
	if err != nil {
		return shown, err
	}
	defer o.Close()
	at, _ := k.output() // which was read
	shown, err = shownJob(ctx, kept, k)
	shown.Output = at.String()
	return shown, err
}

// shownJob tells how far a job is that no process of this machine works on.
func shownJob(ctx context.Context, kept *output.Job, k knownJob) (status.Job, error) {
	counts, err := kept.Counts(ctx)
	about, shown := kept.Description(), counts.Job
	shown.Name, shown.Kind = about.Name, about.Kind
	if shown.State = shown.Units.Ended(); shown.State == "" {
		shown.State, shown.Reason = status.JobStopped, k.Last.Reason
	}
	return shown, err
}

// writeJobs writes a table of jobs.
func writeJobs(w io.Writer, list []listedJob, now time.Time) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no job was run on this machine with this data directory; docs/jobs.md begins with one")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tKIND\tSTATE\tDONE\tMISSING\tLEFT\tRECORDS\tENDS\tOUTPUT")
	for _, j := range list {
		if j.Error != "" {
			fmt.Fprintf(t, "%s\t%s\tunknown\t\t\t\t\t\t%s\n", j.Name, j.Kind, j.Error)
			continue
		}
		done, failed, left := fmt.Sprintf("%d of %d", j.Units.Done, j.Units.Total), cmp.Or(missingText(j.Units), "none"), fmt.Sprint(j.Units.Left())
		switch {
		case j.Round != nil:
			done, failed, left = fmt.Sprintf("round %d, %d targets", j.Round.Number, j.Round.Targets), fmt.Sprint(j.Round.Failing, " failing"), ""
		case j.Kind == "collect":
			done, failed, left = "", "", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d%s\t%s\t%s\n", j.Name, j.Kind, j.State, done, failed, left, j.Records, map[string]string{backfills: " came"}[j.Kind], endsText(j.Job, now), j.Output)
	}
	_ = t.Flush() // an error does not matter
	for _, j := range list {
		if j.Reason != "" {
			fmt.Fprintf(w, "%s has stopped: %s\n", j.Name, shorten.To(200, j.Reason))
		}
	}
}

// shownProblems is the number of units that "abide jobs show" lists at most.
const shownProblems = 1000

func showJobCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "List the units of a job that failed or are incomplete, and why",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			kept, o, known, err := openNamed(cmd, args[0], "")
			if err != nil {
				return err
			}
			defer o.Close()
			list, err := kept.Problems(cmd.Context(), shownProblems)
			if err != nil {
				return err
			}
			shown, err := shownJob(cmd.Context(), kept, known)
			if shown.Kind == collects {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s%s\n", shown.Name, countText(int(shown.Records), "record"), rejectsText(shown))
			} else {
				fmt.Fprintln(cmd.OutOrStdout(), jobText(shown, time.Now()))
			}
			writeProblems(cmd.OutOrStdout(), kept.Description(), list)
			if n := int(shown.Units.Aside); n > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "%s no longer asked for, as the job no longer names their items or dates; their records stay\n", status.Number(n, "unit is", "units are"))
			}
			return err
		},
	}
}

// writeProblems writes a table of units that are not complete.
func writeProblems(w io.Writer, d output.Description, list []output.Problem) {
	what, next := "no unit of %s has failed or is incomplete\n", "\nthe next \"abide backfill\" tries these units again\n"
	if d.Kind == collects {
		what, next = "no target of %s fails\n", ""
	}
	if len(list) == 0 {
		fmt.Fprintf(w, what, d.Name)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "UNIT\tSTATE\tPAGES\tSINCE\tWHY")
	for _, one := range list {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", status.Line(one.Unit), status.Line(string(one.State)), one.Pages, one.At.Local().Format("2006-01-02 15:04:05"), status.Line(one.Reason))
	}
	_ = t.Flush() // an error does not matter
	fmt.Fprint(w, next)
}
