package records

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// recordsOf are the records that a job finds on page 7.
func recordsOf(t *testing.T, job jobfile.Job, kind, body string) ([]output.Record, error) {
	t.Helper()
	x, err := New(&job)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Read(kind, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return x.Records(v, 7, nil)
}

func TestRecordsAreKeptAsTheyCame(t *testing.T) {
	long := `{"z": 12345678901234567890.10, "a":"ü<&> \u00e4",  "n": [ 1e400, -0.0 ]}`
	kept := `{"z":12345678901234567890.10,"a":"ü<&> \u00e4","n":[1e400,-0.0]}`
	for name, test := range map[string]struct{ records, kind, body, want string }{
		"an array in an object": {"data.items", "application/json", `{"data":{"items":[` + long + `, {} ]}}`, kept + " {}"},
		"a top level array":     {"", "application/json; charset=utf-8", "\ufeff [1, \"x\" ]", `1 "x"`},
		"an object":             {"", "", long, kept},
		"an object in an array": {"data.1", "", `{"data":[1,` + long + `]}`, kept},
		"the last of an array":  {"data.-1", "", `{"data":[1,{"a":1}]}`, `{"a":1}`},
		"null":                  {"data", "", `{"data":null}`, ""},
		"an empty array":        {"data", "", `{"data":[ ]}`, ""},
		"lines":                 {"", "application/x-ndjson", "{\"a\": 1}\r\n\n [2]\n\"x\"", `{"a":1} [2] "x"`},
		"no lines":              {"", "application/x-ndjson", "\n", ""},
		"a CSV of semicolons":   {"", "text/csv", "id;\"a,b,c\"\n7;\"x;y\"\n", `{"id":"7","a,b,c":"x;y"}`},
		"a CSV":                 {"", "text/csv", "id,\"a \"\"b\"\"\nü\"\n7,\"x,y\"\n8,\n", `{"id":"7","a \"b\"\nü":"x,y"} {"id":"8","a \"b\"\nü":""}`},
		"a member twice":        {"a", "", `{"a":[1],"a":[2]}`, "2"},
		"quoted names":          {`"a.b"["c[0]"][0].d`, "", `{"a.b":{"c[0]":[{"d":[{"e":"]},"}]}]}}`, `{"e":"]},"}`},
		"an escaped name":       {"dä", "", `{"d\u00e4":[1]}`, "1"},
		"lists of a list":       {"groups[].items", "", `{"groups":[{"items":[1,{"a":[2]}]},{"items":[]},{"items":null},{},{"items":[3]}]}`, `1 {"a":[2]} 3`},
		"lists of an object":    {"data.*.items", "", `{"data":{"b":{"items":[1]},"a":{"items":[2]}}}`, "1 2"},
		"objects by their IDs":  {"data.*", "", `{"data":{"7":{"a":1},"8":{"a":2}}}`, `{"a":1} {"a":2}`},
		"lists in lists":        {"[][].a", "", `[[{"a":1},{"a":2}],[],[{"a":3}]]`, "1 2 3"},
		"no list":               {"groups[].items", "", `{"groups":[]}`, ""},
		"a name that is a star": {`data."*"`, "", `{"data":{"*":[1],"b":[2]}}`, "1"},
		"a name with digits":    {"0.1", "", `{"0":{"1":[1]}}`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := recordsOf(t, jobfile.Job{Records: test.records}, test.kind, test.body)
			if err != nil {
				t.Fatal(err)
			}
			bodies := make([]string, len(list))
			for i, r := range list {
				bodies[i] = string(r.Body)
			}
			if got := strings.Join(bodies, " "); got != test.want {
				t.Errorf("the records are\n%s\nand should be\n%s", got, test.want)
			}
		})
	}
}

