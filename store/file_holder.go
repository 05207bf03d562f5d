package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

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
