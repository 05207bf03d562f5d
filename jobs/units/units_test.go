package units

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

func load(t testing.TB, text string) *jobfile.Job {
	t.Helper()
	j, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// urls are the URLs of all units.
func urls(t testing.TB, j *jobfile.Job) (list []string) {
	t.Helper()
	for u, err := range Of(t.Context(), j, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := Fill(j, u)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r.URL.String())
	}
	return list
}

// fetchedAgain are the keys of the units that a run fetches again.
func fetchedAgain(t *testing.T, j *jobfile.Job) (keys []string) {
	t.Helper()
	for u, err := range Of(t.Context(), j, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Again {
			keys = append(keys, u.Key)
		}
	}
	return keys
}

func TestEachStepOfARangeIsAUnit(t *testing.T) {
	for _, c := range []struct {
		dates string
		url   string
		want  []string
	}{
		{"from: 2024-02-28, to: 2024-03-01", "{date}", []string{"2024-02-28", "2024-02-29", "2024-03-01"}},
		{"from: 2024-01-31, to: 2024-04-30, step: 1mo", "{from}/{to}", []string{"2024-01-31/2024-02-29", "2024-02-29/2024-03-31", "2024-03-31/2024-04-30", "2024-04-30/2024-05-31"}},
		{"from: 2025-01-31T22:00, to: 2025-01-31T23:00, step: 30min", "{from}/{to:unix}", []string{"2025-01-31T22:00:00Z/1738362600", "2025-01-31T22:30:00Z/1738364400", "2025-01-31T23:00:00Z/1738366200"}},
		{"from: 2025-01-31T23:00, to: 2025-01-31, step: 20min", "{date:15:04}", []string{"23:00", "23:20", "23:40"}},
		{"from: 2023, to: 2025, step: 1y", "{from}/{to}", []string{"2023-01-01/2024-01-01", "2024-01-01/2025-01-01", "2025-01-01/2026-01-01"}},
		{"from: 2023-11, to: 2023, step: 1mo", "{from:2006-01}", []string{"2023-11", "2023-12"}},
		{"from: 2025-01-01, to: 2025-01-15, step: 1w", "{from}/{to:2006/01}", []string{"2025-01-01/2025%2F01", "2025-01-08/2025%2F01", "2025-01-15/2025%2F01"}},
		{"from: 2025-03-30T00:00, to: 2025-03-30T04:00, step: 1h, timezone: Europe/Berlin", "{date:unix}", []string{"1743289200", "1743292800", "1743296400", "1743300000"}},
		{"from: 2025-01-31T22:00, to: 2025-02-01, step: 6h", "{date:2006-01-02 15}", []string{"2025-01-31%2022", "2025-02-01%2004", "2025-02-01%2010", "2025-02-01%2016", "2025-02-01%2022"}},
	} {
		j := load(t, "name: a\nrequest: \"https://api.test/"+c.url+"\"\nrange: {"+c.dates+"}")
		var want []string
		for _, one := range c.want {
			want = append(want, "https://api.test/"+one)
		}
		if got := urls(t, j); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", c.dates, got, want)
		}
	}
}