func TestAnIDIsUnambiguous(t *testing.T) {
	const body = `{"a":"x","b":7,"c":true,"d":{"e":"ü"},"f":12345678901234567890}`
	for paths, want := range map[string]string{
		"a": "x", "b": "7", "f": "12345678901234567890", "d.e": "ü", "a b": `["x","7"]`, "b a c d.e": `["7","x","true","ü"]`,
		"": "",
	} {
		list, err := recordsOf(t, jobfile.Job{ID: strings.Fields(paths)}, "", body)
		if err != nil {
			t.Fatal(err)
		}
		if got := list[0].ID; paths != "" && got != want || paths == "" && len(got) != 64 {
			t.Errorf("the ID by %q is %s", paths, got)
		}
	}
	hashes := map[string]string{}
	for body, canonical := range map[string]string{
		`{"a":1,"b":"ä"}`: "x", `{"b":"\u00e4", "a":1}`: "x", `{"a":1.0,"b":"ä"}`: "y", `{"a":12345678901234567890}`: "z", `{"a":12345678901234567891}`: "w",
	} {
		list, err := recordsOf(t, jobfile.Job{}, "", body)
		if err != nil {
			t.Fatal(err)
		}
		if had := hashes[canonical]; had != "" && had != list[0].ID {
			t.Errorf("%s has another hash than an equal record", body)
		}
		hashes[canonical] = list[0].ID
	}
	different := map[string]bool{}
	for _, one := range hashes {
		different[one] = true
	}
	if len(different) != 4 {
		t.Errorf("records that differ have equal hashes: %v", hashes)
	}
}

func TestColumnsLoseNothing(t *testing.T) {
	const body = `{"s":"x","t":true,"i":-7,"l":12345678901234567890,"f":0.10,"p":0.30000000000000004,"d":0.1000000000000000055511151231257827,"e":1E2,"h":1e999,"o":{"a": [1]},"n":null,"q":[{"r":1},{"r":"2"},{}]}`
	want := []any{"x", true, int64(-7), "12345678901234567890", 0.1, 0.30000000000000004, "0.1000000000000000055511151231257827", 100.0, "1e999", `{"a":[1]}`, nil, nil, int64(1), `[1,"2"]`, nil}
	job := jobfile.Job{}
	for _, path := range []string{"s", "t", "i", "l", "f", "p", "d", "e", "h", "o", "n", "missing", "o.a.0", "q[].r", "q[].s"} {
		job.Columns = append(job.Columns, jobfile.Column{Name: path, Path: path})
	}
	list, err := recordsOf(t, job, "", body)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(list[0].Columns, want) {
		t.Errorf("the columns are %#v", list[0].Columns)
	}
}

func TestErrorsSayWhatIsThereAndWhatToWrite(t *testing.T) {
	for name, test := range map[string]struct {
		job  jobfile.Job
		body string
		want []string
	}{
		"no records": {jobfile.Job{Records: "data.items"}, `{"items":[],"next":1}`, []string{`page 7 has no "data.items" (there is items, next)`, `"records"`}},
		"no lists":   {jobfile.Job{Records: "groups[].item"}, `{"groups":[{"items":[1]}]}`, []string{`page 7 has no "groups[].item" (there is groups)`}},
		"a text":     {jobfile.Job{Records: "data"}, `{"data":"` + strings.Repeat("x", 100) + `"}`, []string{`"` + strings.Repeat("x", 39) + `…`, "array or object"}},
		"no ID":      {jobfile.Job{Records: "data", ID: []string{"id"}}, `{"data":[{"key":2}]}`, []string{`record 1 of page 7 has no "id" (there is key)`, `write as "id"`}},
		"a null ID":  {jobfile.Job{Records: "data", ID: []string{"id"}}, `{"data":[{"id":null}]}`, []string{`record 1 of page 7 has null at "id"`}},
		"an empty":   {jobfile.Job{Records: "data", ID: []string{"id"}}, `{"data":[{"id":""}]}`, []string{`has "" at "id"`}},
		"an object":  {jobfile.Job{Records: "data", ID: []string{"a", "id"}}, `{"data":[{"a":1,"id":{}}]}`, []string{`has {} at "id"`}},
		"no object":  {jobfile.Job{ID: []string{"id"}}, `[[1]]`, []string{`has no "id", but is an array`}},
	} {
		list, err := recordsOf(t, test.job, "", test.body)
		if err == nil {
			t.Errorf("%s: %d records", name, len(list))
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %q, without %q", name, err, want)
			}
		}
	}
}

