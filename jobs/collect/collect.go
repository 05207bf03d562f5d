// Package collect asks the same targets again and again, each at its time.
//
//	c, err := collect.New(ctx, collect.Options{Job: job, Output: o, Sender: sender, …})
//	err = c.Run(ctx)        // until ctx is done; then it writes what it has
//	shown := c.Status(now)
//
// schedule decides when a target is asked, writer writes records in batches. A target that does
// not answer holds up no other: it is asked ever more rarely, and at most half of the workers
// wait for targets that have failed. Records that are not written yet are bounded by the job's
// memory: when it is full, rounds are missed and counted, and nothing is dropped.
package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// Options lists what a collection works with. Written and Limited may be nil.
type Options struct {
	Job     *jobfile.Job
	Output  Output
	Sender  send.Sender
	Units   iter.Seq2[output.Unit, error]    // the items of the job
	Log     func(format string, args ...any) // a line of the log
	Warn    func(format string, args ...any) // a warning in the log
	Written func(r *output.Record) error     // is called for each record, after it was written
	Limited func() (string, time.Time)       // what holds the job's requests back now; "": nothing
}

// Output keeps records and what is remembered of targets, as an output.Job does.
type Output interface {
	Targets(ctx context.Context) (map[string]output.Target, error)
	Append(ctx context.Context, records []output.Record, targets []output.Target) error
	Prune(ctx context.Context, before time.Time, replaced bool, n int) (int64, error)
}

// Collector is one collection. Make it with New.
type Collector struct {
	options   Options
	extractor *records.Extractor
	writer    *writer
	memory    *send.Memory  // of answers that are not written yet
	wake      signal.Signal // something has changed that Run waits for

	mu       sync.Mutex
	schedule *schedule
	known    map[string]output.Target
	underWay int
	failing  int // of those under way, targets that have failed before
	began    time.Time
	paused   bool
}

// maxTimeout is the longest time that a request may take.
const maxTimeout = 30 * time.Second

// New reads the targets of a job, and what is remembered of them.
func New(ctx context.Context, o Options) (*Collector, error) {
	c := &Collector{options: o, memory: send.NewMemory(o.Job.Memory), wake: signal.New(), began: time.Now()}
	var err error
	if c.extractor, err = records.New(o.Job); err != nil {
		return nil, err
	}
	if c.known, err = o.Output.Targets(ctx); err != nil {
		return nil, err
	}
	list, err := targetsOf(o.Job, o.Units)
	if err != nil {
		return nil, err
	}
	before := "" // of a batch that there was not: the list of items may have changed, and with it the batches that they are in
	if o.Job.Collect.Batch.Param != "" {
		before = union(c.known)
	}
	kept := make(map[string]output.Target, len(list))
	for _, t := range list {
		was, has := c.known[t.key]
		if !has {
			was = output.Target{Key: t.key, Hash: before}
		}
		kept[t.key], t.failures = was, was.Failures
	}
	c.known = kept
	if len(list) == 0 {
		o.Warn("%s has no items, so nothing is asked", o.Job.Name)
	}
	c.schedule = newSchedule(o.Job.Collect.Every, list, c.now())
	c.writer = &writer{options: o, free: c.wake.Send}
	c.writer.patience.Log, c.writer.patience.Warn, c.writer.patience.Waits = o.Log, o.Warn, "the collection keeps its records until the output can be written"
	return c, nil
}

// now is the time by the clock of this machine as it was when the collection was made: where that
// clock jumps, the rounds go on.
func (c *Collector) now() time.Time { return c.began.Round(0).Add(time.Since(c.began)) }

// Run asks targets until ctx is done. Then it writes what it has.
func (c *Collector) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	asked, stop := context.WithCancel(ctx)
	defer stop()
	var failed error // of the writer, one of whose calls at most fails
	for asked.Err() == nil {
		for t := c.begin(c.now()); t != nil; t = c.begin(c.now()) {
			asking.Go(func() {
				if err := c.ask(asked, t); err != nil {
					failed = err
					stop()
				}
			})
		}
		select {
		case <-time.After(c.rest(c.now())):
		case <-c.wake:
		case <-asked.Done():
		}
	}
	asking.Wait()
	return failed
}

