// Package backfill runs a job until each of its units is over.
//
//	b := backfill.New(backfill.Options{Job: job, Output: o, Sender: sender, …})
//	err := b.Run(ctx)       // ends when no unit is left, or with ctx
//	shown := b.Status(now)  // meanwhile, from any goroutine
//
// A worker claims a unit, asks for its pages one after the other, and commits each page
// together with the checkpoint behind it. Several processes may run the same job: the output
// hands each unit to one of them at a time. Waiting for limits, signing and sending again are
// the Sender's; this package waits for the output and for a unit's next try.
package backfill

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/paginate"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// Options lists what a backfill works with. Limited and Ends may be nil.
type Options struct {
	Job     *jobfile.Job
	Output  Output
	Sender  send.Sender
	Units   iter.Seq2[output.Unit, error]    // of the job
	Anew    bool                             // those that are fetched again are, whether they have changed or not
	Log     func(format string, args ...any) // a line of the log
	Warn    func(format string, args ...any) // a warning in the log
	Limited func() (string, time.Time)       // what holds the job's requests back now, and until when; "": nothing
	Ends    func(Work) time.Time             // simulates what is left; zero: unknown
}

// Output hands out the units of a job and takes their pages, as an output.Job does.
type Output interface {
	AddUnits(ctx context.Context, units iter.Seq2[output.Unit, error], anew bool) (again int64, err error)
	Counts(ctx context.Context) (output.Counts, error)
	Claim(ctx context.Context) (*output.Claim, error)
	Renew(ctx context.Context, c *output.Claim) error
	Commit(ctx context.Context, c *output.Claim, p output.Page) error
	End(ctx context.Context, c *output.Claim, s output.State, from time.Time, reason string) error
}

// Backfill is one job in this process. Make it with New.
type Backfill struct {
	options   Options
	extractor *records.Extractor
	learned   paginate.Learned
	memory    *send.Memory // of answers that are not committed yet
	progress  progress
	paused    atomic.Bool
	noted     atomic.Value  // the last note
	looked    sync.Once     // for empty columns, in the first page
	anew      sync.Once     // for the log, of the first unit that begins again
	warned    atomic.Value  // the last reason that the log has of a unit that is incomplete
	fruitless atomic.Int32  // see mostFruitless
	begun     chan struct{} // is closed when the host has answered, and it is known where its pages begin: until then one worker works
	begin     func()        // closes begun
	patience  output.Patience
	workers   workers
}

// New prepares a backfill; it starts nothing.
func New(o Options) *Backfill {
	b := &Backfill{options: o, memory: send.NewMemory(o.Job.Memory), begun: make(chan struct{})}
	b.begin = sync.OnceFunc(func() { close(b.begun) })
	b.workers = workers{most: o.Job.Workers, changed: signal.New()}
	b.patience.Log, b.patience.Warn, b.patience.Waits = o.Log, o.Warn, "the job waits for its output, and loses nothing"
	return b
}

// errFinished says that no unit is left.
var errFinished = errors.New("no unit is left")

// Run works until no unit is left, or until ctx is done. Then it ends its claims, so that
// another process goes on at their checkpoints. Units that fail are no error.
func (b *Backfill) Run(ctx context.Context) (err error) {
	if b.extractor, err = records.New(b.options.Job); err != nil {
		return err
	}
	err = b.persist(ctx, func(ctx context.Context) error {
		n, err := b.options.Output.AddUnits(ctx, b.options.Units, b.options.Anew)
		if n > 0 {
			b.options.Log("%s to be fetched again", status.Number(int(n), "unit", "units"))
		}
		return err
	})
	if err == nil {
		err = b.count(ctx)
	}
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beside, claimed sync.WaitGroup // claimed: the units
	beside.Go(func() { b.recount(working) })
	if b.progress.counts().Pages > 0 && b.options.Job.Paginate.First != jobfile.UnknownFirst {
		b.begin()
	}
	for {
		c, err := b.next(working)
		if errors.Is(err, errFinished) {
			break
		} else if err != nil {
			stop(err)
			break
		}
		over := make(chan struct{})
		claimed.Go(func() {
			defer close(over)
			defer b.workers.end()
			if err := b.unit(working, c); err != nil {
				stop(err)
			}
		})
		select {
		case <-b.begun:
		case <-over:
		}
	}
	claimed.Wait()
	err = context.Cause(working)
	stop(nil)
	beside.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if counting := b.count(last); err == nil {
		err = counting
	}
	if err == nil && b.Status(time.Now()).Run.Requests == 0 {
		b.options.Log("nothing was left to fetch; --again fetches all units again")
	}
	return err
}