// TestEachItemHasEachStepOfARange: the values of an item are kept, and again is of the last part of the range, for each item.
func TestEachItemHasEachStepOfARange(t *testing.T) {
	j := load(t, "name: a\nrequest: \"https://api.test/{item}/{item.last}?day={date:0102}&end={to:0102}\"\nitems: {from: 1, to: 5, step: 2}\nrange: {from: 2024-01-31, to: 2024-02-29, step: 1mo, again: 3d}")
	var want []string
	for _, item := range []string{"1/2", "3/4", "5/5"} {
		want = append(want, "https://api.test/"+item+"?day=0131&end=0229", "https://api.test/"+item+"?day=0229&end=0331")
	}
	if got := urls(t, j); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if again := fetchedAgain(t, j); strings.Join(again, ", ") != "1 2024-02-29, 3 2024-02-29, 5 2024-02-29" {
		t.Errorf("again are %q", again)
	}
	j = load(t, "name: a\nrequest: \"https://api.test/?of={item}&at={from}\"\nitems: [all, a b]\nrange: {from: 2024-01-01, to: 2024-01-01, step: 12h}")
	want = want[:0]
	for _, item := range []string{"all", "a+b"} {
		want = append(want, "https://api.test/?of="+item+"&at=2024-01-01T00%3A00%3A00Z", "https://api.test/?of="+item+"&at=2024-01-01T12%3A00%3A00Z")
	}
	if got := urls(t, j); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	j = load(t, "name: a\nrequest: \"https://api.test/{item}\"\nitems: {to: 2}")
	if got := urls(t, j); !slices.Equal(got, []string{"https://api.test/0", "https://api.test/1", "https://api.test/2"}) {
		t.Errorf("numbers are %v", got)
	}
}

func TestTheLastPartOfARangeIsFetchedAgainByEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at 2000-01-01 00:00 UTC
		time.Sleep(10*time.Hour + 30*time.Minute)
		for _, c := range []struct{ dates, last, again string }{
			{"from: 1999-12-01, to: yesterday, again: 3d", "1999-12-31", "1999-12-29 1999-12-30 1999-12-31"},
			{"from: 1999-12-01, to: today, again: 1d", "2000-01-01", "2000-01-01"},
			{"from: 1999-12-31, to: now", "1999-12-31", ""},
			{"from: 1999-12-31, to: now, timezone: Pacific/Kiritimati", "2000-01-01", ""},
			{"from: 1999-12-31, to: today, timezone: Pacific/Kiritimati, again: 1w", "2000-01-02", "1999-12-31 2000-01-01 2000-01-02"},
			{"from: 1999-12-31, to: now, step: 1h, again: 2h", "2000-01-01T09:00:00Z", "2000-01-01T08:00:00Z 2000-01-01T09:00:00Z"},
			{"from: 1999-12-31, to: yesterday, step: 6h, again: 6h", "1999-12-31T18:00:00Z", "1999-12-31T18:00:00Z"},
			{"from: 1999-08, to: today, step: 1mo, again: 1mo", "2000-01-01", "2000-01-01"},
			{"from: 1999-12-31, to: today, step: 1h, again: 2h", "2000-01-01T10:00:00Z", "2000-01-01T09:00:00Z 2000-01-01T10:00:00Z"},
			{"from: 1999-12-31, to: today, step: 15min, timezone: America/New_York", "2000-01-01T05:30:00-05:00", ""},
			{"from: 1999-12-31, to: 2000-01-01, step: 1h", "2000-01-01T23:00:00Z", ""}, // as of a forecast
			{"from: 1999-08, to: now, step: 1mo, again: 2mo", "1999-12-01", "1999-11-01 1999-12-01"},
		} {
			j := load(t, "name: a\nrequest: \"https://api.test/{date}\"\nrange: {"+c.dates+"}")
			var last string
			for u, err := range Of(t.Context(), j, nil, false) {
				if err != nil {
					t.Fatal(err)
				}
				last = u.Key
			}
			if again := fetchedAgain(t, j); last != c.last || strings.Join(again, " ") != c.again {
				t.Errorf("%s: the last is %s, again are %q", c.dates, last, again)
			}
		}
	})
}

