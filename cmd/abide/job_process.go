package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// jobWait is queue.wait of a process that runs a job: a job waits for a quota as long as it takes.
const jobWait = 400 * 24 * time.Hour

// jobProcess is a process that runs a job. Its requests go by the dispatcher of a program of its
// own, or through another abide.
type jobProcess struct {
	job     *jobfile.Job
	policy  *policy.Policy
	log     *logrus.Logger // of the job
	output  output.Output
	sender  send.Sender
	program *program // nil: requests go through another abide
	stop    func()   // ends the program
}

// loadJob reads a job file.
func loadJob(path string) (*jobfile.Job, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, usage(fmt.Errorf("reading the job file: %w", err))
	}
	return jobfile.Load(policy.Source{Path: path, Data: data, Environ: os.Environ()})
}

// openJob opens what a job needs: its output, and its way to sites. The log goes to errs. The
// caller must close it.
func openJob(cmd *cobra.Command, job *jobfile.Job, errs io.Writer) (_ *jobProcess, err error) {
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, err
	}
	s.defaults = map[string]string{"log.level": "warn"}
	p, err := s.load()
	if err != nil {
		return nil, err
	}
	j := &jobProcess{job: job, policy: p, log: newLog(errs, p.Log)}
	if j.log.GetLevel() < logrus.InfoLevel {
		j.log.SetLevel(logrus.InfoLevel) // the lines of the job itself
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.output, err = output.Open(cmd.Context(), job.Output, output.Options{}); err != nil {
		return nil, err
	}
	proxy, err := proxyOfJob(cmd)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		j.log.Infof("requests go through the abide at %s", proxy.Redacted())
		j.sender = send.Through(http.ProxyURL(proxy), rootsOfJob(p), job.Name)
		return j, nil
	}
	return j, j.start(errs)
}

// start starts a program for the job: its dispatcher, and an admin listener on a free port for
// "abide status" and "abide jobs".
func (j *jobProcess) start(errs io.Writer) error {
	p := onFreePorts(j.policy)
	p.Queue.Wait = jobWait
	a, err := open(nil, p, newLog(errs, p.Log))
	if err != nil {
		return err
	}
	end := a.background(context.Background())
	unregister := a.register(j.command())
	j.program, j.sender = a, send.New(a.proxy.Dispatcher)
	j.stop = func() {
		unregister()
		end()
	}
	return nil
}

// command is how the process is registered.
func (j *jobProcess) command() string {
	if j.job.Collect.Every > 0 {
		return "collect " + j.job.Name
	}
	return "backfill " + j.job.Name
}

// close ends the program and closes the output.
func (j *jobProcess) close() {
	if j.sender != nil {
		j.sender.Close()
	}
	if j.stop != nil {
		j.stop()
	}
	if j.output != nil {
		if err := j.output.Close(); err != nil {
			j.log.Warnf("closing the output: %v", err)
		}
	}
}

// limited is what holds requests of the job back now; "" if nothing does or it is unknown.
func (j *jobProcess) limited() string {
	if j.program == nil {
		return ""
	}
	now := time.Now()
	for _, one := range j.program.proxy.Waiting() {
		return one.Site + " " + sitelog.HeldUntil(now, one.Blocker)
	}
	return ""
}

// ends is when the limits allow so many more requests; zero if no limit with a long window says.
func (j *jobProcess) ends(requests int64) time.Time {
	if j.program == nil {
		return time.Time{}
	}
	var last time.Time
	for _, f := range j.program.proxy.Forecast("", requests) {
		if f.Done.After(last) {
			last = f.Done
		}
	}
	return last
}

// proxyOfJob is the running abide that the requests of a job go through: --proxy, else that of
// the proxy variables if it is an abide; nil if the job sends by itself.
func proxyOfJob(cmd *cobra.Command) (*url.URL, error) {
	named, err := cmd.Flags().GetString("proxy")
	if err != nil {
		return nil, err
	}
	from := "--proxy"
	if named == "" {
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
			if named = os.Getenv(name); named != "" {
				from = name
				break
			}
		}
	}
	if named == "" {
		return nil, nil
	}
	if !strings.Contains(named, "://") {
		named = "http://" + named
	}
	u, err := url.Parse(named)
	if err != nil || u.Host == "" || u.Scheme != "http" {
		return nil, usage(fmt.Errorf("%s has to be a URL such as http://127.0.0.1:3128", from))
	}
	if err := isAbide(cmd.Context(), u); err != nil {
		if from != "--proxy" {
			return nil, usage(fmt.Errorf("%s does not name an abide (%w); unset it, and name the next hop in egress.proxy if there must be one", from, err))
		}
		return nil, usage(fmt.Errorf("--proxy: %w", err))
	}
	return u, nil
}

// isAbide asks an address whether an abide listens there.
func isAbide(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.Host+"/", nil)
	if err != nil {
		return err
	}
	direct := http.Transport{DisableKeepAlives: true}
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

// rootsOfJob is what a job trusts behind a running abide: what the system trusts, and the CA in
// the data directory.
func rootsOfJob(p *policy.Policy) *x509.CertPool {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(ca.UserRoots(""))
	if dir := ca.Dir(p.Data); dir != "" {
		if own, err := os.ReadFile(ca.RootFile(dir)); err == nil {
			roots.AppendCertsFromPEM(own)
		}
	}
	return roots
}
