package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
)

// openingLockTimeout bounds the wait for another process that opens the file.
const openingLockTimeout = 20 * time.Second

// fileLock is one process's right to use a file together with other processes. It has three
// locks, which the kernel releases when the process ends:
type fileLock struct {
	path string
	self processInfo
	dir  *os.File // nil: this file system cannot lock directories
	own  *os.File // nil: not locked yet, because nothing can be written
}

// lockFile takes the shared lock on the directory of path, creates this process's own file,
// and takes the opening lock, which leave releases.
func lockFile(ctx context.Context, path string, who processInfo) (l *fileLock, leave func(), err error) {
	dir, err := shareDir(filepath.Dir(path))
	if errors.Is(err, alive.ErrLocked) {
		return nil, nil, heldBy(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", filepath.Dir(path), err)
	}
	l = &fileLock{path: path, dir: dir, self: who}
	if leave, err = openingLock(ctx, path); err == nil {
		if l.own, err = lockOwn(ctx, processFile(path, who.ID), who); err != nil {
			leave()
		}
	}
	if err != nil {
		l.close()
		return nil, nil, err
	}
	return l, leave, nil
}

// lockOwn creates a file and takes its lock. Another process may take the lock and remove
// the file for a moment, to find out whether the owner has ended.
func lockOwn(ctx context.Context, name string, who processInfo) (*os.File, error) {
	f, err := lockAt(ctx, name, 100, time.Millisecond)
	if err == nil {
		writeInfo(f, who)
	}
	return f, err
}

// openingLock keeps all other processes from opening, replacing and moving the file until
// leave is called. It waits for a process that does so now.
func openingLock(ctx context.Context, path string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, openingLockTimeout)
	defer cancel()
	f, err := lockAt(ctx, path+".lock", math.MaxInt, 20*time.Millisecond)
	switch {
	case err != nil && errors.Is(err, ctx.Err()):
		return nil, heldBy(path)
	case err != nil:
		return nil, err
	}
	return func() {
		removeLockFile(f)
		f.Close()
	}, nil
}

// lockAt opens a file, which is made if necessary, and takes its lock, in at most so many attempts.
// The pauses between them grow to the longest.
func lockAt(ctx context.Context, name string, attempts int, longest time.Duration) (*os.File, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wait := time.Millisecond
	for range attempts {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, err
		}
		err = alive.Lock(f, alive.Far)
		if err == nil && alive.IsAt(f, name) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, alive.ErrLocked) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		wait = min(2*wait, longest)
	}
	return nil, fmt.Errorf("locking %s: another process has it", name)
}

// dirUnchanged tells whether the path still leads to the locked directory.
func (l *fileLock) dirUnchanged() bool {
	return l.dir == nil || alive.IsAt(l.dir, filepath.Dir(l.path))
}

// ownFilePresent tells whether this process's own file still exists, for other processes to
// find.
func (l *fileLock) ownFilePresent() bool { return l.own != nil && alive.IsAt(l.own, l.own.Name()) }

// renew takes the locks again if the locked files were moved or removed. If the directory
// was moved and other processes have begun a new file in its place, that file is not
// touched.
func (l *fileLock) renew(ctx context.Context) error {
	if l.dirUnchanged() && l.ownFilePresent() {
		return nil
	}
	if !l.dirUnchanged() {
		if others := otherProcesses(l.path, l.self.ID); len(others) > 0 {
			processInfo := others[0]
			return &Held{Path: l.path, PID: processInfo.PID, Host: processInfo.Host, Since: processInfo.Since, moved: true}
		}
	}
	fresh, leave, err := lockFile(ctx, l.path, l.self)
	if err != nil {
		return err
	}
	defer leave()
	old := *l
	*l = *fresh
	old.close()
	return nil
}

// heldBy tells which process of an older release has the lock, as far as recorded.
func heldBy(path string) *Held {
	h, err := readInfo(path + ".lock")
	if err != nil || h.PID == 0 { // it was removed
		h = lastHolder(path)
	}
	return &Held{Path: path, PID: h.PID, Host: h.Host, Since: h.Since}
}

// release removes this process's own file and releases the locks.
func (l *fileLock) release() {
	if l.ownFilePresent() {
		removeLockFile(l.own)
	}
	l.close()
}

func (l *fileLock) close() {
	for _, f := range []*os.File{l.own, l.dir} {
		if f != nil {
			f.Close()
		}
	}
}