func TestARecordThatIsNoneIsRejectedAndTheOthersAreNot(t *testing.T) {
	for _, bad := range []string{`{"id":null}`, `{"key":1}`, "{\"id\":1,\"a\":\"\xff\"}", "7"} {
		list, err := recordsOf(t, jobfile.Job{ID: []string{"id"}}, "", `[{"id":1},`+bad+`,{"id":2}]`)
		if err != nil || len(list) != 3 || list[0].Rejected+list[2].Rejected != "" || !strings.HasPrefix(list[1].Rejected, "record 2 of page 7 ") || len(list[1].ID) != 64 || string(list[1].Body) != bad {
			t.Errorf("%s: %+v, %v", bad, list, err)
		}
	}
}

func TestABodyThatCannotBeReadSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		kind string
		body []byte
		want string
	}{
		"HTML":         {"text/html; charset=utf-8", []byte("<html>"), "no JSON, its content type is text/html"},
		"no JSON":      {"", []byte(`{"a":}`), "no JSON, its content type is none"},
		"cut":          {"application/json", []byte(`[1,2`), "unexpected end"},
		"empty":        {"application/json", []byte(" \n"), "the answer is empty"},
		"no UTF-8":     {"application/json", []byte("\"\xff"), "no JSON"},
		"a CSV":        {"text/csv", []byte("a\n\xff\n"), "not UTF-8"},
		"a bad line":   {"application/jsonl", []byte("1\n\n{\n"), "line 3"},
		"a bad row":    {"text/csv", []byte("a,b\n1\n"), "no CSV: record on line 2"},
		"equal names":  {"text/csv", []byte("a,a\n1,2\n"), `two columns named "a"`},
		"two in JSON":  {"application/json", []byte("{}\n{}"), "after top-level value"},
		"deep in JSON": {"application/json", []byte(strings.Repeat("[", 20_000)), "no JSON"},
	} {
		if _, err := Read(test.kind, test.body); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, and should have %q", name, err, test.want)
		}
	}
}

func TestAPathThatCannotBeReadSaysWhy(t *testing.T) {
	for _, text := range []string{".", "a.", ".a", "a..b", "a[", "a[0", "a[x]", `a["x"`, `"a`, "a]b", `a"b"`, "[0]a", `["a"]b`} {
		if p, err := ParsePath(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the path %q", text)) {
			t.Errorf("%s is read as %q, %v", text, p.steps, err)
		}
	}
}

func TestTheDigestTellsPagesApart(t *testing.T) {
	records, other := []output.Record{{ID: "a"}, {ID: "bc"}}, []output.Record{{ID: "ab"}, {ID: "c"}}
	if Digest(records) == Digest(other) || Digest(records) != Digest(records[:2:2]) || len(Digest(nil)) != 32 {
		t.Errorf("the digests are %s and %s", Digest(records), Digest(other))
	}
}

func FuzzRecords(f *testing.F) {
	f.Add("data.items", "id", "application/json", []byte(`{"data":{"items":[{"id":1}]}}`))
	f.Add("[0][\"a.b\"].-1", "", "application/x-ndjson", []byte("{\"a.b\":[1]}\n2"))
	f.Add("", "a", "text/csv", []byte("a,b\n1,2"))
	f.Fuzz(func(t *testing.T, path, id, kind string, body []byte) {
		job := &jobfile.Job{Records: path, Columns: []jobfile.Column{{Name: "c", Path: id}}}
		if id != "" {
			job.ID = []string{id}
		}
		x, err := New(job)
		if err != nil {
			return
		}
		v, err := Read(kind, body)
		if err != nil {
			return
		}
		list, err := x.Records(v, 1, nil)
		if err != nil {
			return
		}
		for _, r := range list {
			if r.Rejected != "" {
				continue
			}
			if again, err := Read("", r.Body); err != nil || string(again) != string(r.Body) || r.ID == "" {
				t.Errorf("the record %q with the ID %q is not one: %v", r.Body, r.ID, err)
			}
		}
	})
}

func TestLeavesHaveNoParts(t *testing.T) {
	v := Value(`{"data":[{"id":1}],"meta":{"next":"a","all":[1,2],"n":{}},"total":7,"x":null}`)
	if got := strings.Join(v.Leaves(10), " "); got != "meta.next total x" || len(v.Leaves(1)) != 1 {
		t.Errorf("the leaves are %s", got)
	}
}

