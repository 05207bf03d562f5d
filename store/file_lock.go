package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Held is the error of a file that a process has open already.
type Held struct {
	Path  string
	PID   int
	Host  string
	Since time.Time
}

// Error says who has it, and what to do.
func (h *Held) Error() string {
	who := "another process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host, h.Since.UTC().Format(time.RFC3339))
	}
	if host, _ := os.Hostname(); h.PID == os.Getpid() && h.Host == host { // every container has a process 1
		who += " (this one)"
	}
	return fmt.Sprintf("%s is in use by %s: stop that one first, or give this one another data directory", h.Path, who)
}

// errTaken is what take says when somebody else has the lock.
var errTaken = errors.New("somebody else has it")

// fileLock is the right to use a file. The kernel takes it from a process that dies,
// so what is written in the lock's file is for people only.
//
// There are two locks. The one on the directory is what counts where there can be one:
// nobody removes that by mistake. The one on a file beside it keeps out releases that
// do not know of the other, and says who has it.
type fileLock struct {
	path  string
	dir   *os.File // nil: this file system has no locks of directories
	f     *os.File
	since time.Time
}

type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// lockFile takes the lock of path, or says who has it.
func lockFile(path string, now time.Time) (*fileLock, error) {
	dir, err := takeDir(filepath.Dir(path))
	if errors.Is(err, errTaken) {
		return nil, heldBy(path)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", filepath.Dir(path), err)
	}
	f, err := lockBeside(path, now)
	if err != nil {
		if dir != nil {
			dir.Close()
		}
		return nil, err
	}
	return &fileLock{path, dir, f, now}, nil
}

func lockBeside(path string, now time.Time) (*os.File, error) {
	name := path + ".lock"
	for range 10 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, err
		}
		if err := take(f); err != nil {
			defer f.Close()
			if !errors.Is(err, errTaken) {
				return nil, fmt.Errorf("locking %s: %w", name, err)
			}
			return nil, heldBy(path)
		}
		// Whoever had it before may have removed it between our opening and locking:
		// then it is a lock that nobody else would find.
		if same(f, name) {
			sign(f, now)
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("locking %s: it disappears again and again", name)
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

// stands tells whether the lock is still that of its path: whoever opens that is kept
// out by it.
func (l *fileLock) stands() bool {
	if l.dir != nil {
		return same(l.dir, filepath.Dir(l.path))
	}
	return same(l.f, l.path+".lock")
}

// renew takes the lock anew if what it was on has been moved away.
func (l *fileLock) renew(now time.Time) error {
	if l.stands() {
		return nil
	}
	fresh, err := lockFile(l.path, now)
	if err != nil {
		return err
	}
	old := *l
	*l = *fresh
	old.close()
	return nil
}

// sign says who has the lock. On a full disk nobody can, and the lock holds anyway.
func sign(f *os.File, now time.Time) {
	if text := signature(now); f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(text, '\n'), 0)
	}
}

// signature is who this is, in words that holder reads.
func signature(since time.Time) []byte {
	host, _ := os.Hostname()
	text, err := json.Marshal(holder{os.Getpid(), host, since})
	if err != nil {
		return nil // a year that JSON does not know
	}
	return text
}

// heldBy says who has the lock, as far as that is written anywhere.
func heldBy(path string) *Held {
	h, err := holderIn(path + ".lock")
	if err != nil || h.PID == 0 { // somebody has removed that
		h = holderKept(path)
	}
	return &Held{Path: path, PID: h.PID, Host: h.Host, Since: h.Since}
}

func holderIn(name string) (h holder, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return h, err
	}
	defer f.Close()
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	return h, json.Unmarshal(text[:n], &h)
}

// release gives the lock free, the one on the directory last: until then nobody begins
// to take the other.
func (l *fileLock) release() {
	if l.stands() && same(l.f, l.path+".lock") {
		drop(l.f)
	}
	l.close()
}

func (l *fileLock) close() {
	l.f.Close()
	if l.dir != nil {
		l.dir.Close()
	}
}
