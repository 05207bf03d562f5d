package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// writeRequest is the write of one caller.
type writeRequest struct {
	do   func(d *database, now time.Time) error
	done chan error
}

// Health is the state of writing. The zero value means that the file can be written.
type Health struct {
	Since time.Time // of the first failure; zero: what failed before has been over for settleTime
	Tried time.Time // time of the last attempt or, without an error, of the first success since a failure
	Err   error     // error of the last attempt
}

const (
	// retryInterval is the minimum time between attempts after a failure.
	retryInterval = time.Second
	// settleTime is the time without a failure after which the file counts as writable again:
	// a full disk has room for a small write now and then.
	settleTime = 5 * time.Second
)

// settles tells whether a success now ends what failed before.
func (h *Health) settles(now time.Time) bool {
	return h.Err == nil && !h.Since.IsZero() && now.Sub(h.Tried) >= settleTime
}

var errOpening = errors.New("the state file is being opened")

// maxGroup bounds the requests of one transaction.
const maxGroup = 512

// write hands do to the goroutine that commits, and waits until its data is on the disk. Requests that
// arrive during a commit are committed together in the next one. If ctx ends first, do may
// still run later: it must own all data that it uses.
func (f *File) write(ctx context.Context, do func(d *database, now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &writeRequest{do: do, done: make(chan error, 1)}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	if t := f.health; t.Err != nil {
		if since := f.o.Now().Sub(t.Tried); since >= 0 && since < retryInterval {
			f.mu.Unlock()
			return t.Err
		}
	}
	f.pending = append(f.pending, w)
	if !f.running {
		f.running = true
		f.done.Go(f.commit)
	}
	f.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit writes pending requests until there are none.
func (f *File) commit() {
	for {
		f.mu.Lock()
		group := f.pending[:min(len(f.pending), maxGroup)]
		f.pending = f.pending[len(group):]
		well := f.health.Err == nil && !f.closed
		if len(group) == 0 && (!well || !f.maintenance.due(f.o.Now())) {
			f.running, f.pending = false, nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		if len(group) > 0 {
			err := f.writeGroup(group)
			for _, w := range group {
				w.done <- err
			}
			if err != nil {
				continue
			}
		}
		if well && f.maintenance.due(f.o.Now()) {
			chore := &writeRequest{do: func(d *database, now time.Time) error { return f.maintenance.step(d, now, f.done.Go) }}
			_ = f.writeGroup([]*writeRequest{chore})
		}
	}
}

// writeGroup writes a group in one transaction and records the result.
func (f *File) writeGroup(group []*writeRequest) error {
	err := f.commitGroup(group)
	if err != nil && isDamage(err) && !f.o.Strict {
		// Damage was found during use: saved data is lost, but the group is written to the
		// new file.
		if err = f.replaceDamaged(err); err == nil {
			err = f.commitGroup(group)
		}
	}
	if err != nil {
		err = advise(f.path, err)
	}
	return f.recordResult(err, "")
}

// recordResult records how a write ended, and logs the first failure, with more about it, and its end.
func (f *File) recordResult(err error, more string) error {
	if err != nil {
		err = told{err}
	}
	now := f.o.Now()
	f.mu.Lock()
	before := f.health
	switch {
	case err != nil:
		f.health = Health{Since: cmp.Or(before.Since, now), Tried: now, Err: err}
	case before.Err != nil:
		f.health.Tried, f.health.Err = now, nil
	case before.settles(now):
		f.health = Health{}
	}
	f.mu.Unlock()
	switch {
	case err == nil && before.settles(now):
		f.log.logf("state file %s: it can be written again, after %v", f.path, before.Tried.Sub(before.Since).Round(time.Second))
	case err != nil && before.Since.IsZero():
		f.log.logf("%v; nothing is saved until that is over%s", err, more)
	}
	return err
}

func (f *File) commitGroup(group []*writeRequest) (err error) {
	ctx := context.Background()
	d, err := f.ensureOpen(ctx, f.o.Now())
	if err != nil {
		return err
	}
	begun := false
	defer func() {
		if err == nil {
			return
		}
		if isTemporary(err) {
			if _, e := d.conn.ExecContext(ctx, "ROLLBACK"); !begun || e == nil {
				return
			}
		}
		// It is unknown what the disk has, so the open connections are not used again.
		f.closeDisk(isUncertain(err))
	}()
	if err := d.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	begun = true
	now := f.o.Now() // no other process writes from here on, so that times have the order of the writes
	for _, w := range group {
		if err := w.do(d, now); err != nil {
			return err
		}
	}
	if err := f.fail("commit"); err != nil {
		return err
	}
	return d.run("COMMIT")
}

// ensureOpen returns the open file. It opens the file again after a failure, or when it was
// removed or replaced.
func (f *File) ensureOpen(ctx context.Context, now time.Time) (*database, error) {
	d := f.disk.Load()
	if d != nil && !d.readOnly {
		if since := now.Sub(f.lastChecked); since >= 0 && since < retryInterval {
			return d, nil
		}
		f.lastChecked = now
		if err := f.lock.renew(ctx); err != nil {
			f.closeDisk(true)
			return nil, err
		}
		if there, err := os.Lstat(f.path); err == nil && os.SameFile(there, d.info) {
			return d, nil
		}
		f.log.logf("state file %s: it was removed or replaced while it was in use", f.path)
		f.closeDisk(true)
	}
	leave, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d = f.disk.Load()
	// The log's data may be in the system's cache only, if a sync failed: so it is written
	// again, into the file itself.
	err = f.fail("checkpoint")
	if err == nil {
		err = d.checkpoint()
	}
	if err == nil && f.maybeLost {
		err = d.newGeneration(ctx, now)
	}
	if err != nil {
		f.closeDisk(true)
		return nil, fmt.Errorf("opening it anew: %w", err)
	}
	f.maybeLost = false
	return d, nil
}

// closeDisk closes the file. If data may be lost, the next open begins a new generation.
func (f *File) closeDisk(lost bool) {
	f.maybeLost = f.maybeLost || lost
	if d := f.disk.Swap(nil); d != nil {
		_ = d.close() // its error would tell nothing new
	}
}

// replaceDamaged moves a damaged file aside, unless another process has done so.
func (f *File) replaceDamaged(why error) error {
	f.closeDisk(true)
	leave, err := openingLock(context.Background(), f.path)
	if err != nil {
		return err
	}
	defer leave()
	if there, err := os.Lstat(f.path); f.info == nil || err == nil && !os.SameFile(there, f.info) {
		return nil
	}
	return f.setAside(why)
}

// reading calls do with the connections for reading. Damage is reported by a write, which
// moves the file aside; rows that were read before count.
func (f *File) reading(ctx context.Context, do func(ctx context.Context, d *database) error) error {
	f.mu.Lock()
	closed, trouble := f.closed, f.health
	f.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if trouble.Err == nil {
		trouble.Err = errOpening
	}
	d := f.disk.Load()
	if d == nil {
		return trouble.Err
	}
	held, release, ok := d.acquire(ctx)
	if !ok {
		return trouble.Err
	}
	err := do(held, d)
	release()
	switch {
	case err == nil || ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case d.openCtx.Err() != nil:
		return trouble.Err
	}
	if isDamage(err) {
		return f.write(ctx, func(now *database, _ time.Time) error {
			if now != d {
				return nil // the file was replaced meanwhile
			}
			return err
		})
	}
	return advise(f.path, err)
}

// openReadOnly begins with a file that cannot be opened for writing, and reads what can be
// read. The next write tries again, as after any other failure.
func (f *File) openReadOnly(ctx context.Context, why error) error {
	d, err := f.openForReading(ctx)
	if errors.Is(err, errNewer) {
		return err
	}
	if err == nil {
		f.disk.Store(d)
	}
	f.maybeLost = true
	known := "what it kept was read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		known = "there is none yet, so nothing is known of before"
	case err != nil:
		known = fmt.Sprintf("what it kept cannot be read either (%v), so limits begin as if nothing was used", err)
	}
	_ = f.recordResult(advise(f.path, why), ": "+known+"; what limits use, what is learned, the history and a new CA are lost if this process ends before")
	return nil
}

// retryOpen tries to open the file for writing, once a second, without waiting for a write.
func (f *File) retryOpen(ctx context.Context) {
	_ = f.write(ctx, func(*database, time.Time) error { return nil }) // Health has the result
}

// setRowsAside is setRowAside for rows found by a reader. With Strict the first row is an
// error.
func (f *File) setRowsAside(ctx context.Context, list []damagedRow) error {
	if len(list) == 0 {
		return nil
	}
	if f.o.Strict {
		return advise(f.path, damagedf("a row of %s (%v) is damaged", list[0].table, list[0].names))
	}
	for some := range slices.Chunk(list, maxRowsPerStep) {
		// A failed write is reported by Health. The rows are ignored in any case.
		_ = f.write(ctx, func(d *database, now time.Time) error {
			for _, one := range some {
				if err := f.log.setRowAside(d, one, now.UnixMicro()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}
