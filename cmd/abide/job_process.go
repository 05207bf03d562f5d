package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin/plan"
	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/jobs/backfill"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

// jobProcess is a process that runs a job. Its requests go by the dispatcher of a program of its
// own, or through another abide.
type jobProcess struct {
	job     *jobfile.Job
	policy  *policy.Policy
	log     *logrus.Logger // of the job
	output  *output.Output
	records *output.Job // of the job, in the output
	sender  send.Sender
	program *program // nil: requests go through another abide
	stop    func()   // ends the program
	caught  *signals
}

// loadJob reads a job file. With an error the job has what could be read, such as whom it tells.
func loadJob(path string) (*jobfile.Job, error) {
	data, err := readFile(path, nil)
	if err != nil {
		return &jobfile.Job{}, usage(fmt.Errorf("reading the job file: %w", err))
	}
	return jobfile.Load(policy.Source{Path: path, Data: data, Environ: os.Environ()})
}

// openJob opens what a job needs: its way to sites, and its output if something is to be stored. The
// log goes to errs. The caller must close it.
func openJob(cmd *cobra.Command, job *jobfile.Job, caught *signals, errs io.Writer, stores bool) (_ *jobProcess, err error) {
	j := &jobProcess{job: job, caught: caught}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, err
	}
	s.defaults = map[string]string{"log.level": "warn"}
	s.fit = func(p, _ *policy.Policy) error {
		p.Queue.Wait = send.LongestWait
		p.LimitAtOnce(job.Workers)
		return nil
	}
	p, err := s.load()
	if err != nil {
		return nil, err
	}
	if p.Shard.Of > 0 {
		return nil, usage(errors.New("shard is for the requests of crawlers, and would leave out a part of this job; name a --config without it: processes share the units of a job by its output"))
	}
	j.policy, j.log = p, newLog(errs, p.Log)
	if j.log.GetLevel() < logrus.InfoLevel {
		j.log.SetLevel(logrus.InfoLevel) // the lines of the job itself
	}
	if stores {
		if j.output, err = output.Open(cmd.Context(), job.Output, output.Options{}); err != nil {
			return nil, err
		}
		extractor, err := records.New(job)
		if err != nil {
			return nil, err
		}
		if kept, err := j.output.Kept(cmd.Context(), job.Name); err == nil {
			old := *job
			old.Alone = true
			job.Alone = kept.Description().Fingerprint == units.Fingerprint(&old)
		}
		j.records, err = j.output.Job(cmd.Context(), output.Description{
			Name: job.Name, Kind: kindOf(job), Fingerprint: units.Fingerprint(job), Request: units.Described(job), Moves: job.Moves, Replace: job.Replace, Empties: job.Paginate.Unchecked, Hashed: len(job.ID) == 0,
			Columns: job.Columns, About: units.About(job),
			Of: func(body []byte) []any {
				columns, _ := extractor.Columns(body, nil) // what has another type stays empty
				return columns
			},
		})
		if err != nil {
			return nil, err
		}
	}
	roots := rootsOfJob(p)
	proxy, err := proxyOfJob(cmd, roots)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		j.line().Infof("requests go through the abide at %s", proxy.Redacted())
		j.sender = send.Through(http.ProxyURL(proxy), roots, job.Name)
		return j, nil
	}
	a, err := open(cmd.Context(), s, p, newLog(errs, p.Log)) // with an admin listener for "abide status" and "abide jobs"
	if err != nil {
		return nil, err
	}
	j.program, j.sender, j.stop = a, send.New(a.proxy.Dispatcher), a.background(context.Background(), kindOf(job)+" "+job.Name)
	return j, nil
}

// line begins a line of the log about the job.
func (j *jobProcess) line() *logrus.Entry { return j.log.WithField("job", j.job.Name) }

// The kinds of jobs, each with a command of its name.
const backfills, collects = "backfill", "collect"

// kindOf returns the kind of a job.
func kindOf(job *jobfile.Job) string {
	if job.Collect.Every > 0 {
		return collects
	}
	return backfills
}