// The steps of a range meet: the end of each is the start of the next, also where clocks are
// changed.
func TestStepsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(rapid.IntRange(2000, 2030).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "day"), 0, 0, 0, 0, zone)
		r := &jobfile.Range{From: from, To: from.AddDate(0, rapid.IntRange(0, 3).Draw(t, "months"), 5), Zone: zone, Step: jobfile.Step{
			N: rapid.IntRange(1, 40).Draw(t, "n"), Unit: rapid.SampledFrom([]string{"h", "d", "mo"}).Draw(t, "unit"),
		}}
		j := &jobfile.Job{Range: r, Request: jobfile.Request{Method: "GET", URL: "https://api.test/?a={from:unix}&b={to:unix}"}}
		end, n, seen := "", 0, map[string]bool{}
		for u, err := range Of(context.Background(), j, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[u.Key] {
				t.Fatalf("two units have the key %s", u.Key)
			}
			seen[u.Key] = true
			filled, err := Fill(j, u)
			if err != nil {
				t.Fatal(err)
			}
			q := filled.URL.Query()
			if n > 0 && q.Get("a") != end {
				t.Fatalf("unit %s begins at %s, the one before ends at %s", u.Key, q.Get("a"), end)
			}
			end, n = q.Get("b"), n+1
		}
		if n == 0 {
			t.Fatal("there is no unit")
		}
	})
}

func TestADayWithoutAMidnightIsAUnitOfItsOwn(t *testing.T) {
	j := load(t, "name: a\nrequest: \"https://api.test/{date}\"\nrange: {from: 2018-11-03, to: 2018-11-05, timezone: America/Sao_Paulo}")
	want := []string{"https://api.test/2018-11-03", "https://api.test/2018-11-04", "https://api.test/2018-11-05"}
	if got := urls(t, j); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestItemsComeFromListsAndFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := write("ids.txt", "\ufeffa b\n\n# a comment\n c/d \r\n")
	table := write("ids.csv", "\ufeffname,id\nx,1\ny,\"2,3\"\n")
	german := write("german.csv", "\ufeffname;id\nx,y;1\n;2\n")
	for items, want := range map[string][]string{
		"{csv: " + german + ", column: id}":  {"1", "2"},
		"[x, 'ä&b']":                         {"x", "%C3%A4&b"},
		lines:                                {"a%20b", "c%2Fd"},
		"{csv: " + table + ", column: id}":   {"1", "2%2C3"},
		"{csv: " + table + ", column: name}": {"x", "y"},
	} {
		for i := range want {
			want[i] = "https://api.test/" + want[i]
		}
		if got := urls(t, load(t, "name: a\nrequest: https://api.test/{item}\nitems: "+items)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", items, got)
		}
	}
	if got := urls(t, load(t, "name: a\nrequest: https://api.test/{item.name}/{item}?n={item.name}\nitems: {csv: "+table+", column: id}")); !slices.Equal(got, []string{"https://api.test/x/1?n=x", "https://api.test/y/2%2C3?n=y"}) {
		t.Errorf("%v", got)
	}
	// A value that is missing is none in a column, and no part of a path.
	for url, want := range map[string]string{"{item}?n={item.name}": "https://api.test/2?n=", "{item.name}": "the unit 2 has no value {item.name} for the path of its URL"} {
		j := load(t, "name: a\nrequest: https://api.test/"+url+"\nitems: {csv: "+german+", column: id}\ncolumns: {n: '{item.name}'}")
		r, err := Fill(j, output.Unit{Key: "2", Values: map[string]string{"name": ""}})
		if err != nil {
			if err.Error() != want {
				t.Error(err)
			}
			continue
		}
		record := output.Record{Columns: []any{nil}}
		if r.Complete(&record); r.URL.String() != want || record.Columns[0] != nil {
			t.Errorf("%s %v", r.URL, record.Columns)
		}
	}
	for items, want := range map[string]string{
		filepath.Join(dir, "none"):         "the items cannot be read",
		"{csv: " + table + ", column: nr}": `there is no column "nr"; there are name, id`,
		"{job: other.db, column: id}":      "other.db: there is no such file",
	} {
		var fault error
		for _, err := range Of(t.Context(), load(t, "name: a\nrequest: https://api.test/{item}\nitems: "+items), nil, false) {
			fault = err
		}
		if fault == nil || !strings.Contains(fault.Error(), want) {
			t.Errorf("%s: %v", items, fault)
		}
	}
}