// idle is the time that Run waits if nothing is due.
const idle = time.Minute

// rest is the time until the next target is due.
func (c *Collector) rest(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if due := &c.schedule.due; !due.Empty() && due.Top().at.After(now) {
		return min(due.Top().at.Sub(now), idle)
	}
	return idle // all are under way, or there is no room: wake says when there is
}

// begin is the next target that is due and for which there is room.
func (c *Collector) begin(now time.Time) *target {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused || c.underWay >= c.options.Job.Workers || c.memory.Full() {
		return nil
	}
	t := c.schedule.begin(now)
	for ; t != nil && t.failures > 0 && c.failing >= max(c.options.Job.Workers/2, 1); t = c.schedule.begin(now) {
		c.schedule.miss(t, now) // it must not hold up those behind it
	}
	if t == nil {
		return nil
	}
	c.underWay++
	if t.failures > 0 {
		c.failing++
	}
	return t
}

// ask asks a target, and hands its records to the writer. The error is the writer's.
func (c *Collector) ask(ctx context.Context, t *target) error {
	c.mu.Lock()
	known, wasFailing := c.known[t.key], t.failures > 0
	c.mu.Unlock()
	every := c.options.Job.Collect.Every
	limited, cancel := context.WithTimeout(ctx, min(every, maxTimeout))
	defer cancel()
	next, found, a, err := c.fetch(limited, t, known)
	now := c.now()
	var f *send.Failure
	held := errors.As(err, &f) && f.Held
	c.mu.Lock()
	c.underWay--
	if wasFailing {
		c.failing--
	}
	switch {
	case ctx.Err() != nil && err != nil: // the collection ends
		c.schedule.put(t, 1, now)
	case held:
		c.schedule.miss(t, now)
	default:
		c.schedule.end(t, now, err == nil)
		if next.Failures, next.Reason = t.failures, ""; err != nil {
			next.Reason = err.Error()
		}
		c.known[t.key] = next
	}
	failures := t.failures
	c.mu.Unlock()
	if err != nil && !held && ctx.Err() == nil && failures == 1 {
		c.options.Warn("target %s does not answer as it should, and is asked more rarely until it does: %v", t.key, err)
	}
	if err == nil && wasFailing {
		c.options.Log("target %s answers again", t.key)
	}
	c.wake.Send()
	if held || ctx.Err() != nil && err != nil {
		a.Release()
		return nil
	}
	return c.writer.add(ctx, found, next, a)
}

// Pause has no more targets asked, or lets the collection go on.
func (c *Collector) Pause(pause bool) {
	c.mu.Lock()
	c.paused = pause
	c.mu.Unlock()
	c.wake.Send()
}

// Status tells how the collection goes.
func (c *Collector) Status(now time.Time) status.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := status.Job{
		Name: c.options.Job.Name, Kind: "collect", State: status.JobRunning, Output: c.options.Job.Output.String(), Started: c.began,
		Records: c.writer.written.Load(), Round: &status.JobRound{
			Every: c.options.Job.Collect.Every.Seconds(), Targets: len(c.known), Missed: c.schedule.missed, Lag: c.schedule.lag.Seconds(),
		},
	}
	s.Round.Number = c.schedule.number(now) - c.schedule.number(c.began) + 1
	if took := now.Sub(c.began).Seconds(); took > 0 {
		s.Rate = float64(s.Records) / took
	}
	for _, one := range c.known {
		if one.Failures > 0 {
			s.Round.Failing++
		}
	}
	switch {
	case c.paused:
		s.State = status.JobPaused
	case c.writer.patience.Away():
		s.Limited = "the output cannot be written"
	case c.options.Limited != nil:
		s.Limited, _ = c.options.Limited()
	}
	return s
}

// Text is the state of a collection as a line of the log.
func Text(s status.Job) string {
	return fmt.Sprintf("%s: round %d of %d targets, %d failing; %d records written, %d rounds of targets missed, the last round at most %.1f s late",
		s.Name, s.Round.Number, s.Round.Targets, s.Round.Failing, s.Records, s.Round.Missed, s.Round.Lag)
}
