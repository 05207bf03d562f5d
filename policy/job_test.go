package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

var jobSchema = sync.OnceValues(func() (*jsonschema.Schema, error) { return policy.Compiled(jobfile.Schema(), "") })

func readJob(t *testing.T, text string) (*jobfile.Job, error) {
	t.Helper()
	j, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: []byte(text), Environ: []string{"TOKEN=s3cret", "PGPASS=p@ss"}})
	if err == nil {
		if complaint := policy.Disagreement([]byte(text), nil, jobSchema); complaint != "" {
			t.Error(complaint)
		}
	}
	return j, err
}

const minimalJob = `{name: orders, request: {url: "https://api.example.com/orders?day={date}"}, range: {from: 2025-01-01, to: 2025-12-31}, paginate: {style: cursor, param: cursor, next: next_cursor}, records: data, id: id, output: items.db}`

func TestTheSmallestJobIsOneLine(t *testing.T) {
	j, err := readJob(t, minimalJob)
	if err != nil {
		t.Fatal(err)
	}
	if j.Name != "orders" || j.Request.Method != "GET" || j.Request.Idempotency || j.Range.Step.String() != "1d" || j.Paginate.Next != "next_cursor" ||
		j.Workers != 4 || len(j.ID) != 1 || !strings.HasSuffix(j.Output.File, "/items.db") {
		t.Errorf("%+v", j)
	}
}

