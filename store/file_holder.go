package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// signIn writes into the file which process has opened it last, for a release that does
// not share it.
func (f *File) signIn(ctx context.Context, d *disk) error {
	if f.lock == nil {
		return nil
	}
	_, err := d.conn.ExecContext(ctx, "INSERT OR REPLACE INTO meta VALUES ('holder', ?)", string(f.lock.who.text()))
	if err != nil && (damaged(err) || doubtful(err)) {
		return err
	}
	return nil // on a full disk that has to wait
}

// holderKept is who has written last that he has the file.
func holderKept(path string) (h signature) {
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