func TestAColumnHasItsTypeOrNoValue(t *testing.T) {
	for kind, values := range map[string]map[string]any{
		"text":    {`1.50`: "1.5", `"a"`: "a", `{"b":1}`: `{"b":1}`, `true`: "true"},
		"integer": {`7`: int64(7), `12.0`: int64(12), `"1e3"`: int64(1000), `1e300`: nil, `"-7"`: int64(-7), `7.5`: nil, `"x"`: nil, `99999999999999999999`: nil, `[1]`: nil},
		"number":  {`7`: int64(7), `"0.10"`: 0.1, `12345678901234567890.5`: "12345678901234567890.5", `"NaN"`: nil, `"0x1"`: nil, `"1 "`: nil, `1e999`: nil, `1e-999`: nil},
		"boolean": {`true`: true, `"false"`: false, `0`: false, `"yes"`: nil, `2`: nil},
		"json": {
			`{"a":[1]}`: `{"a":[1]}`, `"x"`: `"x"`, `"\\u0000"`: `"\\u0000"`, `"\ud83d\ude00 \u0041\n�"`: `"\ud83d\ude00 \u0041\n�"`,
			`"a\u0000"`: nil, `{"\\\ud83d": 1}`: nil, `"\ude00\ud83d"`: nil, `[1e999]`: nil,
		},
		"time": {
			`"2025-01-31"`: "2025-01-31T00:00:00.000000Z", `"2025-01-31T10:00:00.5+02:00"`: "2025-01-31T08:00:00.500000Z", `1738310400`: "2025-01-31T08:00:00.000000Z",
			`"1738310400000"`: "2025-01-31T08:00:00.000000Z", `"20250131"`: nil, `"2025"`: nil, `"soon"`: nil, `1e300`: nil, `"0000-12-31"`: nil, `-99999999999999`: nil,
		},
	} {
		for text, want := range values {
			if got, fits := typed(Value(text), kind); got != want || fits != (want != nil) {
				t.Errorf("%s as %s: %#v, %t", text, kind, got, fits)
			}
		}
	}
}

// Paths that begin with ^ lead from the element that the list of a record stands in, or from the answer.
func TestARecordHasColumnsOfItsParent(t *testing.T) {
	const body = `{"day": "monday", "data": [{"id": 1, "who": {"name": "Ada"}, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 2}, {"id": 3, "lines": {"sku": "a"}}]}`
	for list, want := range map[string]string{
		"data[].lines":                  `["1","a"][Ada 1] ["1","b"][Ada 1] ["3","a"][<nil> 3]`,
		"data.*.lines":                  `["1","a"][Ada 1] ["1","b"][Ada 1] ["3","a"][<nil> 3]`,
		"data.0.lines":                  `["monday","a"][] ["monday","b"][]`,
		"data[].lines.none":             "",
		"days[].orders.*.lines[].parts": `["a","7"][o2 mon 2025 <nil>] ["b","7"][o2 mon 2025 <nil>] ["c","7"][o2 tue 2025 <nil>]`,
	} {
		job := jobfile.Job{Records: list, ID: []string{"^.id", "sku"}, Columns: []jobfile.Column{{Name: "who", Path: "^.who.name"}, {Name: "number", Path: "^.id", Type: "integer"}}}
		if list == "data.0.lines" {
			job.ID, job.Columns = []string{"^.day", "sku"}, nil
		}
		body := body
		if strings.HasPrefix(list, "days") { // each is the parent of the one before
			job.ID = []string{"name", "^.line"}
			job.Columns = []jobfile.Column{{Name: "number", Path: "^.^.number"}, {Name: "day", Path: "^.^.^.day"}, {Name: "year", Path: "^.^.^.^.year"}, {Name: "none", Path: "^.^.^.^.^.year"}}
			body = `{"year": 2025, "days": [{"day": "mon", "orders": {"x": {"number": "o2", "lines": [{"line": 7, "parts": [{"name": "a"}, {"name": "b"}]}]}}},
				{"day": "tue", "orders": {"y": {"number": "o2", "lines": [{"line": 7, "parts": [{"name": "c"}]}]}}}]}`
		}
		records, err := recordsOf(t, job, "", body)
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprint(r.ID, r.Columns))
		}
		if text := strings.Join(got, " "); text != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s %v", list, text, err)
		}
	}
}