// Pause has the workers of this process wait before their next request, or lets them go on.
func (b *Backfill) Pause(pause bool) { b.paused.Store(pause) }

// Status tells how far the job is.
func (b *Backfill) Status(now time.Time) status.Job {
	s := b.progress.status(now)
	s.Name, s.Kind, s.Output = b.options.Job.Name, "backfill", b.options.Job.Output.String()
	if s.State == "" && b.paused.Load() {
		s.State = status.JobPaused
	}
	if s.State != "" {
		s.Limited, s.Ends = "", time.Time{}
		return s
	}
	s.State = status.JobRunning
	if b.patience.Away() {
		s.Limited = "the output cannot be written"
	}
	var until time.Time
	if b.options.Limited != nil && s.Limited == "" {
		s.Limited, until = b.options.Limited()
	}
	if !s.Ends.IsZero() && s.Ends.Before(until) {
		s.Ends = until.Add(max(s.Ends.Sub(now), 0)) // the rest begins when the requests may go
	}
	return s
}

// count counts the units of all processes.
func (b *Backfill) count(ctx context.Context) error {
	var counts output.Counts
	err := b.persist(ctx, func(ctx context.Context) (err error) {
		counts, err = b.options.Output.Counts(ctx)
		return err
	})
	if err == nil {
		b.progress.set(counts, time.Now())
	}
	return err
}

// countEvery is the time between two counts of the units of all processes.
const countEvery = 2 * time.Second

// estimatePart is the part of the time that estimates may take.
const estimatePart = 50

// recount counts again and again until ctx is done, and estimates the end.
func (b *Backfill) recount(ctx context.Context) {
	var next time.Time
	for now := range clock.Ticks(ctx, countEvery) {
		if counts, err := b.options.Output.Counts(ctx); err == nil { // where it is away, those who write wait and say so
			b.progress.set(counts, time.Now())
		}
		if now.Before(next) {
			continue
		}
		w, simulated := b.progress.work(b.workers.underWay()), time.Time{}
		if b.options.Ends != nil && w.Left > 0 {
			simulated = b.options.Ends(w)
		}
		b.progress.estimate(w, simulated)
		next = now.Add(estimatePart * time.Since(now))
	}
}

// pollPause is the time between two questions for a unit while others work on the last ones.
const pollPause = time.Second

// next is the next unit, when a worker is free for it. It waits while other workers or processes may put units back.
func (b *Backfill) next(ctx context.Context) (*output.Claim, error) {
	if err := b.workers.begin(ctx); err != nil {
		return nil, err
	}
	for {
		var c *output.Claim
		err := b.persist(ctx, func(ctx context.Context) (err error) {
			c, err = b.options.Output.Claim(ctx)
			return err
		})
		if err != nil || c != nil {
			return c, err
		}
		if err := b.count(ctx); err != nil {
			return nil, err
		}
		counts := b.progress.counts()
		if counts.Units.Left() == 0 {
			return nil, errFinished
		}
		if err := clock.Sleep(ctx, min(pollPause, max(time.Until(counts.Earlier), pollPause/10))); err != nil {
			return nil, err
		}
	}
}
