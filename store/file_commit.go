package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// work is what one caller wants to be written.
type work struct {
	do   func(d *disk, now time.Time) error
	done chan error
}

var errOpening = errors.New("the state file is being opened")

// together is how many callers one transaction has at most.
const together = 512

// write hands do to the committer and waits until what it wrote is on the disk. All
// that come while a commit is under way are committed together in the next one. When
// ctx ends first, do may still be done later: it owns all that it uses.
func (f *File) write(ctx context.Context, do func(d *disk, now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &work{do: do, done: make(chan error, 1)}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	if t := f.trouble; t.Err != nil {
		if since := f.o.Now().Sub(t.Tried); since >= 0 && since < again {
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

// commit is the committer: it goes on as long as there is something to do.
func (f *File) commit() {
	for {
		f.mu.Lock()
		group := f.pending[:min(len(f.pending), together)]
		f.pending = f.pending[len(group):]
		well := f.trouble.Err == nil && !f.closed
		if len(group) == 0 && (!well || !f.chores.due(f.o.Now())) {
			f.running, f.pending = false, nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		if len(group) > 0 {
			err := f.save(group)
			for _, w := range group {
				w.done <- err
			}
			if err != nil {
				continue
			}
		}
		if well && f.chores.due(f.o.Now()) {
			chore := &work{do: f.chore}
			_ = f.save([]*work{chore})
		}
	}
}

// save writes what a group wants, in one transaction, and notes how that went.
func (f *File) save(group []*work) error {
	now := f.o.Now()
	err := f.try(group, now)
	if err != nil && damaged(err) && !f.o.Strict {
		// It was met while it is in use. What was kept is lost, but not what comes.
		if err = f.replace(err); err == nil {
			err = f.try(group, now)
		}
	}
	if err != nil {
		err = advise(f.path, err)
	}
	f.note(err)
	return err
}

func (f *File) note(err error) {
	now := f.o.Now()
	f.mu.Lock()
	before := f.trouble
	switch {
	case err == nil:
		f.trouble = Health{}
	case before.Err == nil:
		f.trouble = Health{Since: now, Tried: now, Err: err}
	default:
		f.trouble = Health{Since: before.Since, Tried: now, Err: err}
	}
	f.mu.Unlock()
	switch {
	case err == nil && before.Err != nil:
		f.find("state file %s: it can be written again, after %v", f.path, now.Sub(before.Since).Round(time.Second))
	case err != nil && before.Err == nil:
		f.find("%v; nothing is saved until that is over", err)
	}
}

func (f *File) try(group []*work, now time.Time) (err error) {
	ctx := context.Background()
	d, err := f.ready(ctx, now)
	if err != nil {
		return err
	}
	begun := false
	defer func() {
		if err == nil {
			return
		}
		if passing(err) {
			if begun {
				if _, e := d.conn.ExecContext(ctx, "ROLLBACK"); e == nil {
					return
				}
			} else {
				return
			}
		}
		// Nobody knows what the disk has of it. Nothing that was open is used again.
		f.forget(doubtful(err))
	}()
	if err := d.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	begun = true
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

// ready answers the open file, opened anew if it had to be closed or if somebody has
// taken it away.
func (f *File) ready(ctx context.Context, now time.Time) (*disk, error) {
	d := f.disk.Load()
	if d != nil && !d.readOnly {
		if since := now.Sub(f.chores.looked); since >= 0 && since < again {
			return d, nil
		}
		f.chores.looked = now
		if err := f.lock.renew(ctx); err != nil {
			f.forget(true)
			return nil, err
		}
		if there, err := os.Lstat(f.path); err == nil && os.SameFile(there, d.info) {
			return d, nil
		}
		f.find("state file %s: somebody has removed or replaced it while it was in use", f.path)
		f.forget(true)
	}
	if f.lock.own == nil { // the directory may not be there either
		if _, err := settle(f.path); err != nil {
			return nil, err
		}
		if err := f.fail("lock"); err != nil {
			return nil, err
		}
	}
	if err := f.lock.renew(ctx); err != nil {
		return nil, err
	}
	leave, err := section(ctx, f.path)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := f.connect(ctx); err != nil {
		return nil, err
	}
	d = f.disk.Load()
	// What the log has may be in the memory of the machine only, when it could not be
	// written through: so it is written once more, into the file itself.
	err = f.fail("checkpoint")
	if err == nil {
		err = d.checkpoint()
	}
	if err == nil && f.chores.lost {
		err = d.begin(ctx, now)
	}
	if err != nil {
		f.forget(true)
		return nil, fmt.Errorf("opening it anew: %w", err)
	}
	f.chores.lost = false
	return d, nil
}

// forget closes the file. If something may be lost, the next time that it is opened
// is a new generation.
func (f *File) forget(lost bool) {
	f.chores.lost = f.chores.lost || lost
	if d := f.disk.Swap(nil); d != nil {
		_ = d.close() // whatever that says, it is not believed
	}
}

// replace sets a file aside that turned out to be damaged, unless another process has
// done so already.
func (f *File) replace(why error) error {
	f.forget(true)
	leave, err := section(context.Background(), f.path)
	if err != nil {
		return err
	}
	defer leave()
	if there, err := os.Lstat(f.path); f.info == nil || err == nil && !os.SameFile(there, f.info) {
		return nil
	}
	return f.setAside(why)
}

// reading calls do with the connections that read. What is damaged is told to the
// committer, who sets it aside: what was read until then is all there is.
func (f *File) reading(ctx context.Context, do func(ctx context.Context, d *disk) error) error {
	f.mu.Lock()
	closed, trouble := f.closed, f.trouble
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
	held, release, ok := d.hold(ctx)
	if !ok {
		return trouble.Err
	}
	err := do(held, d)
	release()
	switch {
	case err == nil || ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case d.open.Err() != nil:
		return trouble.Err
	}
	if damaged(err) {
		return f.write(ctx, func(now *disk, _ time.Time) error {
			if now != d {
				return nil // it is another file by now
			}
			return err
		})
	}
	return advise(f.path, err)
}