func TestAJobMayBeWrittenInManyForms(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   func(j *jobfile.Job) bool
	}{
		"a URL alone": {"name: a\nrequest: https://api.test/x", func(j *jobfile.Job) bool {
			return j.Request.URL == "https://api.test/x" && strings.HasSuffix(j.Output.File, "/a.db")
		}},
		"placeholders unquoted": {"name: a\nrequest:\n  url: https://api.test/x?d={date:2006/01/02}&t={to:unix}\nrange: {from: 2025-01, to: 2025-03, step: 1mo, timezone: Europe/Berlin}", func(j *jobfile.Job) bool {
			return j.Range.Step == jobfile.Step{N: 1, Unit: "mo"} && j.Range.Zone.String() == "Europe/Berlin"
		}},
		"a list of items": {"name: a\nrequest: https://api.test/{item}\nitems: [x, y]", func(j *jobfile.Job) bool { return len(j.Items.List) == 2 }},
		"a file of items": {"name: a\nrequest: https://api.test/{item}\nitems: ids.txt", func(j *jobfile.Job) bool { return strings.HasSuffix(j.Items.File, "/ids.txt") }},
		"a column":        {"name: a\nrequest: https://api.test/{item}\nitems: {csv: ids.csv, column: id}", func(j *jobfile.Job) bool { return j.Items.Column == "id" }},
		"another job":     {"name: a\nrequest: https://api.test/{item}\nitems: {job: orders.db, column: id}", func(j *jobfile.Job) bool { return strings.HasSuffix(j.Items.Job.File, "/orders.db") }},
		"pages by a word": {"name: a\nrequest: https://api.test/\npaginate: auto", func(j *jobfile.Job) bool { return j.Paginate.Style == jobfile.AutoPages }},
		"pages by number": {"name: a\nrequest: https://api.test/\npaginate: {style: page, size: 100, size_param: per_page}", func(j *jobfile.Job) bool {
			return j.Paginate.Param == "page" && j.Paginate.First == jobfile.UnknownFirst
		}},
		"the hash of a record": {"name: a\nrequest: https://api.test/\nid: hash", func(j *jobfile.Job) bool { return j.ID == nil }},
		"several fields":       {"name: a\nrequest: https://api.test/\nid: [shop, number]", func(j *jobfile.Job) bool { return len(j.ID) == 2 }},
		"columns as a list":    {"name: a\nrequest: https://api.test/\ncolumns: [user.name, day]", func(j *jobfile.Job) bool { return j.Columns[0] == jobfile.Column{Name: "name", Path: "user.name"} }},
		"a job that writes":    {"name: a\nrequest: {url: https://api.test/, method: post, body: '{\"id\": \"{item}\"}'}\nitems: [x]", func(j *jobfile.Job) bool { return j.Request.Method == "POST" && j.Request.Idempotency }},
		"a secret in a header": {"name: a\nrequest: {url: https://api.test/, headers: {Authorization: \"Bearer ${TOKEN}\"}}", func(j *jobfile.Job) bool { return j.Request.Headers[0].Value.Reveal() == "Bearer s3cret" }},
		"PostgreSQL": {"name: a\nrequest: https://api.test/\noutput: postgres://me:${PGPASS}@db.test/jobs", func(j *jobfile.Job) bool {
			return j.Output.String() == "postgres://me@db.test/jobs" && strings.Contains(j.Output.URL.Reveal(), "p%40ss")
		}},
		"a variable in a file name": {"name: a\nrequest: https://api.test/\noutput: /data/${TOKEN}/x.db", func(j *jobfile.Job) bool { return j.Output.File == "/data/s3cret/x.db" }},
		"a collection":              {"name: a\nrequest: https://api.test/{item}\nitems: [x]\nevery: 30s\nstore: all\nkeep: 30d\nmemory: 10MB\npriority: [{items: 'x*', priority: 1}]", func(j *jobfile.Job) bool { return j.Collect.All && j.Collect.Priority[0].Priority == 1 }},
		"many items one request":    {"name: a\nrequest: https://api.test/\nitems: [x, y]\nevery: 30s\nbatch: {param: ids}", func(j *jobfile.Job) bool { return j.Collect.Batch == jobfile.Batch{Param: "ids", Size: 100, Join: ","} }},
	} {
		if j, err := readJob(t, c.text); err != nil || !c.ok(j) {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

func TestWhatIsWrongWithAJobIsSaidWhereItIs(t *testing.T) {
	const head = "name: a\nrequest: https://api.test/{item}\nitems: [x]\n"
	for text, want := range map[string]string{
		"":                                   `job.yaml:1: is empty; docs/jobs.md begins with a job`,
		"name: a\nrequst: https://api.test/": `job.yaml:2: requst: is not a key; did you mean "request"?`,
		"request: https://api.test/":         `job.yaml:1: needs name`,
		"name: 'a b'\nrequest: https://api.test/": `job.yaml:1: name: is no name of a job`,
		"name: a\nrequest: api.test/x":            `job.yaml:2: request: "api.test/x" is no URL with http:// or https://`,
		"name: a\nrequest: https://api.test/?d={dat}\nrange: {from: 2025-01-01, to: 2025-01-02}":                `job.yaml:2: request: has {dat}, which is no placeholder; did you mean "date"?`,
		"name: a\nrequest: https://api.test/{item}":                                                             `job.yaml:2: request.url: has {item}, and the job has no items`,
		"name: a\nrequest: https://api.test/{date}\nitems: [x]":                                                 `has {date}, and the job has no range`,
		"name: a\nrequest: https://api.test/\nitems: [x]":                                                       `request: has none of the placeholders {item}`,
		head + "range: {from: 2025-01-01, to: 2025-01-02}":                                                      `has none of the placeholders {date}, {from}, {to}, so all units would ask for the same`,
		"name: a\nrequest: https://api.test/{date}\nrange: {from: 2025-02-01, to: 2025-01-01}":                  `job.yaml:3: range.to: is before from`,
		"name: a\nrequest: https://api.test/{date}\nrange: {from: 01.02.2025, to: 2025-01-01}":                  `range.from: "01.02.2025" is no date; write 2025-01-31`,
		"name: a\nrequest: https://api.test/{date}\nrange: {from: 2025-01-01}":                                  `range: needs to`,
		"name: a\nrequest: https://api.test/{date}\nrange: {from: 2025-01-01, to: 2025-01-01, step: 1m}":        `range.step: "1m" is no step; write 15min, 1h, 1d, 1w, 1mo or 1y`,
		"name: a\nrequest: https://api.test/{date}\nrange: {from: 2025-01-01, to: 2025-01-01, timezone: CET+1}": `range.timezone: "CET+1" is not a time zone`,
		head + "output: abide.db":                        `output: is abide.db, which has the state of abide; name a file of its own`,
		head + "output: mysql://db.test/x":               `output: has a scheme that is not postgres`,
		head + "paginate: {style: cursor, next: cursor}": `paginate: needs param with style cursor`,
		head + "paginate: {style: cursor, param: c}":     `paginate: needs next, the path of the cursor in the body, or header`,
		head + "paginate: {style: link, next: x}":        `paginate.next: does not go with style link`,
		head + "paginate: {style: curser}":               `paginate.style: "curser" is none of none, auto, offset, page, cursor, link, next_url; did you mean "cursor"?`,
		head + "columns: {body: x}":                      `columns.body: "body" is a column of every table of records`,
		head + "columns: [a.name, b.Name]":               `columns[1]: "Name" is a column of every table of records, or is there twice; write another name, as in columns: {NAME: b.Name}`,
		head + "columns: [a.id]":                         `columns[0]: "id" is a column of every table of records`,
		head + "columns: {a-b: x}":                       `columns.a-b: "a-b" is no name of a column`,
		"name: a\nrequest: https://api.test/{date:foo}\nrange: {from: 2025-01-01, to: 2025-01-02}": `has {date:foo}, whose form is none`,
		"name: a\nrequest: {url: https://api.test/, headers: {A: b, a: c}}":                        `request.headers.a: is there twice`,
		"name: a\nrequest: https://api.test/{item}\nitems: [x, '']":                                `items[1]: is empty`,
		head + "workers: 0":   `workers: "0" is less than 1`,
		head + "keep: 30d":    `keep: is for collections, which have every`,
		head + "every: 100ms": `every: "100ms" is less than 1s`,
		"name: a\nrequest: {url: https://api.test/, headers: {A: \"${NONE}\"}}":          `request.headers.A: refers to the variable NONE, which is not set`,
		"name: a\nrequest: {url: https://api.test/, headers: {Host: x}}":                 `request.headers.Host: cannot be set by a job`,
		"name: a\nrequest: {url: https://api.test/, body: x}":                            `request.body: does not go with GET; set method`,
		"name: a\nrequest: https://me:secret@api.test/":                                  `has a user or password; send them in an Authorization header`,
		"name: a\nrequest: https://api.test/{item}\nitems: {csv: a.csv}":                 `items: needs column`,
		"name: a\nrequest: https://api.test/{item}\nitems: {from: 9, to: 5}":             `items.to: is less than from`,
		"name: a\nrequest: https://api.test/{item}\nitems: {to: 5, column: a}":           `items.column: does not go with to`,
		"name: a\nrequest: https://api.test/{item}\nitems: {csv: a, column: b, from: 3}": `items.from: does not go with csv`,
		"name: a\nrequest: https://api.test/{item.next}\nitems: {to: 5}":                 `has {item.next}, and these items have no such value`,
		"name: a\nrequest: https://api.test/{item}\nitems: {file: a, csv: b}":            `items: needs one of file, csv, job, and to: the last of numbers`,
	} {
		_, err := readJob(t, text)
		var faults policy.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows a secret: %v", text, err)
		}
	}
}

func FuzzLoadJob(f *testing.F) {
	f.Add([]byte(minimalJob))
	f.Add([]byte("name: a\nrequest: https://api.test/{item}\nitems: {job: x.db, column: id}\nevery: 30s"))
	f.Add([]byte("name: a\nrequest: {url: https://api.test/, headers: {Authorization: Bearer canary77}}\noutput: postgres://me:canary77@db/x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: data})
		if err == nil {
			// What is secret in a job is not shown with it.
			shown := fmt.Sprintf("%v %+v %#v", j.Output, j.Request.Headers, j.Output)
			for _, h := range j.Request.Headers {
				if secret := h.Value.Reveal(); len(secret) > 7 && strings.Contains(shown, secret) {
					t.Errorf("%q is in %s", secret, shown)
				}
			}
			if u, err := url.Parse(j.Output.URL.Reveal()); err == nil {
				if secret, _ := u.User.Password(); len(secret) > 7 && strings.Contains(shown, secret) {
					t.Errorf("%q is in %s", secret, shown)
				}
			}
		}
		if err == nil && (j.Name == "" || j.Request.URL == "" || j.Workers < 1) {
			t.Errorf("%+v", j)
		}
	})
}

var yamlExample = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestEveryJobInTheGuideLoads(t *testing.T) {
	page, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := yamlExample.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 10 {
		t.Fatalf("only %d examples were found", len(examples))
	}
	for _, one := range examples {
		if _, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: []byte(one[1]), Environ: []string{"API_TOKEN=x", "PGPASSWORD=y", "SLACK_WEBHOOK=https://hooks.example.com/x"}}); err != nil {
			t.Errorf("%s\n%v", one[1], err)
		}
		if complaint := policy.Disagreement([]byte(one[1]), nil, jobSchema); complaint != "" {
			t.Errorf("%s\n%s", one[1], complaint)
		}
	}
	for _, style := range pageStyles(t) {
		if !strings.Contains(string(page), "| `"+style+"` |") {
			t.Errorf("the guide does not have the style %s", style)
		}
	}
}

