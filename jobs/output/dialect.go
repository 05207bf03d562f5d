package output

import (
	"strings"
	"time"
)

// dialect holds the differences between the two databases.
type dialect struct {
	clock     string // the present, in milliseconds since 1970
	skip      string // rows that another transaction has locked are left out
	blob      string // types
	time      string
	json      string
	column    string
	longest   int    // bytes of a name; 0: no limit
	prelude   string // begins a transaction that makes tables
	hasColumn string // what follows ADD COLUMN
}

var sqliteDialect = &dialect{
	clock: "0", // is always given
	blob:  "BLOB", time: "TEXT", json: "TEXT",
}

var postgresDialect = &dialect{
	clock: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
	skip:  "FOR UPDATE SKIP LOCKED",
	blob:  "BYTEA", time: "TIMESTAMPTZ", json: "JSON", column: "TEXT",
	longest:   63,
	prelude:   "SELECT pg_advisory_xact_lock(70618001)", // an arbitrary number
	hasColumn: "IF NOT EXISTS ",
}

// at is a time as an argument.
func (d *dialect) at(t time.Time) any {
	t = Precise(t)
	if d == sqliteDialect {
		return t.Format(sqliteTime)
	}
	return t
}

// replacements returns the differing parts of statements: each placeholder and its text.
func (d *dialect) replacements() []string {
	return []string{
		// The first argument is the time of Options.Now, or NULL.
		"{now}", "coalesce(CAST($1 AS BIGINT), " + d.clock + ")",
		"{skip}", d.skip,
		"{blob}", d.blob, "{time}", d.time, "{json}", d.json, "{column}", d.column,
	}
}

var (
	withoutNUL = strings.NewReplacer("\x00", "␀0", "␀", "␀␀")
	withNUL    = strings.NewReplacer("␀0", "\x00", "␀␀", "␀")
)

// encode makes a text that both databases can keep. decode is its reverse.
func encode(s string) string {
	return withoutNUL.Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func decode(s string) string { return withNUL.Replace(s) }

// quote makes an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// sqliteTime is the layout of times in SQLite: texts of one length, whose order is that of the
// times.
const sqliteTime = "2006-01-02T15:04:05.000000Z"

// instant reads a time of a row.
func instant(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v.UTC()
	case string:
		if at, err := time.Parse(sqliteTime, v); err == nil {
			return at
		}
	}
	return time.Time{}
}

// Precise rounds a time to what both databases keep.
func Precise(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
