package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// processMark is between the name of a state file and the ID of a process that uses it,
// in the name of that process's own file.
const processMark = ".process-"

func processFile(path, id string) string { return path + processMark + id }

// plainID tells whether an ID can be a part of a file's name.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}

// othersThan are the processes that use the file at path now, without the one with that
// ID. The files of those that have ended are removed.
func othersThan(path, own string) []signature {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []signature
	for _, e := range entries {
		id, is := strings.CutPrefix(e.Name(), base+processMark)
		if !is || id == own || !processLives(path, id) {
			continue
		}
		s, _ := signatureIn(processFile(path, id)) // one that is being written says nothing yet
		s.ID = id
		list = append(list, s)
	}
	return list
}

// processLives tells whether the process with an ID uses the file at path: it has the
// lock of its own file then. The file of a process that has ended is removed.
func processLives(path, id string) bool {
	if !plainID(id) {
		return false
	}
	name := processFile(path, id)
	f, err := os.OpenFile(name, os.O_RDWR|noFollow, 0)
	if errors.Is(err, syscall.EROFS) { // a lock can be taken there all the same
		f, err = os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	}
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) // of another user: nobody knows
	}
	defer f.Close()
	err = take(f)
	if err == nil && same(f, name) {
		drop(f)
	}
	return err != nil
}

// crowd is which other processes use the file, as far as it was looked.
type crowd struct {
	mu     sync.Mutex
	others []signature
	dir    time.Time // when the directory was changed last, as it was looked through
	looked time.Time
}

// settledDir is how long ago a directory has to be changed so that no later change may
// bear the same time.
const settledDir = 50 * time.Millisecond

// look finds out which other processes use the file. It reads the directory only after
// a process may have come, and otherwise asks about those that were there.
func (c *crowd) look(path, own string, now time.Time) []signature {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && info.ModTime().Equal(c.dir) && c.looked.Sub(c.dir) > settledDir && now.Sub(c.looked) < time.Minute && !now.Before(c.looked) {
		living := c.others[:0:0]
		for _, s := range c.others {
			if processLives(path, s.ID) {
				living = append(living, s)
			}
		}
		c.others = living
		return living
	}
	c.others, c.looked = othersThan(path, own), now
	if err == nil {
		c.dir = info.ModTime()
	}
	return c.others
}
