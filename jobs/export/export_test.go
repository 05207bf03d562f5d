package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

var (
	about = output.Description{Name: "orders", Columns: []jobfile.Column{{Name: "day"}, {Name: "total"}}}
	at    = time.Date(2026, time.March, 1, 12, 0, 0, 123456000, time.UTC)
	two   = []output.Record{
		{ID: "a", Unit: "u", Fetched: at, Body: []byte(`{"n":12345678901234567890,"t":"x, \"y\"\n"}`), Columns: []any{"2026-03-01", int64(7)}},
		{ID: "ä", Unit: "u", Fetched: at, Body: []byte(`["<1.10>"]`), Columns: []any{nil, 0.5}},
	}
)

func each(list []output.Record) iter.Seq2[output.Record, error] {
	return func(yield func(output.Record, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestJSONLinesKeepEveryBodyAsItCame(t *testing.T) {
	var b bytes.Buffer
	if n, err := Write(&b, JSONLines, about, each(two)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for i, text := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		var got line
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.ID != two[i].ID || string(got.Body) != string(two[i].Body) || !got.Fetched.Equal(at) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCSVHasTheColumnsOfTheJob(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, CSV, about, each(two)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint([][]string{
		{"id", "unit", "fetched_at", "day", "total", "body"},
		{"a", "u", "2026-03-01T12:00:00.123456Z", "2026-03-01", "7", string(two[0].Body)},
		{"ä", "u", "2026-03-01T12:00:00.123456Z", "", "0.5", `["<1.10>"]`},
	})
	if fmt.Sprint(rows) != want {
		t.Errorf("\n got %v\nwant %v", rows, want)
	}
}

func TestParquetIsReadBack(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, Parquet, about, each(two)); err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID      string  `parquet:"id"`
		Unit    string  `parquet:"unit"`
		Fetched int64   `parquet:"fetched_at,timestamp(microsecond)"`
		Body    string  `parquet:"body,json"`
		Day     *string `parquet:"day,optional"`
		Total   *string `parquet:"total,optional"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	if r := rows[0]; r.ID != "a" || r.Body != string(two[0].Body) || *r.Day != "2026-03-01" || *r.Total != "7" || r.Fetched != at.UnixMicro() {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.ID != "ä" || r.Day != nil || *r.Total != "0.5" {
		t.Errorf("%+v", r)
	}
}

func TestParquetHasTheTypesOfColumns(t *testing.T) {
	typed := output.Description{Name: "a"}
	for _, name := range []string{"integer", "number", "boolean", "time", "json"} {
		typed.Columns = append(typed.Columns, jobfile.Column{Name: name, Type: name})
	}
	var b bytes.Buffer
	record := output.Record{ID: "a", Fetched: at, Body: []byte("{}"), Columns: []any{int64(7), "0.5", true, at.Format(output.TimeForm), `{"a":1}`}}
	if _, err := Write(&b, Parquet, typed, each([]output.Record{record, {ID: "b", Columns: make([]any, 5)}})); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Integer *int64   `parquet:"integer,optional"`
		Number  *float64 `parquet:"number,optional"`
		Boolean *bool    `parquet:"boolean,optional"`
		Time    *int64   `parquet:"time,optional,timestamp(microsecond)"`
		JSON    *string  `parquet:"json,optional,json"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	if r := rows[0]; *r.Integer != 7 || *r.Number != 0.5 || !*r.Boolean || *r.Time != at.UnixMicro() || *r.JSON != `{"a":1}` {
		t.Errorf("%+v", r)
	}
	if rows[1] != (row{}) {
		t.Errorf("%+v", rows[1])
	}
}

func TestMemoryDoesNotGrowWithTheRecords(t *testing.T) {
	for _, f := range Formats {
		var peak uint64
		records := func(yield func(output.Record, error) bool) {
			body := []byte(`{"text":"` + strings.Repeat("x", 300) + `"}`)
			for i := range 200_000 {
				if i%20_000 == 0 {
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
				}
				if !yield(output.Record{ID: fmt.Sprint(i), Unit: "u", Fetched: at, Body: body, Columns: []any{"d", int64(i)}}, nil) {
					return
				}
			}
		}
		if n, err := Write(io.Discard, f, about, records); n != 200_000 || err != nil {
			t.Fatal(n, err)
		}
		if peak > 150<<20 {
			t.Errorf("%s: %d MB were in use for %d MB of records", f, peak>>20, 200_000*310>>20)
		}
	}
}

func TestAnErrorOfTheOutputEndsTheExport(t *testing.T) {
	broken := errors.New("the database is gone")
	for _, f := range Formats {
		_, err := Write(io.Discard, f, about, func(yield func(output.Record, error) bool) {
			_ = yield(two[0], nil) && yield(output.Record{}, broken)
		})
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", f, err)
		}
	}
}
