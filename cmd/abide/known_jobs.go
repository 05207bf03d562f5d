package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// knownJobsDir is the directory, in the data directory, that has a file for each job that was run
// on this machine.
const knownJobsDir = "jobs"

// maxKnownJobs bounds how many jobs are listed.
const maxKnownJobs = 1000

// knownJob is where a job and its output are.
type knownJob struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`             // "backfill" or "collect"
	File   string `json:"file"`             // absolute path of the job file
	Output string `json:"output,omitempty"` // absolute path of the SQLite file; "": the job file has the URL
}

// knownJobOf is what is remembered of a job.
func knownJobOf(job *jobfile.Job, kind string) knownJob {
	return knownJob{job.Name, kind, job.File, job.Output.File}
}

// output is where the records of the job are. The job file is read only for the secret of a URL.
func (k knownJob) output() (jobfile.Output, error) {
	if k.Output != "" {
		return jobfile.Output{File: k.Output}, nil
	}
	job, err := loadJob(k.File)
	if err != nil {
		return jobfile.Output{}, err
	}
	return job.Output, nil
}

// rememberJob writes down that a job was run on this machine.
func rememberJob(data string, j knownJob) error {
	if data == "none" {
		return nil
	}
	dir := filepath.Join(data, knownJobsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, j.Name+".json")
	f, err := os.CreateTemp(dir, j.Name+"-*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
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
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue
		}
		var j knownJob
		if text, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil && json.Unmarshal(text, &j) == nil && j.Name != "" {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b knownJob) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// findJob is the job of a name that was run on this machine, or of a job file.
func findJob(data, name string) (knownJob, error) {
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		job, err := loadJob(name)
		if err != nil {
			return knownJob{}, err
		}
		return knownJobOf(job, ""), nil
	}
	list, err := knownJobs(data)
	if err != nil {
		return knownJob{}, err
	}
	i := slices.IndexFunc(list, func(j knownJob) bool { return j.Name == name })
	if i < 0 {
		return knownJob{}, fmt.Errorf("no job %q was run on this machine (with this data directory); name its job file, or see \"abide jobs\"", name)
	}
	return list[i], nil
}
