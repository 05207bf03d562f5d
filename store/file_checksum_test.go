package store

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// spoil runs a statement on a file that nobody has open.
func spoil(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(statement, err)
	}
}

// A bit of a row that the disk has changed is no amount, no time and no state: the row is
// set aside, and all others count.
func TestARowWithAWrongBitIsSetAside(t *testing.T) {
	for _, change := range []string{
		"UPDATE counts SET ahead = ahead + 1024 WHERE key = 'key 7'",
		"UPDATE counts SET state = x'0102' WHERE key = 'key 7'",
		"UPDATE counts SET at = at - 4096 WHERE key = 'key 7'",
		"UPDATE counts SET seq = seq + 1 WHERE key = 'key 7'",
		"UPDATE counts SET instance = 'j' WHERE key = 'key 7'",
		"UPDATE counts SET key = 'key w' WHERE key = 'key 7'",
	} {
		path := newPath(t)
		image(t, path, 10)
		spoil(t, path, change)
		if _, err := openFile(t, path, FileOptions{Strict: true}).Recall(t.Context()); err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "move it away") {
			t.Fatalf("strict: %v", err)
		}
		path = newPath(t)
		image(t, path, 10)
		spoil(t, path, change)
		f := openFile(t, path, FileOptions{})
		for range 2 {
			kept := recall(t, f)
			if _, there := kept["site.example key 7"]; there || len(kept) != 9 {
				t.Fatalf("%s: %d are left: %v", change, len(kept), kept)
			}
		}
		if d := f.Damage(); d.Rows != 1 || d.File != "" || d.At.IsZero() || len(lines(f)) != 1 || !strings.Contains(lines(f)[0], "counts") {
			t.Fatalf("%s: %+v, %v", change, d, lines(f))
		}
		var kept string
		if err := f.disk.Load().conn.QueryRowContext(t.Context(), "SELECT value FROM aside WHERE origin = 'counts'").Scan(&kept); err != nil || !strings.Contains(kept, "site.example") {
			t.Fatal(kept, err)
		}
	}
}

// Whoever asks for a budget whose row is damaged gets what he says himself.
func TestADamagedRowIsMetByWhoUsesIt(t *testing.T) {
	path := newPath(t)
	f := openFile(t, path, FileOptions{})
	joint := func(seq uint64, want int64) []Batch {
		b := counts("s", "k", seq, want)
		b[0].Asks[0].Joint = &Joint{Merge: func(_ time.Time, state []byte, _ []Use, _, _ int64) ([]byte, int64, time.Time) {
			return state, 100, time.Time{}
		}}
		b[0].Asks[0].State = []byte("own")
		return b
	}
	noted := []Batch{{Site: "s", Instance: "i", Notes: []Note{{Key: "n", Until: time.Now().Add(time.Hour), N: 3}}}}
	say(t, f, joint(1, 5))
	if _, err := f.Exchange(t.Context(), noted); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), "ledger", "k", []byte("x"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	spoil(t, path, "UPDATE counts SET state = x'00', ahead = 77; UPDATE notes SET n = 4; UPDATE documents SET value = x'01'")
	f = openFile(t, path, FileOptions{})
	if a := say(t, f, joint(2, 5)); a.Granted != 5 || string(a.State) != "own" {
		t.Errorf("%+v", a)
	}
	noted[0].Notes = nil
	if r, err := f.Exchange(t.Context(), noted); err != nil || len(r[0].Notes) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if all, err := f.All(t.Context(), "ledger"); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	if d := f.Damage(); d.Rows != 3 {
		t.Errorf("%+v", d)
	}
}

// A file of version 1 has no checksums. It is read, and what is written has one.
func TestRowsOfVersion1AreRead(t *testing.T) {
	path := newPath(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		migrations[0], fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1", applicationID),
		"INSERT INTO counts VALUES ('s', 'k', 'before', 3, 7, 1000, x'01')",
		"INSERT INTO documents (kind, key, at, until, value) VALUES ('ledger', 'k', 5, 0, 'v')",
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	f := openFile(t, path, FileOptions{Strict: true})
	if k := recall(t, f)["s k"]; k.Ahead != 7 {
		t.Errorf("%+v", k)
	}
	if all, err := f.All(t.Context(), "ledger"); err != nil || string(all["k"]) != "v" {
		t.Error(all, err)
	}
	say(t, f, counts("s", "k", 1, 9))
	var sums int
	if err := f.disk.Load().conn.QueryRowContext(t.Context(), "SELECT count(sum) FROM counts").Scan(&sums); err != nil || sums != 1 {
		t.Error(sums, err)
	}
	if _, err := os.Stat(path + ".v1"); err != nil {
		t.Error(err)
	}
}

// A clock that is set back moves the times of notes and documents, which are whole then.
func TestAClockThatIsSetBackDamagesNothing(t *testing.T) {
	path, clock := newPath(t), newWall(noon)
	f := openFile(t, path, FileOptions{Now: clock.now})
	for key, until := range map[string]time.Time{"a": {}, "b": noon.Add(time.Hour)} {
		if err := f.Put(t.Context(), "ledger", key, []byte("x"), until); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	clock.forward(-30 * time.Minute)
	f = openFile(t, path, FileOptions{Now: clock.now, Strict: true})
	if all, err := f.All(t.Context(), "ledger"); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
}

// Whatever byte of the header is wrong, the file is used or set aside, and never an error.
func TestAnyByteOfTheHeaderMayBeWrong(t *testing.T) {
	path := newPath(t)
	data := image(t, path, 20)
	for at := range 100 {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			if Raced && flip != 0xff {
				continue
			}
			bad := bytes.Clone(data)
			bad[at] ^= flip
			clear(t, filepath.Dir(path))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%d %x", at, flip), func(t *testing.T) { use(t, path) })
		}
	}
}

// Several that meet a damaged file at the same moment set it aside once, and share the
// new one.
func TestSeveralMeetADamagedFileAtOnce(t *testing.T) {
	for round := range 10 {
		path := newPath(t)
		data := image(t, path, 200)
		r := rand.New(rand.NewPCG(3, uint64(round)))
		switch {
		case round%2 == 0:
			data = data[:4096*(1+r.IntN(3))]
		default:
			copy(data[60:], []byte{9, 9, 9, 9})
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		const many = 8
		files, begin := make([]*File, many), make(chan struct{})
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				<-begin
				var err error
				if files[i], err = OpenFile(t.Context(), path, FileOptions{pragmas: careless, Instance: fmt.Sprint("one", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		aside := 0
		for i, f := range files {
			if f == nil {
				t.FailNow()
			}
			defer f.Close()
			if f.Damage().File != "" {
				aside++
			}
			if _, err := f.Exchange(t.Context(), counts("s", fmt.Sprint("key ", i), 1, 1)); err != nil {
				t.Error(err)
			}
		}
		bad, _ := filepath.Glob(path + ".bad-*")
		for i := len(bad) - 1; i >= 0; i-- {
			if strings.HasSuffix(bad[i], "-wal") || strings.HasSuffix(bad[i], "-shm") {
				bad = append(bad[:i], bad[i+1:]...)
			}
		}
		if aside != 1 || len(bad) != 1 {
			t.Errorf("%d have set it aside: %v", aside, bad)
		}
		var n int
		if err := files[0].disk.Load().conn.QueryRowContext(t.Context(), "SELECT count(*) FROM counts").Scan(&n); err != nil || n != many {
			t.Errorf("%d of %d are in the new one: %v", n, many, err)
		}
	}
}
