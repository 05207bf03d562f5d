package output_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// benchPages commits units of one page by workers.
func benchPages(b *testing.B, at jobfile.Output, workers, records int) {
	o, err := output.Open(b.Context(), at, output.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	j, err := o.Job(b.Context(), orders)
	if err != nil {
		b.Fatal(err)
	}
	_, err = j.AddUnits(b.Context(), func(yield func(output.Unit, error) bool) {
		for i := range b.N {
			if !yield(output.Unit{Key: fmt.Sprint("unit", i), Place: int64(i)}, nil) {
				return
			}
		}
	}, false)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				c, err := j.Claim(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				if c == nil {
					return
				}
				p := output.Page{Ends: output.Done}
				for i := range records {
					p.Records = append(p.Records, record(fmt.Sprint(c.Key, ".", i), c.Key, 0))
				}
				if err := j.Commit(b.Context(), c, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkSQLite(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprint("records=", records), func(b *testing.B) {
			benchPages(b, jobfile.Output{File: filepath.Join(b.TempDir(), "items.db")}, 16, records)
		})
	}
}

func BenchmarkPostgreSQL(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprint("records=", records), func(b *testing.B) {
			benchPages(b, jobfile.Output{URL: policy.NewSecret(postgres.Database(b))}, 16, records)
		})
	}
}

// BenchmarkRawSQLite inserts the same records, 100 in a transaction, and nothing else.
func BenchmarkRawSQLite(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE r (id TEXT PRIMARY KEY, unit TEXT, fetched_at TEXT, body TEXT)"); err != nil {
		b.Fatal(err)
	}
	for n := range b.N {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		s, err := tx.Prepare("INSERT INTO r VALUES (?, ?, ?, ?)")
		for i := 0; i < 100 && err == nil; i++ {
			r := record(fmt.Sprint("unit", n, ".", i), "unit", 0)
			_, err = s.Exec(r.ID, r.Unit, r.Fetched.Format(time.RFC3339), string(r.Body))
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "records/s")
}
