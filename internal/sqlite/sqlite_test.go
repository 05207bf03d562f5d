package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	lib "modernc.org/sqlite/lib"
)

func TestAFileIsWrittenAndReadByItsConnections(t *testing.T) {
	db, readers, err := Open(filepath.Join(t.TempDir(), "a file?.db"), "mode=rwc", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer readers.Close()
	if _, err := db.Exec("CREATE TABLE a (n INTEGER PRIMARY KEY); INSERT INTO a VALUES (1), (2), (3)"); err != nil {
		t.Fatal(err)
	}
	sum, stop := 0, errors.New("stop")
	add := func(rows *sql.Rows) error {
		var n int
		err := rows.Scan(&n)
		if sum += n; sum > 3 {
			return stop
		}
		return err
	}
	if err := Each(add)(readers.Query("SELECT n FROM a WHERE n < 3")); err != nil || sum != 3 {
		t.Errorf("%d, %v", sum, err)
	}
	if err := Each(add)(readers.Query("SELECT n FROM a")); err != stop || sum != 4 {
		t.Errorf("%d, %v", sum, err)
	}
	if _, err := readers.Exec("DELETE FROM a"); Code(err)&0xff != lib.SQLITE_READONLY {
		t.Errorf("a reader writes: %v", err)
	}
	if _, err := db.Exec("INSERT INTO a VALUES (1)"); Code(err) != lib.SQLITE_CONSTRAINT_PRIMARYKEY {
		t.Errorf("%d, %v", Code(err), err)
	}
	if Code(stop) != 0 {
		t.Error("an error that is not of SQLite has a code")
	}
}

// Each process opens each of many new files at the same time as the others.
func TestProcessesOpenANewFileAtOnce(t *testing.T) {
	const files, processes = 40, 3
	if dir := os.Getenv("ABIDE_TEST_FILES"); dir != "" {
		next := bufio.NewScanner(os.Stdin)
		for i := 0; next.Scan(); i++ {
			path := filepath.Join(dir, strconv.Itoa(i))
			if err := makeFile(path); err != nil {
				fmt.Printf("file %d: %v\n", i, err)
				os.Exit(1)
			}
			fmt.Println(i)
		}
		os.Exit(0)
	}
	dir := t.TempDir()
	var inputs []io.Writer
	var outputs []*bufio.Scanner
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range processes {
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcessesOpenANewFileAtOnce$")
		c.Env = append(os.Environ(), "ABIDE_TEST_FILES="+dir)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = c.Wait() }()
		inputs, outputs = append(inputs, in), append(outputs, bufio.NewScanner(out))
	}
	for i := range files {
		for _, in := range inputs {
			fmt.Fprintln(in)
		}
		for _, out := range outputs {
			if out.Scan(); out.Text() != strconv.Itoa(i) {
				t.Fatalf("a process says %q of file %d", out.Text(), i)
			}
		}
	}
}

// makeFile opens a file, with a log, a table and a row.
func makeFile(path string) error {
	db, readers, err := Open(path, "mode=rwc&_pragma=busy_timeout(60000)", 1)
	if err != nil {
		return err
	}
	defer db.Close()
	defer readers.Close()
	if err := ShareLog(context.Background(), db, path, "name a file"); err != nil {
		return err
	}
	_, err = db.Exec("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS a (n INTEGER); INSERT INTO a VALUES (1); COMMIT")
	return err
}

// What another program has locked is an error of SQLite, once the time is over.
func TestALockedFileIsAnErrorInTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked.db")
	db, readers, err := Open(path, "mode=rwc", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer readers.Close()
	if _, err := db.Exec("CREATE TABLE a (n INTEGER); BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	other, more, err := Open(path, "mode=rwc", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer more.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*lockedPause, cancel)
	if err := ShareLog(ctx, other, path, "name a file"); err == nil {
		t.Fatal("no error")
	}
}