// close ends the program, and closes the output.
func (j *jobProcess) close() {
	if j.sender != nil {
		j.sender.Close()
	}
	if j.stop != nil {
		j.stop()
	}
	if j.output != nil {
		if err := j.output.Close(); err != nil {
			j.line().WithField("reason", err).Warnf("closing the output: %v", err)
		}
	}
}

// limited says what holds requests of the job back now, and until when if that is known; "" if
// nothing does or it is unknown.
func (j *jobProcess) limited() (text string, until time.Time) {
	if j.program == nil {
		return "", until
	}
	list := j.program.waitingSites(time.Now())
	if len(list) == 0 {
		return "", until
	}
	first := list[0]
	text = first.Site + first.until
	if failed := lists.Find(status.NotClosed(j.program.proxy.Breakers()), func(b *status.Breaker) bool { return b.Site == first.Site && b.Why != "" }); failed != nil {
		text += ", the last time because " + failed.Why
	}
	if first.Found {
		text += `; "abide forget ` + first.Site + `" drops it`
	}
	return text, first.Until
}

// ends estimates when the job ends; zero: unknown.
func (j *jobProcess) ends(w backfill.Work) time.Time {
	if j.program == nil {
		return time.Time{}
	}
	held := 0.0
	for _, one := range j.program.proxy.Blocked() {
		held += one.Seconds
	}
	tokens := map[string][]policy.Token{}
	for _, pool := range j.program.proxy.Tokens().Pools {
		tokens[pool.Name] = make([]policy.Token, len(pool.Tokens))
	}
	return simulatedEnd(j.program.policy.Load(), j.job, tokens, w, held)
}

// simulatedEnd estimates when a job ends by the simulation of "abide plan": of the requests so far,
// which limits have held for so many seconds, and of these and those that are left. What the
// simulation does not know, such as a learned limit, slows these down as it has those.
func simulatedEnd(p *policy.Policy, job *jobfile.Job, tokens map[string][]policy.Token, w backfill.Work, held float64) time.Time {
	u, _ := url.Parse(jobfile.ReplacePlaceholders(job.Request.URL, func(string, string) string { return "x" })) // that of a job has no error
	target, _ := policy.ParseTarget(u.Scheme, u.Host)
	took := w.Last.Sub(w.Began).Seconds()
	latency := max(took*float64(job.Workers)-held, 0) / float64(w.Requests)
	takes := func(requests int64) float64 {
		r, err := plan.Run(context.Background(), p, plan.Scenario{Start: w.Began, Tokens: tokens, Crawl: plan.Crawl{
			Target: target, Path: cmp.Or(u.EscapedPath(), "/"), Method: job.Request.Method, Requests: int(requests), Clients: job.Workers,
			Client: job.Name, Priority: job.Request.Priority, Latency: status.DurationOf(latency),
		}})
		if err != nil || !r.Finished {
			return 0
		}
		return r.Seconds
	}
	done, all := takes(w.Requests), takes(w.Requests+w.Left)
	if done == 0 || all <= done {
		return time.Time{}
	}
	return w.Last.Add(status.DurationOf((all - done) * max(took/done, 1)))
}

// proxyOfJob is the running abide that the requests of a job go through: --proxy, else that of
// the proxy variables if it is an abide; nil if the job sends by itself.
func proxyOfJob(cmd *cobra.Command, roots *x509.CertPool) (*url.URL, error) {
	named, _ := cmd.Flags().GetString("proxy") // each such command has it
	from := "--proxy"
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if named == "" {
			named, from = os.Getenv(name), name
		}
	}
	if named == "" {
		return nil, nil
	}
	if !strings.Contains(named, "://") {
		named = "http://" + named
	}
	u, err := url.Parse(named)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage(fmt.Errorf("%s has to be a URL such as http://127.0.0.1:3128", from))
	}
	if err := isAbide(cmd.Context(), u, roots); err != nil {
		return nil, usage(fmt.Errorf("%s does not name an abide (%w); unset it, and name the next hop in egress.proxy if there must be one", from, err))
	}
	return u, nil
}