// keysIn are the keys of a schema with their paths.
func keysIn(path string, v any, all map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			keysIn(path, one, all)
		}
	case map[string]any:
		for key, one := range v {
			if key != "properties" {
				keysIn(path, one, all)
				continue
			}
			for name, inner := range one.(map[string]any) {
				at := strings.TrimPrefix(path+"."+name, ".")
				all[at] = true
				keysIn(at, inner, all)
			}
		}
	}
}

func TestTheSchemaOfJobsHasTheKeysOfTheGuide(t *testing.T) {
	var schema any
	if err := json.Unmarshal(jobfile.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	keysIn("", schema, known)
	if len(known) < 40 {
		t.Fatalf("only %d keys", len(known))
	}
	page, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Every key")
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if !known[row[1]] {
			t.Errorf("the schema does not have %s", row[1])
		}
	}
}

func TestTheSchemaOfJobsHasEveryKeyThatIsReadAndNoOther(t *testing.T) {
	policy.CheckKeys(t, jobfile.Schema(), func(text string) error {
		_, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: []byte(text)})
		return err
	}, 7)
}

func TestTheExamplesInTheSchemaOfJobsAreValid(t *testing.T) {
	policy.CheckAnnotations(t, jobfile.Schema())
}

// pageStyles are the styles of paginate that the schema knows.
func pageStyles(t *testing.T) []string {
	t.Helper()
	var schema struct {
		Properties struct {
			Paginate struct {
				AnyOf []struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(jobfile.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	styles := schema.Properties.Paginate.AnyOf[0].Enum
	if len(styles) < 7 {
		t.Fatalf("only %q", styles)
	}
	return styles
}

// Who fetches units again and does not say what identifies a record is told what becomes of one that has changed.
func TestAJobWhoseRecordsMayDoubleSaysSo(t *testing.T) {
	const days, changed = "name: a\nrequest: https://api.test/{date}\nrange: ", "name: a\nrequest: https://api.test/?t={since}\ncolumns: [t]\nsince: {column: t, from: 0}"
	for text, want := range map[string]string{
		days + "{from: 2025-01-01, to: 2025-01-09}":                "",
		days + "{from: 2025-01-01, to: 2025-01-09, again: 3d}":     "or replace: unit, or id: hash",
		days + "{from: 2025-01-01, to: today}":                     "stored beside what it was",
		days + "{from: 2025-01-01, to: yesterday}":                 "",
		days + "{from: 2025-01-01, to: today}\nid: [shop, number]": "",
		days + "{from: 2025-01-01, to: today}\nid: hash":           "",
		days + "{from: 2025-01-01, to: today}\nreplace: unit":      "",
		days + "{from: 2025-01-01, to: today}\nreplace: id":        "",
		changed:                               "write id: and what identifies a record, or id: hash",
		changed + "\nid: n":                   "",
		"name: a\nrequest: https://api.test/": "",
	} {
		j, err := readJob(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Doubles(false, time.Now()); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q", text, got)
		}
		if got := j.Doubles(true, time.Now()); (got == "") != j.Kept {
			t.Errorf("%s, all again: %q", text, got)
		}
	}
}
