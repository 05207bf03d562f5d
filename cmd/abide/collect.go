package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/jobs/collect"
	"github.com/abide-proxy/abide/jobs/export"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// collectLineEvery is the time between two lines of the log about a collection.
const collectLineEvery = time.Minute

func collectCommand() *cobra.Command {
	var flags struct {
		stdout, quiet bool
		rounds        int
	}
	cmd := &cobra.Command{
		Use:   "collect [flags] JOB.yaml",
		Short: "Ask the same targets again and again, each at its time",
		Long: `Collect sends the request of a job file for each of its items every so often
(every: 30s), and writes the records that have changed to the job's output. The
requests are spread over the interval. A target that does not answer is asked
more and more rarely, and holds up no other.

Limits, tokens and learned limits are those of the configuration, as for requests
through the proxy. A request that its limits would hold for longer than the
interval is not sent: its round is missed, and counted.

It ends with SIGINT or SIGTERM, after what has come is written. What is remembered
of each target, such as its ETag, outlives a restart.`,
		Example: `  abide collect prices.yaml
  abide collect --stdout prices.yaml | jq .body.price`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVar(&flags.stdout, "stdout", false, "write each new record as a JSON line to standard output, after it is in the job's output")
	cmd.Flags().IntVar(&flags.rounds, "rounds", 0, "end after so many `intervals`; 0: never")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "write no line about the rounds to the log")
	addProxyFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := loadJob(args[0])
		if err != nil {
			return notified(cmd, job, "", err)
		}
		if job.Collect.Every == 0 {
			return usage(errors.New(args[0] + " has no every, such as \"every: 30s\", so it is a backfill"))
		}
		var written func(*output.Record) error
		if flags.stdout {
			written = export.NewLines(cmd.OutOrStdout(), job.Columns).Add
		}
		return notified(cmd, job, "", runCollect(cmd, job, flags.rounds, flags.quiet, written))
	}
	return cmd
}

func runCollect(cmd *cobra.Command, job *jobfile.Job, rounds int, quiet bool, written func(*output.Record) error) error {
	caught := catchSignals(cmd.Context())
	defer caught.close()
	j, err := openJob(cmd, job, caught, cmd.ErrOrStderr(), true)
	if err != nil {
		return err
	}
	defer j.close()
	release, err := j.records.Own(cmd.Context())
	if err != nil {
		return fmt.Errorf("%s: %w", job.Name, err)
	}
	defer release()
	j.remember(nil)
	c, err := collect.New(cmd.Context(), collect.Options{
		Job: job, Output: j.records, Sender: j.sender, Units: units.Of(cmd.Context(), job, j.output, false), Log: j.line().Infof, Warn: j.line().Warnf, Written: written, Limited: j.limited,
	})
	if err != nil {
		return err
	}
	j.expose(c)
	ctx, stop := context.WithCancel(j.caught.stop)
	if rounds > 0 {
		ctx, stop = context.WithTimeout(j.caught.stop, time.Duration(rounds)*job.Collect.Every)
	}
	defer stop()
	tell := func(now time.Time) {
		if !quiet {
			j.line().Info(collect.Text(c.Status(now)))
		}
	}
	err = showWhile(collectLineEvery, tell, func() error { return c.Run(ctx) })
	tell(time.Now())
	return err
}
