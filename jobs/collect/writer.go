package collect

import (
	"context"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
)

const (
	// writeEvery is the longest time that a record waits to be written.
	writeEvery = time.Second
	// writeAtOnce is about the largest number of records of one transaction.
	writeAtOnce = 2000
	// lastWrites bounds the time of the output for what is written at the end.
	lastWrites = 10 * time.Second
	// pruneEvery is the time between two deletions of old records, and pruneAtOnce the number
	// that one statement deletes.
	pruneEvery  = 10 * time.Minute
	pruneAtOnce = 10_000
)

// writer writes records and what is remembered of targets, in batches.
type writer struct {
	options  Options
	patience output.Patience
	free     func()        // there may be room again
	changed  signal.Signal // wakes run

	mu      sync.Mutex
	batch   batch
	written int64 // records
	closed  bool
}

// batch holds what one transaction writes.
type batch struct {
	records []output.Record
	targets []output.Target
	answers []*send.Answer // which the records are parts of; nil where there was none
}

// add takes the records of an answer.
func (w *writer) add(list []output.Record, t output.Target, a *send.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch.records = append(w.batch.records, list...)
	w.batch.targets = append(w.batch.targets, t)
	w.batch.answers = append(w.batch.answers, a)
	if len(w.batch.records) >= writeAtOnce {
		w.changed.Send()
	}
}

// close has run write what there is, and end.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Send()
}

func (w *writer) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// take takes what is to be written now.
func (w *writer) take() (b batch, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, w.batch = w.batch, batch{}
	return b, w.closed
}

// run writes until close. ctx ends the waits for an output that is away: then the last batch
// has lastWrites.
func (w *writer) run(ctx context.Context) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	pruned := time.Time{}
	for {
		select {
		case <-tick.C:
		case <-w.changed:
		}
		b, closed := w.take()
		if err := w.write(ctx, b); err != nil {
			return err
		}
		if closed {
			return nil
		}
		if now := time.Now(); w.options.Job.Collect.Keep > 0 && now.Sub(pruned) >= pruneEvery {
			pruned = now
			w.prune(ctx, now)
		}
	}
}

// write writes a batch, again and again while the output is away, and then counts and shows its records.
func (w *writer) write(ctx context.Context, b batch) error {
	if len(b.records)+len(b.targets) == 0 {
		return nil
	}
	err := w.patience.Write(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
		defer cancel()
		return w.options.Output.Append(ctx, b.records, b.targets)
	})
	if err != nil {
		return err
	}
	for _, a := range b.answers {
		a.Release()
	}
	w.mu.Lock()
	w.written += int64(len(b.records))
	w.mu.Unlock()
	w.free()
	if w.options.Written == nil {
		return nil
	}
	for i := range b.records {
		if b.records[i].Rejected != "" {
			continue
		}
		if err := w.options.Written(&b.records[i]); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes records that are older than the job keeps them. Where only changes are stored, a
// record is as old as the one that replaced it.
func (w *writer) prune(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		n, err := w.options.Output.Prune(ctx, now.Add(-w.options.Job.Collect.Keep), !w.options.Job.Collect.All, pruneAtOnce)
		if err != nil {
			w.options.Warn("old records could not be deleted: %v", err)
		}
		if err != nil || n < pruneAtOnce {
			return
		}
	}
}
