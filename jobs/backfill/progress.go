package backfill

import (
	"sync"
	"sync/atomic"
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
	requests atomic.Int64 // that this process has sent, with those that failed
	units    atomic.Int64 // that this process has ended

	mu      sync.Mutex
	total   output.Counts // of all processes, as counted last
	began   time.Time
	samples []sample
	held    string // why abide refused a request last
	heldAt  time.Time
	noted   string // the last note
}

// sample is the number of records at a time.
type sample struct {
	at      time.Time
	records int64
}

func (p *progress) asked(a *send.Answer, f *send.Failure) {
	if a != nil {
		p.requests.Add(int64(a.Attempts))
	} else if f != nil {
		p.requests.Add(int64(max(f.Attempts, 1)))
	}
}

func (p *progress) page(records int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total.Records += int64(records)
	p.total.Pages++
}

func (p *progress) holdBack(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.heldAt = why, time.Now()
}

// note writes a note to the log, unless it was the last one.
func (p *progress) note(text string, log func(string, ...any)) {
	p.mu.Lock()
	again := text == p.noted
	p.noted = text
	p.mu.Unlock()
	if !again {
		log("%s", text)
	}
}

func (p *progress) counts() output.Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// set takes the counts of all processes.
func (p *progress) set(counts output.Counts, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = now
	}
	p.total = counts
	p.samples = append(p.samples, sample{now, counts.Records})
	for len(p.samples) > 2 && now.Sub(p.samples[0].at) > rateWindow {
		p.samples = p.samples[1:]
	}
}

// status tells how far the job is. done is the work from which the rest is estimated.
func (p *progress) status(now time.Time) (s status.Job, done work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = status.Job{State: status.JobRunning, Units: UnitsOf(p.total), Pages: p.total.Pages, Records: p.total.Records, Rejects: p.total.Rejects, Started: p.began}
	if n := len(p.samples); n > 1 && p.samples[n-1].at.After(p.samples[0].at) {
		s.Rate = float64(p.samples[n-1].records-p.samples[0].records) / p.samples[n-1].at.Sub(p.samples[0].at).Seconds()
	}
	if now.Sub(p.heldAt) < holdShown {
		s.Limited = p.held
	}
	return s, work{units: p.units.Load(), requests: p.requests.Load(), took: now.Sub(p.began), left: s.Units.Left()}
}

// UnitsOf are the counts of units as they are shown.
func UnitsOf(c output.Counts) status.JobUnits {
	u := status.JobUnits{
		Waiting: c.Units[output.Waiting], Running: c.Units[output.Running], Done: c.Units[output.Done],
		Failed: c.Units[output.Failed], Incomplete: c.Units[output.Incomplete],
	}
	u.Total = u.Waiting + u.Running + u.Done + u.Failed + u.Incomplete
	return u
}

// work counts what was done so far, from which the rest is estimated. Pure.
type work struct {
	units    int64 // that this process has ended
	requests int64 // that this process has sent
	took     time.Duration
	left     int64 // units of all processes
}

// leastUnits is the number of units that must be over before there is an estimate.
const leastUnits = 3

// requestsLeft estimates the requests that the units that are left need, if they need as many
// as those that are over; 0: unknown.
func (w work) requestsLeft() int64 {
	if w.units < leastUnits {
		return 0
	}
	return (w.requests*w.left + w.units - 1) / w.units
}

// ends estimates the end of the job: by the limit, or else by the rate so far. The zero time
// is unknown.
func (w work) ends(now, byLimit time.Time) time.Time {
	if w.units < leastUnits || w.took <= 0 {
		return time.Time{}
	}
	if !byLimit.IsZero() {
		return byLimit
	}
	each := float64(w.took) / float64(w.units)
	rest := each * float64(w.left)
	if rest > float64(10*365*24*time.Hour) {
		return time.Time{}
	}
	return now.Add(time.Duration(rest))
}