func TestAPlaceholderCannotChangeTheRequestAroundIt(t *testing.T) {
	j := load(t, `{name: a, request: {url: "https://api.test/x?q={item}&k=1", method: POST, headers: {X-Item: "{item}"}, body: '{"id": "{item}"}'}, items: ['a"&k=2']}`)
	r, err := Fill(j, output.Unit{Key: `a"&k=2`})
	if err != nil {
		t.Fatal(err)
	}
	if q := r.URL.Query(); q.Get("q") != `a"&k=2` || q.Get("k") != "1" || string(r.Body) != `{"id": "a\"\u0026k=2"}` || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s", r.URL, r.Body)
	}
	if _, err := Fill(j, output.Unit{Key: "a\r\nX-Other: b"}); err == nil {
		t.Error("an item with a line break got into a header")
	}
	if got := urls(t, load(t, `{name: a, request: "https://api.test/repos/{item:path}/issues?of={item:path}&q={item}", items: ["a b/c"]}`)); got[0] != "https://api.test/repos/a%20b/c/issues?of=a+b%2Fc&q=a+b%2Fc" {
		t.Errorf("%v", got)
	}
	form := `{name: a, request: {url: "https://api.test/", method: POST, body: "q={item}&after="}, items: [x], paginate: {style: cursor, in: body, param: after, next: n}}`
	if r, err := Fill(load(t, form), output.Unit{Key: "a&b"}); err != nil || string(r.Body) != "q=a%26b&after=" || r.Header.Get("Content-Type") != formType {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := Fill(load(t, `{name: a, request: "https://api.test/users/{item:path}/x", items: [x]}`), output.Unit{Key: "a/../b"}); err == nil {
		t.Errorf("an item leads to %s", r.URL)
	}
	j = load(t, `{name: a, request: "https://api.test/users/{item}/orders", items: [x]}`)
	for _, item := range []string{".", ".."} {
		if r, err := Fill(j, output.Unit{Key: item}); err == nil {
			t.Errorf("the item %s leads to %s", item, r.URL)
		}
	}
}

func TestAnIdempotencyKeyStaysTheSameForEachPageOfAUnit(t *testing.T) {
	j := load(t, `{name: a, request: {url: "https://api.test/{item}", method: POST}, items: [x, y]}`)
	key := func(item, page, body string) string {
		r, err := Fill(j, output.Unit{Key: item})
		if err != nil {
			t.Fatal(err)
		}
		sent, err := r.HTTP(r.URL.JoinPath(page), []byte(body), "", "")
		if err != nil {
			t.Fatal(err)
		}
		return sent.Header.Get("Idempotency-Key")
	}
	first := key("x", "", "")
	if first == "" || first != key("x", "", "") || first == key("y", "", "") || first == key("x", "2", "") || first == key("x", "", `{"after":1}`) {
		t.Errorf("%q, %q, %q", first, key("y", "", ""), key("x", "2", ""))
	}
}

func TestTheFingerprintIsOfWhatMustNotChange(t *testing.T) {
	const text = `{name: a, request: {url: "https://api.test/{date}"}, range: {from: 2025-01-01, to: 2025-01-31}, id: id, workers: 4}`
	was := Fingerprint(load(t, text))
	for change, differs := range map[string]bool{
		"2025-01-31 → 2025-12-31": false, "workers: 4 → workers: 9": false, "id: id → id: number": true, "/{date} → /v2/{date}": true,
		"31} → 31, step: 1d}": false, "31} → 31, step: 1mo}": true, "31} → 31, timezone: Asia/Tokyo}": true, "from: 2025-01-01 → from: 2024-01-01": false, "from: 2025-01-01 → from: 2025-01-01T12:00": true,
	} {
		old, with, _ := strings.Cut(change, " → ")
		if got := Fingerprint(load(t, strings.Replace(text, old, with, 1))); (got != was) != differs {
			t.Errorf("%s", change)
		}
	}
}
