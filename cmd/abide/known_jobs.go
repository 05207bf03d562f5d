package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// The directory, in the data directory, that has a file for each job that was run on this machine, and how many jobs are listed.
const knownJobsDir, maxKnownJobs = "jobs", 1000

// knownJob names the files of a job and of its output.
type knownJob struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`             // "backfill" or "collect"
	File   string `json:"file"`             // absolute path of the job file
	Output string `json:"output,omitempty"` // absolute path of the SQLite file, or postgres://…; "": the job file has the URL

	Last status.Job `json:"last,omitzero"` // how a backfill has ended
}

// isPostgres tells whether a text is the URL of a PostgreSQL.
func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// output returns the output of the job. The job file is read only for the secret of a URL.
func (k knownJob) output() (jobfile.Output, error) {
	switch {
	case isPostgres(k.Output):
		return jobfile.Output{URL: policy.NewSecret(k.Output)}, nil
	case k.Output != "":
		return jobfile.Output{File: k.Output}, nil
	}
	job, err := loadJob(k.File)
	return job.Output, err
}

// open opens the job in its output. The caller must close the output.
func (k knownJob) open(ctx context.Context) (*output.Job, *output.Output, error) {
	at, err := k.output()
	if err != nil {
		return nil, nil, err
	}
	o, err := output.Open(ctx, at, output.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	job, err := o.Kept(ctx, k.Name)
	if err != nil {
		o.Close()
		return nil, nil, err
	}
	return job, o, nil
}

// isThere tells whether the job has its file, or the output with its records, which PostgreSQL may have: one that has neither is over.
func (k knownJob) isThere() bool {
	return k.Output == "" || slices.ContainsFunc([]string{k.File, k.Output}, func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	})
}

// knownJobs are the jobs that were run on this machine, by name.
func knownJobs(data string) ([]knownJob, error) {
	if data == "none" {
		return nil, nil
	}
	dir := filepath.Join(data, knownJobsDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []knownJob
	for _, entry := range entries[:min(len(entries), maxKnownJobs)] {
		var j knownJob
		if text, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil && strings.HasSuffix(entry.Name(), ".json") && json.Unmarshal(text, &j) == nil && j.Name != "" {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b knownJob) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// remember has later commands find the job: it writes down that it was run on this machine, and how it has ended, nil if it
// begins.
func (j *jobProcess) remember(last *status.Job) {
	if j.policy.Data == "none" {
		return
	}
	known, dir := knownJob{Name: j.job.Name}, filepath.Join(j.policy.Data, knownJobsDir)
	path := filepath.Join(dir, j.job.Name+".json")
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &known) // what cannot be read is not known
	}
	if _, err := os.Stat(known.File); err == nil && last == nil && known.File != j.job.File {
		j.line().Warnf("\"abide jobs\" no longer lists the job %s of %s, as this one has its name: give one of them another name", known.Name, known.File)
	}
	known.Kind, known.File, known.Output, known.Last.Reason = kindOf(j.job), j.job.File, j.job.Output.File, ""
	if last != nil {
		done := known.Last.Done
		if known.Last = *last; last.State == status.JobDone {
			done = time.Now()
		} else if last.State != status.JobFailed {
			known.Last.State = status.JobStopped
		}
		known.Last.Done, known.Last.Rate, known.Last.Limited, known.Last.Ends = done, 0, "", time.Time{}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = writeWhole(path, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(known) })
	}
	if err != nil {
		j.line().WithField("reason", err).Warnf("\"abide jobs\" does not list this job: %v", err)
	}
}
