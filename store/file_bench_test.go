package store

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkFileExchange is one caller, then 64 at once, with every answer on the disk.
func BenchmarkFileExchange(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, pragmas := range []func() []string{nil, careless} {
			b.Run(fmt.Sprintf("callers=%d/synced=%v", callers, pragmas == nil), func(b *testing.B) {
				var commits atomic.Int64
				f, err := OpenFile(b.Context(), newPath(b), FileOptions{pragmas: pragmas, fault: func(step string) error {
					commits.Add(1)
					return nil
				}})
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				var who atomic.Int64
				b.SetParallelism(max(callers/2, 1))
				if callers == 1 {
					for n := uint64(1); b.Loop(); n++ {
						say(b, f, counts("s", "k", n, 1))
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						key := fmt.Sprint(who.Add(1))
						for n := uint64(1); pb.Next(); n++ {
							say(b, f, counts("s", key, n, 1))
						}
					})
				}
				b.ReportMetric(float64(commits.Load())/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// TestALargeFileOpensSoon has as many Counts as ABIDE_STORE_ROWS says: a million are
// there within five seconds.
func TestALargeFileOpensSoon(t *testing.T) {
	rows, limit := 5_000, time.Minute
	if n, err := strconv.Atoi(os.Getenv("ABIDE_STORE_ROWS")); err == nil {
		rows, limit = n, 5*time.Second
	}
	path := newPath(t)
	f := openFile(t, path, FileOptions{Counts: rows})
	if _, err := f.disk.Load().conn.ExecContext(t.Context(), `INSERT INTO counts (site, key, instance, seq, ahead, at, state)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT 'site-' || (i % 1000) || '.example', 'limit/requests/' || i, 'instance-abcdefghijklmnop', i, 100, i * 7919 % 1000003 + ?, randomblob(60) FROM n`,
		rows, time.Now().Add(-time.Hour).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, unclean := range []bool{false, true} {
		if unclean { // a log is there, as after a kill
			if err := os.WriteFile(path+"-wal", []byte("not a log"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		f = openFile(t, path, FileOptions{})
		opened := time.Since(start)
		kept, err := f.Recall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, took := len(kept), time.Since(start)
		if n != min(rows, 200_000) || took > limit {
			t.Errorf("%d in %v", n, took)
		}
		t.Logf("%d rows, %d MB, unclean end %v: open %v, with recall of %d %v", rows, info.Size()>>20, unclean, opened, n, took)
		f.Close()
	}
}
