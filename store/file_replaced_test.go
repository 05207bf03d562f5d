package store

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// keysIn are the Counts that anybody finds who opens the file now.
func keysIn(t *testing.T, path string) (keys []string) {
	t.Helper()
	db, err := sql.Open("sqlite", sqlite.Source(path, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT key FROM counts ORDER BY key")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}

func sameFileAs(t *testing.T, path string, was os.FileInfo) bool {
	t.Helper()
	fileInfo, err := os.Stat(path)
	return err == nil && os.SameFile(fileInfo, was)
}

// Somebody who has a file open that was removed does nothing to the one in its place when
// he is done with it.
func TestWhoClosesARemovedFileLateLeavesTheNewOneAlone(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	f := openFile(t, path, FileOptions{Now: clock.now})
	say(t, f, counts("s", "k", 1, 1))
	f.done.Wait()
	late, err := sql.Open("sqlite", sqlite.Source(path, "mode=rw")) // as another process, or a reader
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	rows, err := late.QueryContext(t.Context(), "SELECT key FROM counts")
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	for _, tail := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + tail); err != nil {
			t.Fatal(err)
		}
	}
	clock.forward(2 * time.Second)
	say(t, f, counts("s", "l", 2, 2))
	log, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	late.Close()
	if !sameFileAs(t, path+"-wal", log) {
		t.Error("the log of the new file is gone")
	}
	if keys := keysIn(t, path); len(keys) != 1 || keys[0] != "l" {
		t.Errorf("there is %q", keys)
	}
}

// A process that finds out that another one has set the file aside loses nothing of what
// that one has written since.
func TestWhoFindsTheFileSetAsideKeepsWhatOthersWroteIntoTheNewOne(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	a := openFile(t, path, FileOptions{Now: clock.now, Instance: "a"})
	b := openFile(t, path, FileOptions{Now: clock.now, Instance: "b"})
	say(t, a, counts("s", "old", 1, 1))
	say(t, b, counts("s", "older", 1, 1))
	a.done.Wait()
	b.done.Wait()
	if err := b.replaceDamaged(damagedf("for the test")); err != nil {
		t.Fatal(err)
	}
	say(t, b, counts("s", "b", 2, 2))
	clock.forward(2 * time.Second)
	say(t, a, counts("s", "a", 2, 2))
	say(t, b, counts("s", "c", 3, 2))
	if keys := keysIn(t, path); len(keys) != 3 || keys[0] != "a" || keys[1] != "b" || keys[2] != "c" {
		t.Errorf("there is %q", keys)
	}
}

// Whoever reads when the file is to be closed is interrupted, and waited for.
func TestAFileIsNotClosedWhileSomebodyReadsIt(t *testing.T) {
	f := openFile(t, newPath(t), FileOptions{})
	say(t, f, counts("s", "k", 1, 1))
	f.done.Wait()
	reads, ended := make(chan struct{}), make(chan error, 1)
	var first sync.Once
	done := false
	go func() {
		ended <- f.reading(t.Context(), func(ctx context.Context, d *database) error {
			rows, err := d.readers.QueryContext(ctx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				first.Do(func() { close(reads) })
			}
			done = true
			return rows.Err()
		})
	}()
	<-reads
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if !done {
		t.Error("it was closed while it was read")
	}
	if err := <-ended; err == nil {
		t.Error("who was interrupted is told nothing")
	}
	if left, _ := filepath.Glob(f.path + "-*"); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}
