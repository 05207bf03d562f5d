package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

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
