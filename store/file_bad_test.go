package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// image is a file as it is left by a clean end.
func image(t *testing.T, path string, rows int) []byte {
	t.Helper()
	f := openFile(t, path, FileOptions{})
	var batches []Batch
	for i := range rows {
		batches = append(batches, counts("site.example", fmt.Sprint("key ", i), 1, int64(i))...)
	}
	if _, err := f.Exchange(t.Context(), batches); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(t.Context(), "ledger", "k", make([]byte, 9000), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Record(t.Context(), History{TrafficRows: []Row{{Site: "s", In: 5}}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// use does with the file all that is done with one. Whatever is in it, that works in
// the end; a file that is found to be damaged on the way is set aside.
func use(t *testing.T, path string) (aside int) {
	t.Helper()
	f := openFile(t, path, FileOptions{})
	defer f.Close()
	_, _ = f.Recall(t.Context())
	_, _ = f.All(t.Context(), "ledger")
	_, _ = f.Rows(t.Context(), TrafficRows, "", time.Unix(0, 0), time.Now(), time.Hour)
	for seq := range uint64(3) {
		batch := counts("site.example", "key 3", seq+1, 7)
		batch[0].Instance = "next"
		if _, err := f.Exchange(t.Context(), batch); err != nil {
			t.Fatalf("writing: %v", err)
		}
		if err := f.Put(t.Context(), "ledger", "k", []byte("x"), time.Time{}); err != nil {
			t.Fatalf("putting: %v", err)
		}
		if err := f.Record(t.Context(), History{TrafficRows: []Row{{Site: "s", In: 5}}}); err != nil {
			t.Fatalf("recording: %v", err)
		}
	}
	if k := recall(t, f)["site.example key 3"]; k.Ahead != 7 {
		t.Fatalf("%+v", k)
	}
	return len(lines(f))
}

func clear(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if err := os.RemoveAll(filepath.Join(dir, one.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileCutShortAnywhereOpensOrIsSetAside(t *testing.T) {
	path := newPath(t)
	data := image(t, path, 200)
	const page = 4096
	if len(data)%page != 0 || len(data) < 8*page {
		t.Fatal(len(data))
	}
	var cuts []int
	for at := 0; at < len(data); at += page {
		cuts = append(cuts, at, at+1)
	}
	step := 1
	if Raced { // all of them are looked at without
		step = 16
	}
	for at := len(data) - page; at <= len(data); at += step {
		if f := cut(t, path, data[:at]); f != nil && !isDamage(f) {
			t.Fatalf("at %d: %v", at, f)
		}
		if at%61 == 0 || at == len(data) {
			cuts = append(cuts, at)
		}
	}
	set := 0
	for _, at := range cuts {
		clear(t, filepath.Dir(path))
		if err := os.WriteFile(path, data[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		n := use(t, path)
		if at == len(data) && n != 0 {
			t.Fatal("the whole file was set aside")
		}
		if n > 0 {
			set++
			if bad, _ := filepath.Glob(path + ".bad-*"); len(bad) == 0 {
				t.Fatalf("at %d: the bad file is not there", at)
			}
		}
	}
	if set == 0 {
		t.Error("none was set aside")
	}
	t.Logf("%d cuts, %d set aside", len(cuts), set)
}

// cut says what comes of opening it, when nothing is set aside.
func cut(t *testing.T, path string, data []byte) error {
	clear(t, filepath.Dir(path))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &File{path: path, log: &fileLog{path: path, now: time.Now, logf: t.Logf}, o: FileOptions{pragmas: careless, Now: time.Now, migrations: migrations}}
	d, err := f.openDisk(t.Context())
	if err == nil {
		err = d.close()
	}
	return err
}

func TestALogCutShortAnywhereKeepsWhatIsBefore(t *testing.T) {
	from, path := newPath(t), newPath(t)
	f := openFile(t, from, FileOptions{})
	for n := range 20 {
		say(t, f, counts("s", "k", uint64(n+1), int64(n+1)))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(from + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for at := 0; at <= len(log); at += 1 + rand.IntN(800) {
		clear(t, filepath.Dir(path))
		for name, what := range map[string][]byte{path: data, path + "-wal": log[:at]} {
			if err := os.WriteFile(name, what, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := openFile(t, path, FileOptions{})
		now := recall(t, f)["s k"].Ahead
		if now < last && len(lines(f)) == 0 {
			t.Fatalf("at %d there is %d, after %d before", at, now, last)
		}
		last = now
		f.Close()
	}
	if last < 15 {
		t.Errorf("at the end there is %d", last)
	}
}

func TestAFileWithWrongBytesOpensOrIsSetAside(t *testing.T) {
	path := newPath(t)
	data := image(t, path, 200)
	rounds := 400
	switch {
	case testing.Short():
		rounds = 40
	case Raced:
		rounds = 100
	}
	set := 0
	for round := range rounds {
		r := rand.New(rand.NewPCG(1, uint64(round)))
		bad := append([]byte(nil), data...)
		for range 1 + r.IntN(20) {
			at := r.IntN(len(bad))
			if round%4 == 0 {
				at = r.IntN(200)
			}
			bad[at] ^= byte(1 << r.IntN(8))
		}
		clear(t, filepath.Dir(path))
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) { set += min(use(t, path), 1) })
	}
	t.Logf("%d of %d set aside", set, rounds)
}

func TestAWrongLogIsNoTrouble(t *testing.T) {
	path := newPath(t)
	data := image(t, path, 20)
	for _, tail := range []string{"-wal", "-shm", "-journal"} {
		for _, junk := range []string{"", "junk", strings.Repeat("junk", 5000)} {
			clear(t, filepath.Dir(path))
			for name, what := range map[string]string{path: string(data), path + tail: junk} {
				if err := os.WriteFile(name, []byte(what), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			use(t, path)
		}
	}
}

func TestWhatIsNotOursIsSetAside(t *testing.T) {
	foreign := func(path, texts string) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(texts); err != nil {
			t.Fatal(err)
		}
	}
	for name, makeIt := range map[string]func(path string) error{
		"text":              func(p string) error { return os.WriteFile(p, []byte("dear diary"), 0o600) },
		"zeros":             func(p string) error { return os.WriteFile(p, make([]byte, 9000), 0o600) },
		"a directory":       func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) },
		"another program's": func(p string) error { foreign(p, "PRAGMA application_id = 7; CREATE TABLE a (b)"); return nil },
		"nobody's":          func(p string) error { foreign(p, "PRAGMA journal_mode=WAL; CREATE TABLE counts (b)"); return nil },
		"ours without tables": func(p string) error {
			foreign(p, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1; CREATE TABLE counts (site)", applicationID))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := makeIt(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			if _, err := OpenFile(t.Context(), path, FileOptions{Strict: true}); err == nil || !strings.Contains(err.Error(), "move it away to begin anew") {
				t.Fatalf("strict: %v", err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Fatal("strict has touched it")
			}
			var said []string
			f := openFile(t, path, FileOptions{Log: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
			say(t, f, counts("s", "k", 1, 1))
			bad, _ := filepath.Glob(path + ".bad-*")
			found := lines(f)
			if len(bad) != 1 || len(found) != 1 || len(said) != 1 || !strings.Contains(said[0], filepath.Base(bad[0])) || found[0] != said[0] {
				t.Fatal(bad, found, said)
			}
			if there, err := os.Lstat(bad[0]); err != nil || !os.SameFile(before, there) {
				t.Error("what was set aside is not what was there")
			}
		})
	}
}

func TestADamagedFileIsSetAsideWhileItIsInUse(t *testing.T) {
	path := newPath(t)
	image(t, path, 3000)
	spoil := func() {
		h, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		info, _ := h.Stat()
		for at := int64(4096); at < info.Size(); at += 4096 {
			_, _ = h.WriteAt(make([]byte, 4096), at)
		}
	}
	for _, strict := range []bool{true, false} {
		f := openFile(t, path, FileOptions{Strict: strict, pragmas: func() []string { return []string{"cache_size(10)"} }})
		before, err := f.Pulse(t.Context(), Member{ID: "i"})
		if err != nil {
			t.Fatal(err)
		}
		f.done.Wait()
		spoil()
		_, err = f.Exchange(t.Context(), counts("site.example", "key 2999", 50, 1))
		if strict {
			if err == nil || f.Health().Err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Fatalf("strict: %v, %v", err, f.Health())
			}
			f.Close()
			clear(t, filepath.Dir(path))
			image(t, path, 3000)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := f.Pulse(t.Context(), Member{ID: "i"})
		if err != nil || after.Generation == before.Generation || len(lines(f)) != 1 || f.Health().Err != nil {
			t.Fatal(err, before, after, lines(f))
		}
	}
}

func TestARemovedFileIsMadeAgain(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	f := openFile(t, path, FileOptions{Now: clock.now})
	say(t, f, counts("s", "k", 1, 1))
	for _, tail := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + tail); err != nil {
			t.Fatal(err)
		}
	}
	clock.forward(2 * time.Second)
	say(t, f, counts("s", "k", 2, 2))
	f.Close()
	if k := recall(t, openFile(t, path, FileOptions{}))["s k"]; k.Ahead != 2 {
		t.Fatalf("%+v", k)
	}
}

func TestASymbolicLinkIsRefused(t *testing.T) {
	path := newPath(t)
	for _, to := range []string{"nowhere", "real"} {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFile(t.Context(), path, FileOptions{}); err == nil || !strings.Contains(err.Error(), "symbolic link to "+to) {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), to)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal("it was followed")
		}
		os.Remove(path)
	}
}

func TestOlderFilesAreMigratedAndNewerRefused(t *testing.T) {
	path := newPath(t)
	image(t, path, 10)
	second := append(append([]string{}, migrations...), "ALTER TABLE counts ADD COLUMN colour TEXT DEFAULT 'red'; CREATE TABLE more (a)")
	broken := append(append([]string{}, second...), "CREATE TABLE last (a); CREATE TABLE more (a)")

	copied := fmt.Sprintf("%s.v%d", path, len(migrations))
	f := openFile(t, path, FileOptions{migrations: second})
	if k := recall(t, f)["site.example key 7"]; k.Ahead != 7 {
		t.Fatalf("%+v", k)
	}
	var colour string
	if err := f.disk.Load().conn.QueryRowContext(t.Context(), "SELECT colour FROM counts LIMIT 1").Scan(&colour); err != nil || colour != "red" {
		t.Fatal(colour, err)
	}
	f.Close()
	for _, strict := range []bool{true, false} {
		if _, err := OpenFile(t.Context(), path, FileOptions{Strict: strict}); err == nil || !errors.Is(err, errNewer) ||
			!strings.Contains(err.Error(), fmt.Sprintf("version %d", len(second))) || !strings.Contains(err.Error(), "start the release that wrote it") {
			t.Fatal(err)
		}
	}
	old := openFile(t, copied, FileOptions{Strict: true})
	if k := recall(t, old)["site.example key 7"]; k.Ahead != 7 {
		t.Fatalf("the copy: %+v", k)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	old.Close()
	if _, err := OpenFile(t.Context(), path, FileOptions{Strict: true, migrations: broken}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("from version %d to %d", len(second), len(broken))) {
		t.Fatal(err)
	}
	f = openFile(t, path, FileOptions{Strict: true, migrations: second}) // all of it was undone
	var n int
	if err := f.disk.Load().conn.QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema WHERE name = 'last'").Scan(&n); err != nil || n != 0 {
		t.Fatal(n, err)
	}
}
