package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	if h.PID == os.Getpid() {
		who += " (this one)"
	}
	return fmt.Sprintf("%s is in use by %s: stop that one first, or give this one another data directory", h.Path, who)
}

// errTaken is what take says when somebody else has the lock.
var errTaken = errors.New("somebody else has it")

// fileLock is the right to use a file. The kernel takes it from a process that dies,
// so what is written in the lock's file is for people only.
type fileLock struct{ f *os.File }

type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// lockFile takes the lock of path, or says who has it.
func lockFile(path string, now time.Time) (*fileLock, error) {
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
			h := holderOf(f)
			return nil, &Held{Path: path, PID: h.PID, Host: h.Host, Since: h.Since}
		}
		// Whoever had it before may have removed it between our opening and locking:
		// then it is a lock that nobody else would find.
		if mine, err := f.Stat(); err == nil {
			if there, err := os.Lstat(name); err == nil && os.SameFile(mine, there) {
				sign(f, now)
				return &fileLock{f}, nil
			}
		}
		f.Close()
	}
	return nil, fmt.Errorf("locking %s: it disappears again and again", name)
}

// sign says who has the lock. On a full disk nobody can, and the lock holds anyway.
func sign(f *os.File, now time.Time) {
	host, _ := os.Hostname()
	if text, err := json.Marshal(holder{os.Getpid(), host, now}); err == nil && f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(text, '\n'), 0)
	}
}

func holderOf(f *os.File) (h holder) {
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	_ = json.Unmarshal(text[:n], &h)
	return h
}

func (l *fileLock) release() {
	drop(l.f)
	l.f.Close()
}
