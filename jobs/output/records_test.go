package output_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

func anyTextIsKept(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	d := orders
	d.Name, d.Columns = `Größe "my-job" 日本`, []jobfile.Column{{Name: `my "col"`}}
	j := job(t, o, d)
	id := "␀ \x00 ü ␀0 '\""
	body := `{"a": "\u0000 \ud800", "a": 1e400, "b": "` + strings.Repeat("x", 1<<20) + `"}`
	add(t, j, id)
	c := claim(t, j, 1)[0]
	if c.Key != id {
		t.Errorf("%q", c.Key)
	}
	ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{{ID: id, Unit: id, Fetched: day, Body: []byte(body), Columns: []any{id}}}, Ends: output.Done}))
	got := read(t, j, day)
	if len(got) != 1 || got[0].ID != id || got[0].Unit != id || string(got[0].Body) != body || got[0].Columns[0] != id || !got[0].Fetched.Equal(day) {
		t.Errorf("%d records differ", len(got))
	}
}

func rejectedRecordsAreKeptApart(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a", "b", "c")
	first := claim(t, j, 1)[0] // what was there before the job was opened may have moved since
	ok(t, j.Commit(t.Context(), first, output.Page{Records: []output.Record{record("1", first.Key, 0)}, Ends: output.Done}))
	now := time.Now().Add(time.Hour)
	bad := record("hash", "a", 0)
	bad.Rejected, bad.Body = "it has no \x00 id", []byte("{\"a\":\"\xff\"}")
	for _, c := range claim(t, j, 2) { // the same one twice is one
		number, letter := record("1", c.Key, 0), record("z", c.Key, 0)
		number.Fetched, letter.Fetched = now, now
		ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{number, bad, letter}, Ends: output.Done}))
		if c.Rejected != 1 || (c.Replaced == 2) != (c.Key == "c") {
			t.Errorf("%s: %d are rejected, %d take the place of others", c.Key, c.Rejected, c.Replaced)
		}
	}
	if got, n := ids(read(t, j, time.Time{})), counts(t, j); got != "1 z" || n.Records != 5 || n.Rejects != 1 {
		t.Errorf("%q, %+v", got, n)
	}
	for v, err := range o.Query(t.Context(), "SELECT reason || ' ' || body FROM orders_rejects") {
		if ok(t, err); v[0] != "it has no \x00 id {\"a\":\"\uFFFD\"}" {
			t.Errorf("%q", v)
		}
	}
}

func aCollectionIsKept(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	d := output.Description{Name: "prices", Kind: "collect", Fingerprint: "1", Columns: []jobfile.Column{{Name: "price"}}}
	j := job(t, o, d)
	target := output.Target{Key: "ü", ETag: `"1"`, LastModified: "yesterday", Hash: "h", Failures: 2, Asked: day}
	for i := range 3 {
		ok(t, j.Append(t.Context(), []output.Record{record("x", "u", time.Duration(i)*time.Hour)}, []output.Target{target}))
	}
	if all := must[map[string]output.Target](t)(j.Targets(t.Context())); len(all) != 1 || all["ü"] != target {
		t.Errorf("%+v", all)
	}
	for reason, want := range map[string]string{"": "failures in a row: 2", "503 \x00": "failures in a row: 2; the last: 503 \x00"} {
		target.Reason = reason
		ok(t, j.Append(t.Context(), nil, []output.Target{target}))
		if list := must[[]output.Problem](t)(j.Problems(t.Context(), 9)); len(list) != 1 || list[0] != (output.Problem{Unit: "ü", State: output.Failed, Reason: want, At: day}) {
			t.Errorf("%+v", list)
		}
	}
	if n := must[int64](t)(j.Prune(t.Context(), day.Add(2*time.Hour), false, 1)); n != 1 {
		t.Errorf("%d deleted", n)
	}
	if got := read(t, j, time.Time{}); len(got) != 2 || !got[0].Fetched.Equal(day.Add(time.Hour)) || counts(t, j).Records != 2 {
		t.Errorf("%+v", got)
	}
	// Of records that were replaced, one stays that was valid at the time or later.
	ok(t, j.Append(t.Context(), []output.Record{record("y", "u", 0)}, nil))
	must[int64](t)(j.Prune(t.Context(), day.Add(2*time.Hour), true, 10))
	if got := ids(read(t, j, time.Time{})); got != "y x x" {
		t.Errorf("%q", got)
	}
	must[int64](t)(j.Prune(t.Context(), day.Add(3*time.Hour), true, 10))
	if got := ids(read(t, j, time.Time{})); got != "y x" {
		t.Errorf("%q", got)
	}
	if list := must[[]output.Description](t)(o.Jobs(t.Context())); len(list) != 1 || fmt.Sprint(list[0]) != fmt.Sprint(d) {
		t.Errorf("%+v", list)
	}
}

