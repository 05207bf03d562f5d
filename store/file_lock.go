package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
	"github.com/abide-proxy/abide/internal/clock"
)

// openingLockTimeout bounds the wait for another process that opens the file.
const openingLockTimeout = 20 * time.Second

// fileLock is one process's right to use a file together with other processes: locks that the kernel releases when the
// process ends.
type fileLock struct {
	path string
	self processInfo
	dir  *os.File // nil: this file system cannot lock directories
	own  *os.File // nil: not locked yet, because nothing can be written
}

// lockFile takes the shared lock on the directory of path, and creates this process's own file while no other process
// opens it.
func lockFile(ctx context.Context, path string, who processInfo) (*fileLock, error) {
	dir, err := shareDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%w: locking %s: %w", ErrInUse, filepath.Dir(path), err)
	}
	l := &fileLock{path: path, dir: dir, self: who}
	leave, err := openingLock(ctx, path)
	if err == nil {
		defer leave()
		// Another process may take the lock and remove the file for a moment, to find out whether the owner has ended.
		if l.own, err = lockAt(ctx, processFile(path, who.ID), 100, time.Millisecond); err == nil {
			writeInfo(l.own, who)
			return l, nil
		}
	}
	l.close()
	return nil, err
}

// openingLock keeps all other processes from opening, replacing and moving the file until
// leave is called. It waits for a process that does so now.
func openingLock(ctx context.Context, path string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, openingLockTimeout)
	defer cancel()
	f, err := lockAt(ctx, path+".lock", math.MaxInt, 20*time.Millisecond)
	switch {
	case err != nil && errors.Is(err, ctx.Err()):
		return nil, fmt.Errorf("%w: another process has been opening %s for a long time", ErrInUse, path)
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
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
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
			return fmt.Errorf("%w by process %d on %s, and the directory that this process had was moved away: restart this process to share %s", ErrInUse, others[0].PID, others[0].Host, l.path)
		}
	}
	fresh, err := lockFile(ctx, l.path, l.self)
	if err != nil {
		return err
	}
	old := *l
	*l = *fresh
	old.close()
	return nil
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

// processInfix is between the name of a state file and the ID of a process that uses it, in
// the name of that process's own file.
const processInfix = ".process-"

func processFile(path, id string) string { return path + processInfix + id }

// plainID tells whether an ID can be part of a file name.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}

// otherProcesses lists the processes that use the file at path now, without the process
// own. Files of ended processes are removed.
func otherProcesses(path, ourName string) []processInfo {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []processInfo
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), base+processInfix)
		if !ok || id == ourName || !processAlive(path, id) {
			continue
		}
		s, _ := readInfo(processFile(path, id)) // a file that is being written is empty
		s.ID = id
		list = append(list, s)
	}
	return list
}

// processAlive tells whether the process with an ID uses the file at path: then it has the
// lock of its own file. The file of an ended process is removed.
func processAlive(path, id string) bool {
	if !plainID(id) {
		return false
	}
	name := processFile(path, id)
	f, err := os.OpenFile(name, os.O_RDWR|noFollow, 0)
	if errors.Is(err, syscall.EROFS) { // a read-only file can still be locked
		f, err = os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	}
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) // a file of another user: assume that it is alive
	}
	defer f.Close()
	err = alive.Lock(f, alive.Far)
	if err == nil && alive.IsAt(f, name) {
		removeLockFile(f)
	}
	return err != nil
}

// processInfo is the content of a process's own file.
type processInfo struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	PID  int    `json:"pid"`
	Host string `json:"host"`
}

// writeInfo writes the owner into its file. On a full disk that fails, and the lock still
// works.
func writeInfo(f *os.File, who processInfo) {
	if text, err := json.Marshal(who); err == nil && f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(text, '\n'), 0)
	}
}

// readInfo reads a process's own file.
func readInfo(name string) (s processInfo, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	return s, json.Unmarshal(text[:n], &s)
}
