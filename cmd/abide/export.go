package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/jobs/export"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

func exportCommand() *cobra.Command {
	var flags struct{ format, since, job, to string }
	cmd := &cobra.Command{
		Use:   "export [flags] NAME|JOB.yaml|FILE|URL",
		Short: "Write the records of a job as JSON lines, CSV or Parquet",
		Long: `Export writes the records of a job to standard output or to a file, in the order in
which they were fetched. The job is a name that "abide jobs" lists, a job file, a
SQLite file that a job has written, or a postgres:// URL; --job says which job
where a database has several.

A line of JSON has id, unit, fetched_at and body, the record as it came. CSV and
Parquet have the job's columns as well. A file gets its name when it is complete; one whose
name ends with .gz or .zst is compressed. s3://BUCKET/KEY is an object of S3, or of what
AWS_ENDPOINT_URL names, with the keys of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.`,
		Example: `  abide export orders > orders.jsonl
  abide export orders --format parquet --to orders.parquet
  abide export orders --to s3://lake/orders/2026-01-31.parquet
  abide export items.db --since 24h`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	cmd.Flags().StringVarP(&flags.format, "format", "f", "", "`form` of the records: jsonl, csv or parquet (default that of the name of the file, else jsonl)")
	cmd.Flags().StringVar(&flags.since, "since", "", "only records fetched since a `time`: 24h, 2026-01-31 or 2026-01-31T15:00:00Z")
	cmd.Flags().StringVar(&flags.job, "job", "", "`name` of the job, where a database has several")
	cmd.Flags().StringVar(&flags.to, "to", "", "`file` or s3:// object to write, in place of standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := exportFormat(flags.format, flags.to)
		if err != nil {
			return err
		}
		since, err := exportSince(flags.since, time.Now())
		if err != nil {
			return err
		}
		job, o, _, err := openNamed(cmd, args[0], flags.job)
		if err != nil {
			return err
		}
		defer o.Close()
		write := func(w io.Writer) error {
			to, err := packed(w, flags.to)
			if err != nil {
				return err
			}
			_, err = export.Write(to, format, job.Description(), job.Read(cmd.Context(), since))
			return errors.Join(err, to.Close())
		}
		if flags.to == "" || flags.to == "-" {
			return write(cmd.OutOrStdout())
		}
		if strings.HasPrefix(flags.to, s3Scheme) {
			return writeS3(cmd, flags.to, write)
		}
		if _, err := os.Stat(filepath.Dir(flags.to)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no directory %s: make it, or name another file", filepath.Dir(flags.to))
		}
		return writeWhole(flags.to, 0o644, write)
	}
	return cmd
}

// packed compresses what is written to a file by the end of its name, .gz or .zst.
func packed(w io.Writer, file string) (io.WriteCloser, error) {
	switch filepath.Ext(file) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w)
	}
	return struct {
		io.Writer
		io.Closer
	}{w, io.NopCloser(nil)}, nil
}

// exportFormat is the format that is named, or that of the name of the file.
func exportFormat(named, file string) (export.Format, error) {
	key := "--format"
	if named == "" {
		key, named = "--to", filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".zst"))
	}
	if slices.Contains([]string{"", ".json", ".ndjson"}, named) {
		return export.JSONLines, nil
	}
	if f := export.Format(strings.TrimPrefix(named, ".")); slices.Contains(export.Formats, f) {
		return f, nil
	}
	return "", usage(fmt.Errorf("%s: %s is no format; end the name with .jsonl, .csv or .parquet, then .gz or .zst to compress, or write --format", key, named))
}

func exportSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := policy.ParseWait(text); err == nil {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("--since: %q is no time; write 24h, 2026-01-31 or 2026-01-31T15:00:00Z", text))
}

// openNamed opens the job that a command line names, or the one of the name job there; "": the only one. It returns what is
// known of the job, too. The caller must close the output.
func openNamed(cmd *cobra.Command, named, job string) (kept *output.Job, o *output.Output, known knownJob, err error) {
	info, missing := os.Stat(named)
	switch {
	case isPostgres(named):
		known.Output = named
	case strings.HasSuffix(named, ".yaml") || strings.HasSuffix(named, ".yml"):
		var found *jobfile.Job
		found, err = loadJob(named)
		known = knownJob{Name: found.Name, File: named, Output: found.Output.File}
	case missing == nil && info.Mode().IsRegular():
		known.Output, err = filepath.Abs(named)
	default:
		known, err = knownAs(cmd, named)
	}
	if known.Name = cmp.Or(job, known.Name); err == nil {
		kept, o, err = known.open(cmd.Context())
	}
	return kept, o, known, err
}

// knownAs is the job of a name that was run on this machine.
func knownAs(cmd *cobra.Command, name string) (knownJob, error) {
	p, err := loadPolicy(cmd)
	if err != nil {
		return knownJob{}, err
	}
	list, err := knownJobs(p.Data)
	if known := lists.Find(list, func(k *knownJob) bool { return k.Name == name }); known != nil {
		return *known, nil
	}
	return knownJob{}, cmp.Or(err, fmt.Errorf("no job %q was run on this machine (with this data directory); name its job file, or see \"abide jobs\"", name))
}
