package store

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// File is a store in one file on this machine, which several processes may use at the same
// time. Data survives kill -9 and a loss of power once Exchange, Put or Record has returned
// without an error. It is safe for concurrent use.
//
// When the disk fails, writers get the error at once, Health returns it, and the next write
// tries again, at most once a second. Everything after the last success counts as lost: the
// file is opened again before further data counts as saved.
type File struct {
	committer
	budgets budgets           // used by the committer only
	members map[string]Member // of this process; guarded by committer.mu
	version atomic.Uint64     // of the documents
}

// OpenFile opens the file at path, or creates it and its directory. An unusable file is
// moved aside and a new one is created, which Findings and Log report, unless o.Strict is
// set. If the file cannot be written, it is read as far as possible and Health reports why,
// unless o.Strict is set. The error says what to do.
func OpenFile(ctx context.Context, path string, o FileOptions) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Counts <= 0 {
		o.Counts = 200_000
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	o.Roll = o.Roll.orDefault()
	path, err := prepareDir(path)
	if !plainID(o.Instance) {
		o.Instance = rand.Text()
	}
	host, _ := os.Hostname()
	who := processInfo{ID: o.Instance, Name: o.Name, PID: os.Getpid(), Host: host, Since: o.Now()}
	f := &File{members: map[string]Member{}}
	log := &fileLog{path: path, now: o.Now, logf: o.Log}
	f.opener = opener{path: path, o: o, log: log, lock: &fileLock{path: path, self: who}}
	f.maintenance = maintenance{path: path, o: o, log: log}
	f.budgets = budgets{path: path, own: o.Instance, log: log}
	if err == nil {
		err = f.begin(ctx)
	}
	if isUnwritable(err) && !o.Strict {
		err = f.openReadOnly(ctx, err)
	}
	if err != nil {
		f.setProbe(nil)
		f.lock.release()
		return nil, advise(path, err)
	}
	return f, nil
}

// Close saves pending writes and releases the file.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	f.done.Wait()
	var err error
	if d := f.disk.Swap(nil); d != nil {
		// Readers may still use the log: it stays and is read at the next open. Other
		// processes need it.
		if !d.readOnly && len(f.others()) == 0 {
			if err = d.checkpoint(); errors.Is(err, errReading) {
				err = nil
			}
		}
		err = errors.Join(err, d.close())
	}
	f.setProbe(nil)
	f.lock.release()
	if err != nil {
		return advise(f.path, err)
	}
	return nil
}

// Health returns whether the file can be written.
func (f *File) Health() Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

// Several tells whether other processes use the file.
func (f *File) Several() bool { return len(f.others()) > 0 }

// Damage returns what was moved aside.
func (f *File) Damage() Damage { return f.log.damaged() }

// Path is the file's path.
func (f *File) Path() string { return f.path }
