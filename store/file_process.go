package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
)

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

// processList caches which other processes use the file. It is safe for concurrent use.
type processList struct {
	mu     sync.Mutex
	others []processInfo
	dir    time.Time // modification time of the directory when it was read
	looked time.Time
}

// dirTimeGranularity is the age of a directory's modification time after which a later
// change has another time.
const dirTimeGranularity = 50 * time.Millisecond

// refresh returns the other processes that use the file. It reads the directory only if a
// process may have been added, and otherwise checks the known processes.
func (c *processList) refresh(path, ourName string, now time.Time) []processInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && info.ModTime().Equal(c.dir) && c.looked.Sub(c.dir) > dirTimeGranularity && now.Sub(c.looked) < time.Minute && !now.Before(c.looked) {
		living := c.others[:0:0]
		for _, s := range c.others {
			if processAlive(path, s.ID) {
				living = append(living, s)
			}
		}
		c.others = living
		return living
	}
	c.others, c.looked = otherProcesses(path, ourName), now
	if err == nil {
		c.dir = info.ModTime()
	}
	return c.others
}

// processInfo is the content of a process's own file.
type processInfo struct {
	ID    string    `json:"id,omitempty"`
	Name  string    `json:"name,omitempty"`
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (s processInfo) encode() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return nil // a time that JSON cannot encode
	}
	return append(text, '\n')
}

// writeInfo writes the owner into its file. On a full disk that fails, and the lock still
// works.
func writeInfo(f *os.File, who processInfo) {
	if text := who.encode(); f.Truncate(0) == nil {
		_, _ = f.WriteAt(text, 0)
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

// lastHolder is the process that has last recorded itself as the holder.
func lastHolder(path string) (h processInfo) {
	db, err := sql.Open("sqlite", sourceOf(path, "mode=ro&_pragma=busy_timeout(200)"))
	if err != nil {
		return h
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var text string
	if db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'holder'").Scan(&text) == nil {
		_ = json.Unmarshal([]byte(text), &h)
	}
	return h
}

const (
	// membersInterval is the time between two searches for other processes.
	membersInterval = 100 * time.Millisecond
	// newsInterval is the time between two readings of the news of other processes, while
	// there are some.
	newsInterval = 250 * time.Millisecond
)

// Listen calls heard with the notes that other processes have written, by site, and with
// site "" when a process came or ended or a document was changed. While no other process
// uses the file, it only checks the directory. A file that could not be opened for writing
// is tried again once a second.
func (f *File) Listen(ctx context.Context, heard func(News)) error {
	ticker := time.NewTicker(membersInterval)
	defer ticker.Stop()
	members, documents, read := "nobody looked", uint64(0), time.Time{}
	told := map[string]int64{} // :: site → time of the latest reported note, in microseconds since 1970
	for site, one := range f.recentNotes(ctx, f.o.Now(), nil) {
		told[site] = one.at
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if !f.openedForWriting.Load() {
			f.retryOpen(ctx)
		}
		others, now := f.others(), time.Now()
		ids := ""
		for _, one := range others {
			ids += one.ID + " "
		}
		if ids != members {
			members = ids
			heard(News{})
		}
		d := f.disk.Load()
		if d == nil || len(others) == 0 || now.Sub(read) < newsInterval {
			continue
		}
		read = now
		if n := d.documents(ctx); n != documents {
			documents = n
			heard(News{})
		}
		latest := map[string]int64{}
		for site, one := range f.recentNotes(ctx, f.o.Now(), told) {
			if latest[site] = one.at; len(one.notes) > 0 {
				heard(News{Site: site, Notes: one.notes})
			}
		}
		told = latest
	}
}

// noteMaxAge is the maximum age of notes that are reported.
const noteMaxAge = 10 * time.Second

// newNotes are a site's notes that were not reported yet.
type newNotes struct {
	at    int64  // time of the latest, in microseconds since 1970
	notes []Note // not reported yet
}

// recentNotes lists the recently written notes by site, without those up to the time of the
// last report in told.
func (f *File) recentNotes(ctx context.Context, now time.Time, told map[string]int64) map[string]newNotes {
	d := f.disk.Load()
	if d == nil {
		return nil
	}
	ctx, release, ok := d.acquire(ctx)
	if !ok {
		return nil
	}
	defer release()
	rows, err := d.readers.QueryContext(ctx, "SELECT site, key, at, until, n, text, sum FROM notes WHERE at > ?", now.Add(-noteMaxAge).UnixMicro())
	if err != nil {
		return nil
	}
	defer rows.Close()
	sites := map[string]newNotes{}
	for rows.Next() {
		var site string
		var at, until int64
		var sum *int64
		var n Note
		if rows.Scan(&site, &n.Key, &at, &until, &n.N, &n.Text, &sum) != nil {
			return nil
		}
		if sum != nil && *sum != noteSum(site, n.Key, at, until, n.N, n.Text) {
			continue
		}
		notes := sites[site]
		if n.Until = time.UnixMicro(until); at > told[site] {
			notes.notes = append(notes.notes, n)
		}
		notes.at = max(notes.at, at)
		sites[site] = notes
	}
	return sites
}
