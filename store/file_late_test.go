package store

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"
)

// TestAWriteHasTheTimeAtWhichItIsDone, not that before it has waited for another process: of two
// processes the later write had the earlier time, so that what was spent counted as spent before.
func TestAWriteHasTheTimeAtWhichItIsDone(t *testing.T) {
	now, asked := atomic.Int64{}, make(chan struct{}, 1)
	now.Store(1767312000e9)
	path := newPath(t)
	f, err := OpenFile(t.Context(), path, FileOptions{pragmas: careless, Now: func() time.Time {
		select {
		case asked <- struct{}{}:
		default:
		}
		return time.Unix(0, now.Load())
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan time.Time, 1)
	write := func() {
		replies, err := f.Exchange(t.Context(), []Batch{{Site: "s", Instance: "i"}})
		if err != nil {
			t.Error(err)
			replies = make([]Reply, 1)
		}
		done <- replies[0].Now
	}
	write() // so that the file is open
	<-done
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	transaction, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(asked) > 0 {
		<-asked
	}
	go write()
	<-asked
	now.Add(1e9)
	if err := transaction.Commit(); err != nil {
		t.Fatal(err)
	}
	if at := <-done; at.UnixNano() != now.Load() {
		t.Errorf("its time is %v, before it could be done", at)
	}
}
