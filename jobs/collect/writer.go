package collect

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
)

const (
	// writeEvery is the longest time that a record waits to be written.
	writeEvery = time.Second
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
	free     func() // there may be room again

	written atomic.Int64 // records

	mu      sync.Mutex
	batch   batch
	writing bool      // a call of add writes
	pruned  time.Time // is that call's
}

// batch holds what one transaction writes.
type batch struct {
	records []output.Record
	targets []output.Target
	answers []*send.Answer // which the records are parts of; nil where there was none
}

// add takes the records of an answer. One call at a time writes, for as long as others add something.
// The end of ctx ends its waits for an output that is away: then the last batch has lastWrites.
func (w *writer) add(ctx context.Context, list []output.Record, t output.Target, a *send.Answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch.records = append(w.batch.records, list...)
	w.batch.targets = append(w.batch.targets, t)
	w.batch.answers = append(w.batch.answers, a)
	if w.writing {
		return nil
	}
	for w.writing = true; len(w.batch.targets) > 0; {
		w.mu.Unlock()
		_ = clock.Sleep(ctx, writeEvery) // so that a transaction has more
		w.mu.Lock()
		b := w.batch
		w.batch = batch{}
		w.mu.Unlock()
		err := w.write(ctx, b)
		w.mu.Lock()
		if err != nil {
			return err // nothing is written any more
		}
	}
	w.writing = false
	return nil
}

// write writes a batch, again and again while the output is away, counts and shows its records, and deletes old ones.
func (w *writer) write(ctx context.Context, b batch) error {
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
	w.written.Add(int64(len(b.records)))
	w.free()
	if now := time.Now(); w.options.Job.Collect.Keep > 0 && now.Sub(w.pruned) >= pruneEvery {
		w.pruned = now
		w.prune(ctx, now)
	}
	for i := range b.records {
		if b.records[i].Rejected != "" || w.options.Written == nil {
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
