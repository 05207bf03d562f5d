package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Held is the error of a file that a process of an older release has open: that release
// does not share it.
type Held struct {
	Path  string
	PID   int
	Host  string
	Since time.Time

	moved bool // another process began a file where the directory of this one was
}

// Error says which process has the file, and what to do.
func (h *Held) Error() string {
	who := "another process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.UTC().Format(time.RFC3339))
	}
	if host, _ := os.Hostname(); h.PID == os.Getpid() && h.Host == host { // every container has a process 1
		who += " (this one)"
	}
	if h.moved {
		return fmt.Sprintf("%s is in use by %s, and the directory that this process had was moved away: restart this process to share the file", h.Path, who)
	}
	return fmt.Sprintf("%s is in use by %s, of an older abide that does not share it: stop that process first, or give this one another data directory", h.Path, who)
}

// errTaken is what take answers when another process has the lock.
var errTaken = errors.New("another process has the lock")

// sectionPatience is how long a process waits for another one that opens the file.
const sectionPatience = 20 * time.Second

// fileLock is the right of one process to use a file beside other processes. It has
// three locks, all of which the kernel drops when the process dies:
//
//   - A shared lock on the directory, until the end. A release that does not share the
//     file takes an exclusive lock there, so each of the two keeps out the other.
//   - An exclusive lock on a file of this process's own, path.process-ID, until the
//     end. Whoever can take it knows that the process has ended, and removes the file.
//   - An exclusive lock on path.lock for a moment, see section.
type fileLock struct {
	path string
	who  signature
	dir  *os.File // nil: this file system has no locks on directories
	own  *os.File // nil: nothing is locked yet, as nothing can be written
}

// signature is what the file of a process says about it.
type signature struct {
	ID    string    `json:"id,omitempty"`
	Name  string    `json:"name,omitempty"`
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (s signature) text() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return nil // a year that JSON does not know
	}
	return append(text, '\n')
}

// lockFile takes the shared lock on the directory of path, makes the file of this
// process, and enters a section that lasts until leave is called.
func lockFile(ctx context.Context, path string, who signature) (l *fileLock, leave func(), err error) {
	dir, err := shareDir(filepath.Dir(path))
	if errors.Is(err, errTaken) {
		return nil, nil, heldBy(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", filepath.Dir(path), err)
	}
	l = &fileLock{path: path, dir: dir, who: who}
	if leave, err = section(ctx, path); err == nil {
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

// lockOwn makes a file and takes its lock. Another process may take the lock for a
// moment, and remove the file, when it looks whether its owner has ended.
func lockOwn(ctx context.Context, name string, who signature) (*os.File, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for range 100 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, err
		}
		err = take(f)
		if err == nil && same(f, name) {
			sign(f, who)
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, errTaken) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		timer.Reset(time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("locking %s: another process has it", name)
}

// section keeps all other processes from opening, replacing and moving the file, until
// leave is called. It waits for one that does so now.
func section(ctx context.Context, path string) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, sectionPatience)
	defer cancel()
	name := path + ".lock"
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, err
		}
		err = take(f)
		if err == nil && same(f, name) {
			return func() {
				drop(f)
				f.Close()
			}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, errTaken) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, heldBy(path)
		}
	}
}

// same tells whether an open file is the one of that name.
func same(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(mine, there)
}

// stands tells whether the directory is still the one of the path.
func (l *fileLock) stands() bool { return l.dir == nil || same(l.dir, filepath.Dir(l.path)) }

// listed tells whether the file of this process is still there for others to find.
func (l *fileLock) listed() bool { return l.own != nil && same(l.own, l.own.Name()) }

// renew takes the locks anew if what they were on has been moved away or removed. A
// process whose directory was moved away leaves alone what other processes have begun in
// its place.
func (l *fileLock) renew(ctx context.Context) error {
	if l.stands() && l.listed() {
		return nil
	}
	if !l.stands() {
		if others := othersThan(l.path, l.who.ID); len(others) > 0 {
			one := others[0]
			return &Held{Path: l.path, PID: one.PID, Host: one.Host, Since: one.Since, moved: true}
		}
	}
	fresh, leave, err := lockFile(ctx, l.path, l.who)
	if err != nil {
		return err
	}
	defer leave()
	old := *l
	*l = *fresh
	old.close()
	return nil
}

// sign writes into a file whose it is. On a full disk that fails, and the lock holds.
func sign(f *os.File, who signature) {
	if text := who.text(); f.Truncate(0) == nil {
		_, _ = f.WriteAt(text, 0)
	}
}

// heldBy says which process of an older release has the lock, as far as that is written
// anywhere.
func heldBy(path string) *Held {
	h, err := signatureIn(path + ".lock")
	if err != nil || h.PID == 0 { // it was removed
		h = holderKept(path)
	}
	return &Held{Path: path, PID: h.PID, Host: h.Host, Since: h.Since}
}

func signatureIn(name string) (s signature, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	return s, json.Unmarshal(text[:n], &s)
}

// release removes the file of this process and gives up the locks.
func (l *fileLock) release() {
	if l.listed() {
		drop(l.own)
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
