package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// steeredJob is the job of this process.
type steeredJob interface {
	Status(now time.Time) status.Job
	Pause(pause bool)
}

// expose shows a job on the admin listener and in the metrics of its process.
func (j *jobProcess) expose(job steeredJob) {
	if j.program == nil {
		return
	}
	j.program.job.Store(&job)
	j.program.metrics.Jobs(func() []status.Job { return []status.Job{job.Status(time.Now())} })
}

// askJobTime bounds a question to a process that runs a job.
const askJobTime = 2 * time.Second

// Jobs are the job of this process, or else those that run on this machine.
func (c adminProcess) Jobs(ctx context.Context) []status.Job {
	if steeredJob := c.job.Load(); steeredJob != nil {
		return []status.Job{(*steeredJob).Status(time.Now())}
	}
	var list []status.Job
	for _, one := range jobProcesses(c.policy.Load()) {
		list = append(list, jobsAt(ctx, one, c.policy.Load().Admin.Token)...)
	}
	return list
}

// PauseJob pauses a job, or lets it go on.
func (c adminProcess) PauseJob(ctx context.Context, name string, pause bool) error {
	missing := status.Missing("no job of that name runs on this machine")
	if steeredJob := c.job.Load(); steeredJob != nil {
		if (*steeredJob).Status(time.Now()).Name != name {
			return missing
		}
		(*steeredJob).Pause(pause)
		return nil
	}
	does := "resume"
	if pause {
		does = "pause"
	}
	for _, one := range jobProcesses(c.policy.Load()) {
		if jobOf(one) != name {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askJobTime)
		defer cancel()
		_, err := callAPI(ctx, http.MethodPost, one.Admin, c.policy.Load().Admin.Token, "jobs/"+url.PathEscape(name)+"/"+does, nil, "knows jobs")
		return err
	}
	return missing
}

// jobOf is the job that a process runs; "" if it runs none.
func jobOf(r registration) string {
	for _, kind := range []string{"backfill ", "collect "} {
		if name, ok := strings.CutPrefix(r.Command, kind); ok {
			return name
		}
	}
	return ""
}

// jobProcesses are the other processes of this machine that run jobs.
func jobProcesses(p *policy.Policy) []registration {
	var list []registration
	for _, one := range registrations(p.Data) {
		if at, err := localAddress(one.Admin); err == nil && jobOf(one) != "" && one.PID != os.Getpid() {
			one.Admin = at
			list = append(list, one)
		}
	}
	return list
}

// jobsAt are the jobs of a process; none if it does not answer.
func jobsAt(ctx context.Context, r registration, token policy.Secret) []status.Job {
	ctx, cancel := context.WithTimeout(ctx, askJobTime)
	defer cancel()
	body, err := callAPI(ctx, http.MethodGet, r.Admin, token, "jobs", nil, "knows jobs")
	var list []status.Job
	if err != nil || json.Unmarshal(body, &list) != nil {
		return nil
	}
	return list
}

// runningJobs are the jobs that run on this machine, by name.
func runningJobs(ctx context.Context, p *policy.Policy) map[string]status.Job {
	all := map[string]status.Job{}
	for _, one := range jobProcesses(p) {
		for _, j := range jobsAt(ctx, one, p.Admin.Token) {
			all[j.Name] = j
		}
	}
	return all
}
