package backfill

import (
	"cmp"
	"sync"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/status"
)

const (
	// rateWindow is the time over which the rate of records is measured.
	rateWindow = 30 * time.Second
	// holdShown is the time for which a refusal of abide is shown as what limits the job.
	holdShown = 10 * time.Second
)

// progress counts what this process has done of a job, and how far the job is. Safe for
// concurrent use.
type progress struct {
	mu      sync.Mutex
	total   output.Counts // of all processes, as counted last
	run     status.JobRun // of this process; its requests with those that failed
	units   int64         // that this process has ended
	began   time.Time
	last    time.Time // of the last answer
	ends    time.Time // estimated; zero: unknown
	samples []sample
	held    string // why abide refused a request last
	heldAt  time.Time
}

// sample is the number of records at a time.
type sample struct {
	at      time.Time
	records int64
}

func (p *progress) asked(a *send.Answer, f *send.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if f != nil {
		a = &send.Answer{Attempts: max(f.Attempts, 1)}
	}
	p.run.Requests += int64(a.Attempts)
}

func (p *progress) page(records int, rejected, replaced int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total.Records += int64(records)
	p.total.Pages++
	p.run.Pages, p.run.Records = p.run.Pages+1, p.run.Records+int64(records)-rejected
	p.run.Rejects, p.run.Replaced = p.run.Rejects+rejected, p.run.Replaced+replaced
}

// note notes something, while nobody else does.
func (p *progress) note(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
}

func (p *progress) counts() (all output.Counts) {
	p.note(func() { all = p.total })
	return all
}

// set takes the counts of all processes.
func (p *progress) set(counts output.Counts, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.total = cmp.Or(p.began, now), counts
	p.samples = append(p.samples, sample{now, counts.Records})
	for len(p.samples) > 2 && now.Sub(p.samples[0].at) > rateWindow {
		p.samples = p.samples[1:]
	}
}

// status tells how far the job is.
func (p *progress) status(now time.Time) status.Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, run := p.total.Job, p.run
	s.State, s.Ends, s.Started, s.Run = s.Units.Ended(), p.ends, p.began, &run
	if n := len(p.samples); n > 1 && p.samples[n-1].at.After(p.samples[0].at) {
		s.Rate = float64(p.samples[n-1].records-p.samples[0].records) / p.samples[n-1].at.Sub(p.samples[0].at).Seconds()
	}
	if now.Sub(p.heldAt) < holdShown {
		s.Limited = p.held
	}
	return s
}

// Work counts what this process has done, from which the rest is estimated.
type Work struct {
	Began, Last time.Time // of the process, and of the last answer
	Requests    int64     // that were sent
	Left        int64     // requests that are left of all processes, if the other units need as many; 0: unknown
}

// leastUnits is the number of units that must be over before there is an estimate.
const leastUnits = 3

// work returns what was done while so many units are under way in this process. These are half done, in the mean.
func (p *progress) work(underWay int) Work {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := Work{Began: p.began, Last: p.last, Requests: p.run.Requests}
	if n := p.units; n >= leastUnits {
		half := min(int64(underWay), p.total.Units.Running)
		w.Left = (w.Requests*(2*p.total.Units.Left()-half) + 2*n + half - 1) / (2*n + half)
	}
	return w
}

// estimate notes when the job ends: as simulated, or, where that is not known, at the rate so far.
func (p *progress) estimate(w Work, simulated time.Time) {
	if rest := w.Last.Sub(w.Began).Seconds() / float64(max(w.Requests, 1)) * float64(w.Left); simulated.IsZero() && w.Left > 0 && rest < (10*365*24*time.Hour).Seconds() {
		simulated = w.Last.Add(time.Duration(rest * float64(time.Second)))
	}
	p.note(func() { p.ends = simulated })
}
