package output

import (
	"strings"
	"time"
)

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