func aQueryOnlyReads(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	ok(t, j.Append(t.Context(), []output.Record{record("1", "a", 0, "x"), record("2", "a", 0)}, nil))
	ask := func(query string, names ...string) (all []string, err error) {
		for v, err := range o.Query(t.Context(), query, names...) {
			if err != nil {
				return all, err
			}
			all = append(all, v...)
		}
		return all, nil
	}
	if got, err := ask("SELECT price FROM orders ORDER BY id;"); err != nil || fmt.Sprint(got) != "[x]" {
		t.Errorf("%v %v", got, err)
	}
	if got, err := ask("SELECT id, body, unit, price FROM orders ORDER BY id", "price", "unit"); err != nil || fmt.Sprintf("%q", got) != `["1" "x" "a" "2" "" "a"]` {
		t.Errorf("%q %v", got, err)
	}
	if _, err := ask("SELECT id FROM orders", "price"); err == nil || !strings.Contains(err.Error(), `no column "price"; there are id`) {
		t.Error(err)
	}
	for _, query := range []string{"", "DELETE FROM orders", "WITH a AS (DELETE FROM orders RETURNING id) SELECT id FROM a", "SELECT 1) AS a; DELETE FROM orders; SELECT * FROM (SELECT 1"} {
		if _, err := ask(query); err == nil {
			t.Errorf("%q is run", query)
		}
	}
	if got := ids(read(t, j, time.Time{})); got != "1 2" {
		t.Errorf("%q", got)
	}
}

func anotherJobIsRefused(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	job(t, o, orders)
	wider := orders
	wider.Columns = []jobfile.Column{{Name: "day"}, {Name: "price"}}
	j := job(t, o, wider)
	ok(t, j.Append(t.Context(), []output.Record{record("1", "a", 0, "monday", "x")}, nil))
	if got := read(t, must[*output.Job](t)(o.Kept(t.Context(), "orders")), day); len(got) != 1 || got[0].Columns[0] != "x" || got[0].Columns[1] != "monday" {
		t.Errorf("%+v", got)
	}
	other := orders
	other.Fingerprint, other.Request = "2", "GET https://other.test/"
	add(t, j, "a", "b")
	if _, err := o.Job(t.Context(), other); err == nil || !strings.Contains(err.Error(), "https://api.test") || !strings.Contains(err.Error(), "https://other.test") {
		t.Error(err)
	}
	other.Request = orders.Request + "\nthe id \"number\""
	was := orders
	was.Name, was.Request = "tickets", orders.Request+"\nthe id \"id\""
	add(t, job(t, o, was), "a", "b")
	c := claim(t, job(t, o, was), 1)[0]
	ok(t, job(t, o, was).Commit(t.Context(), c, output.Page{Records: []output.Record{record("1", "a", 0)}, Ends: output.Done}))
	other.Name = "tickets"
	if _, err := o.Job(t.Context(), other); err == nil || !strings.Contains(err.Error(), `it had the id "id", and has the id "number"`) {
		t.Error(err)
	}
	other.Name = "orders_units"
	if _, err := o.Job(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Error(err)
	}
}

// aPageIsCommittedOnce has several processes, which forget claims at random.
func aPageIsCommittedOnce(t *testing.T, k kept) {
	const units, pages = 40, 3
	clock := newWatch()
	var all []string
	for i := range units {
		all = append(all, fmt.Sprint("unit", i))
	}
	add(t, job(t, k.open(t, output.Options{Now: clock.Now}), orders), all...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := map[string]int{}
	for p := range 3 {
		j := job(t, k.open(t, output.Options{Now: clock.Now}), orders)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(p)))
			for {
				c, err := j.Counts(t.Context())
				if err != nil || c.Units.Left() == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				claimed, err := j.Claim(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if claimed == nil {
					clock.pass(output.LeaseTime)
				}
				if c := claimed; c != nil {
					for random.IntN(5) > 0 { // otherwise it crashes
						n := c.Pages
						err := j.Commit(t.Context(), c, output.Page{Records: []output.Record{record(fmt.Sprint(c.Key, ".", n), c.Key, 0)}, Ends: doneIf(n == pages-1)})
						if err == nil {
							mu.Lock()
							done[fmt.Sprint(c.Key, ".", n)]++
							mu.Unlock()
						}
						if err != nil || n == pages-1 {
							break
						}
					}
				}
			}
		})
	}
	wg.Wait()
	j := job(t, k.open(t, output.Options{}), orders)
	if c := counts(t, j); c.Units.Done != units || c.Pages != units*pages || c.Records != units*pages {
		t.Errorf("%+v", c)
	}
	for page, n := range done {
		if n != 1 {
			t.Errorf("%s was committed %d times", page, n)
		}
	}
	if n := len(read(t, j, time.Time{})); n != units*pages || len(done) != n {
		t.Errorf("%d records of %d pages", n, len(done))
	}
}

func TestTheFileOfAnotherProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := must[*sql.DB](t)(sql.Open("sqlite", path))
	_, err := db.Exec("CREATE TABLE users (name TEXT)")
	ok(t, err)
	ok(t, db.Close())
	before := must[[]byte](t)(os.ReadFile(path))
	if _, err := output.Open(t.Context(), jobfile.Output{File: path}, output.Options{}); err == nil || !strings.Contains(err.Error(), "users") {
		t.Error(err)
	}
	if string(must[[]byte](t)(os.ReadFile(path))) != string(before) {
		t.Error("it was changed")
	}
}

// TestTablesOfAnOlderReleaseGetTheirNewColumn: units had no values, and targets no reasons.
func TestTablesOfAnOlderReleaseGetTheirNewColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "items.db")
	k := kept{jobfile.Output{File: path}}
	o := k.open(t, output.Options{})
	prices := output.Description{Name: "prices", Kind: "collect"}
	add(t, job(t, o, orders), "a")
	job(t, o, prices)
	ok(t, o.Close())
	db := must[*sql.DB](t)(sql.Open("sqlite", path))
	for _, text := range []string{"ALTER TABLE orders_units DROP COLUMN item", "ALTER TABLE prices_targets DROP COLUMN reason"} {
		_, err := db.Exec(text)
		ok(t, err)
	}
	ok(t, db.Close())
	o = k.open(t, output.Options{})
	j := job(t, o, orders)
	must[int64](t)(j.AddUnits(t.Context(), func(yield func(output.Unit, error) bool) {
		yield(output.Unit{Key: "a", Values: map[string]string{"name": "\x00ä"}}, nil)
	}, false))
	if c := claim(t, j, 1); len(c) != 1 || c[0].Key != "a" || c[0].Values["name"] != "\x00ä" {
		t.Errorf("%+v", c)
	}
	ok(t, job(t, o, prices).Append(t.Context(), nil, []output.Target{{Key: "x", Reason: "away", Asked: day}}))
}

// aJobWithoutRecordsMayChange: its request was wrong.
func aJobWithoutRecordsMayChange(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a", "b")
	c := claim(t, j, 1)[0]
	other := orders
	other.Fingerprint, other.Columns = "2", nil
	if _, err := o.Job(t.Context(), other); err == nil {
		t.Error("a job that a process works on was dropped")
	}
	ok(t, j.End(t.Context(), c, output.Failed, time.Time{}, "404"))
	j = job(t, o, other)
	if n := counts(t, j); n.Units.Left() != 0 || n.Units.Failed != 0 {
		t.Errorf("%+v", n)
	}
	add(t, j, "c")
	bad := record("x", "c", 0)
	bad.Columns, bad.Rejected = nil, "no id"
	ok(t, j.Commit(t.Context(), claim(t, j, 1)[0], output.Page{Records: []output.Record{bad}, Ends: output.Done}))
	if _, err := o.Job(t.Context(), orders); err == nil || counts(t, j).Rejects != 1 {
		t.Error("records that were rejected are lost")
	}
}

// A process that was killed leaves the file with its id: the next one need not wait for the ends of its leases.
func TestTheNextProcessFreesTheUnitsOfOneThatWasKilled(t *testing.T) {
	at := jobfile.Output{File: filepath.Join(t.TempDir(), "items.db")}
	for _, killed := range []bool{true, false} {
		name := fmt.Sprint("killed", killed)
		d := orders
		d.Name = name
		o := must[*output.Output](t)(output.Open(t.Context(), at, output.Options{}))
		j := job(t, o, d)
		add(t, j, "a")
		claim(t, j, 1)
		second := must[*output.Output](t)(output.Open(t.Context(), at, output.Options{}))
		add(t, job(t, second, d), "a")
		if c := claim(t, job(t, second, d), 1); len(c) > 0 {
			t.Error("another process has the unit of one that is alive")
		}
		path := at.File + "-claims-" + name
		id, err := os.ReadFile(path)
		ok(t, err)
		ok(t, o.Close())
		ok(t, second.Close())
		if killed {
			ok(t, os.WriteFile(path, id, 0o600))
		}
		next := must[*output.Output](t)(output.Open(t.Context(), at, output.Options{}))
		add(t, job(t, next, d), "a")
		if c := claim(t, job(t, next, d), 1); (len(c) == 1) != killed {
			t.Errorf("killed: %v: %d units are free", killed, len(c))
		}
		ok(t, next.Close())
	}
}

// A file of SQLite that was removed has no name any more, and what is written to it ends with the process.
func TestAFileThatWasRemovedIsWrittenNoMore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.db")
	o, err := output.Open(t.Context(), jobfile.Output{File: file}, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	j, err := o.Job(t.Context(), output.Description{Name: "orders", Kind: "backfill"})
	if err == nil {
		err = j.Append(t.Context(), []output.Record{{ID: "a", Body: []byte("1")}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Remove(file) != nil {
		return // Windows keeps a file that is open
	}
	if err := j.Append(t.Context(), []output.Record{{ID: "b", Body: []byte("1")}}, nil); err == nil || errors.Is(err, output.ErrAway) || !strings.Contains(err.Error(), "the file was removed") {
		t.Error(err)
	}
}