// isAbide asks an address whether an abide listens there.
func isAbide(ctx context.Context, u *url.URL, roots *x509.CertPool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Scheme+"://"+u.Host+"/", nil)
	if err != nil {
		return err
	}
	direct := http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	resp, err := direct.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("%s cannot be reached: %w", u.Host, err)
	}
	resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Proxy-Status"), "abide") {
		return errors.New(u.Host + " answers, and is no abide")
	}
	return nil
}

// rootsOfJob returns the CAs that a job behind a running abide trusts: those of the system, and
// the one in the data directory.
func rootsOfJob(p *policy.Policy) *x509.CertPool {
	system, _ := x509.SystemCertPool() // nil: there is none
	roots := cmp.Or(system, x509.NewCertPool())
	roots.AppendCertsFromPEM(ca.UserRoots(""))
	files := []string{p.Egress.Roots, p.TLS.Cert} // where the proxy itself speaks TLS
	if dir := ca.Dir(p.Data); dir != "" {
		files = append(files, ca.RootFile(dir))
	}
	for _, file := range files {
		if pem, err := os.ReadFile(file); err == nil {
			roots.AppendCertsFromPEM(pem)
		}
	}
	return roots
}

// expose shows a job on the admin listener and in the metrics of its process, and in those of the
// other processes with its data directory.
func (j *jobProcess) expose(job steeredJob) {
	if j.program != nil {
		j.program.job.Store(&job)
	}
}

// askJobTime bounds a question to a process that runs a job.
const askJobTime = 2 * time.Second

// Jobs are the job of this process, or else those that run on this machine, and the backfills that have ended and whose job
// file is there.
func (c adminProcess) Jobs(ctx context.Context) []status.Job {
	if steeredJob := c.job.Load(); steeredJob != nil {
		return []status.Job{(*steeredJob).Status(time.Now())}
	}
	list := runningJobs(ctx, c.policy.Load())
	known, _ := knownJobs(c.policy.Load().Data) // what cannot be read is not known
	for _, one := range known {
		if running := lists.Find(list, func(j *status.Job) bool { return j.Name == one.Name }); running != nil {
			running.Done = one.Last.Done
		} else if _, err := os.Stat(one.File); err == nil && one.Last.Name != "" {
			list = append(list, one.Last)
		}
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
	does := map[bool]string{true: "pause", false: "resume"}[pause]
	process := lists.Find(jobProcesses(c.policy.Load()), func(r *registration) bool { return jobOf(*r) == name })
	if process == nil {
		return missing
	}
	ctx, cancel := context.WithTimeout(ctx, askJobTime)
	defer cancel()
	_, err := abideAt{*process, adminAPI{token: c.policy.Load().Admin.Token}}.ask(ctx, http.MethodPost, "jobs/"+url.PathEscape(name)+"/"+does, nil, new(any))
	return err
}

// jobOf is the job that a process runs; "" if it runs none.
func jobOf(r registration) string {
	if kind, name, _ := strings.Cut(r.Command, " "); kind == backfills || kind == collects {
		return name
	}
	return ""
}

// jobProcesses are the other processes of this machine that run jobs.
func jobProcesses(p *policy.Policy) []registration {
	return lists.Only(registrations(p.Data), func(r registration) bool { return r.Admin != "" && jobOf(r) != "" && r.PID != os.Getpid() })
}

// runningJobs are the jobs that run on this machine, of processes that answer in time.
func runningJobs(ctx context.Context, p *policy.Policy) []status.Job {
	ctx, cancel := context.WithTimeout(ctx, askJobTime)
	defer cancel()
	processes := jobProcesses(p)
	answers := make([][]status.Job, len(processes))
	var asking sync.WaitGroup
	for i, one := range processes {
		asking.Go(func() {
			if _, err := (abideAt{one, adminAPI{token: p.Admin.Token}}).ask(ctx, http.MethodGet, "jobs", nil, &answers[i]); err != nil {
				answers[i] = nil
			}
		})
	}
	asking.Wait()
	return slices.Concat(answers...)
}

// writeWhole writes a file, which gets its name when it is complete. A device or pipe is written
// as it is, and of a symbolic link the file that it names.
func writeWhole(path string, mode os.FileMode, write func(w io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if named, err := filepath.EvalSymlinks(path); err == nil {
		path = named
	}
	return disk.Write(path, mode, os.Rename, write)
}
