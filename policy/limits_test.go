package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// bareLimits are limits without the fields that are computed from others.
func bareLimits(limits []Limit) []Limit {
	all := make([]Limit, len(limits))
	for i, l := range limits {
		l.route = nil
		all[i] = l
	}
	return all
}

func TestLimitsOfABodyReadAsThoseOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"limits":[{"requests":10,"per":"1s"}]}`:                                                          "10 requests per 1s (rolling)",
		`{"limits":[{"requests":"10","per":"1s","path":"/a/*","method":"GET"}]}`:                           "10 requests per 1s for GET /a/* (rolling)",
		`{"limits":[{"bytes":"1MB","per":"1m","stall":"30s"},{"concurrency":2}]}`:                          "1MB per 1m, stall 30s (fixed); 2 in flight",
		`{"limits":[{"bytes":"1MB","per":"1m","as":"bucket","burst":"64KiB"}]}`:                            "1MB per 1m, 64KiB at once (bucket)",
		`{"limits":[{"requests":900,"per":"15m","by":"token"}]}`:                                           "900 requests per 15m by token (rolling)",
		"{\n\t\"limits\": [\n\t\t{\"as\": \"adaptive\", \"min\": \"0.2/s\", \"max\": \"3/10s\"}\n\t]\n}\n": "adaptive between 0.2/s and 0.3/s",
		"limits:\n  - {requests: 1, per: day}\n":                                                           "1 request per day (quota, UTC)",
		`{"limits":[]}`:                                                                                    "",
	} {
		limits, err := ParseLimits([]byte(text))
		if err != nil || limits == nil {
			t.Errorf("%s: %v, %v", text, limits, err)
			continue
		}
		var words []string
		for _, l := range limits {
			words = append(words, l.String())
		}
		if got := strings.Join(words, "; "); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	limits, err := ParseLimits([]byte(`{"limits":[{"requests":1,"per":"1s","path":"/%74"}]}`))
	if err != nil || !limits[0].Covers("GET", "/t") || limits[0].Covers("GET", "/u") {
		t.Errorf("%+v, %v", limits, err)
	}
}

func TestWhatIsWrongWithABodyIsSaidWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "body: is empty; write {",
		"null":                         "body:1: takes keys with values, not a single value",
		"[]":                           "body:1: takes keys with values, not a list",
		"{}":                           "body:1: needs limits",
		`{"limits":"five"}`:            "body:1: limits: takes a limit, such as {requests: 5, per: 1s}, or 5/s",
		`{"limits":[null]}`:            "body:1: limits[0]: takes a limit",
		`{"limits":["5/mintue"]}`:      `limits[0].requests: "mintue" is not a time; did you mean "minute"?`,
		`{"limits":{"requests":1}}`:    "body:1: limits: takes a list",
		`{"limits":[{"requests":10}]}`: "body:1: limits[0]: needs per",
		"{\n\"limits\":[{\"requests\":10,\n\"per\":\"15\"}]}":              `body:3: limits[0].per: "15" needs a unit`,
		`{"limits":[{"reqeusts":10,"per":"1s"}]}`:                          `limits[0].reqeusts: is not a key; did you mean "requests"?`,
		`{"limits":[{"requests":10,"per":"1s"}],"mode":"observe"}`:         "body:1: mode: is not a key",
		`{"limits":[{"requests":1.5,"per":"1s"}]}`:                         "is not a whole number",
		`{"limits":[{"requests":true,"per":"1s"}]}`:                        "is not a whole number",
		`{"limits":[{"requests":null,"per":"1s"}]}`:                        "has no value",
		`{"limits":[{"requests":1,"requests":2,"per":"1s"}]}`:              "is written twice",
		`{"limits":[{"requests":1,"per":"1s"}]} {"limits":[]}`:             "body:1: ",
		`{"limits":[{"bytes":"100B","per":"1s"}]}`:                         "limits[0].bytes: \"100B\" is less than 4KiB",
		`{"limits":[{"requests":1,"per":"1s"},{"requests":2,"per":"1s"}]}`: "limits[1]: limits the same as line 1",
		`{"limits":[{"requests":1,"per":"${HOME}"}]}`:                      "in secrets only",
		"\x00": "body",
	} {
		limits, err := ParseLimits([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || limits != nil {
			t.Errorf("%q: %v, %v; want %q", text, limits, err, want)
		}
	}
}

// limitTexts draws a limit as somebody would write it.
func limitTexts(t *rapid.T) string {
	item := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
	size := func(name string) string {
		if rapid.Bool().Draw(t, name+" round") {
			return fmt.Sprint(rapid.IntRange(5, 9999).Draw(t, name), item(name+" unit", "kB", "KiB", "MB", "MiB", "GB", "GiB"))
		}
		return fmt.Sprint(rapid.Int64Range(4096, mostAmount).Draw(t, name), "B")
	}
	number := func(name string) string { return fmt.Sprint(rapid.Int64Range(100, mostAmount).Draw(t, name)) }
	per := func() string {
		return fmt.Sprint(rapid.IntRange(1, 900).Draw(t, "per"), item("unit of per", "ms", "s", "m", "h", "d"))
	}
	text := item("by", "", ", by: client", ", by: route", ", by: token") + item("method", "", ", method: GET") +
		item("path", "", ", path: /a", `, path: "/**/b%20c/*"`)
	unit := item("unit", "requests", "cost", "bytes", "concurrency", "adaptive")
	switch unit {
	case "concurrency":
		return "{concurrency: " + number("amount") + text + "}"
	case "adaptive":
		low, high := rapid.IntRange(1, 499).Draw(t, "min"), rapid.IntRange(500, 9999).Draw(t, "max")
		behind := item("per of rates", "s", "m", "h", "d", "10s", "7s", "15m")
		return fmt.Sprintf("{as: adaptive, min: %d.5/%s, max: %d/%s%s}", low, behind, high, behind, text)
	}
	amount := number
	if unit == "bytes" {
		amount = size
		text += item("stall", "", ", stall: 30s", ", stall: 1m30s", ", stall: 1.5s")
	} else {
		text += item("each", "", ", each: 1", ", each: 100")
	}
	text = "{" + unit + ": " + amount("amount") + text
	switch as := item("as", "", "fixed", "rolling", "first-use", "paced", "bucket", "quota"); {
	case as == "quota":
		return text + ", per: " + item("calendar", "day", "week", "month") + item("timezone", "", ", timezone: Europe/Berlin") + "}"
	case as == "bucket":
		return text + ", per: " + per() + ", as: bucket, burst: " + amount("burst") + "}"
	case as == "" || as == "paced" && unit == "bytes":
		return text + ", per: " + per() + "}"
	default:
		return text + ", per: " + per() + ", as: " + as + "}"
	}
}

func TestLimitsReadBackAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "limits: [" + limitTexts(t) + "]"
		limits, err := ParseLimits([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		written, err := FormatLimits(limits)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := ParseLimits(written)
		if err != nil || !reflect.DeepEqual(bareLimits(again), bareLimits(limits)) {
			t.Fatalf("%s is written %s, which is\n%+v, not\n%+v, %v", text, written, again, limits, err)
		}
		yaml, err := LimitsText(limits)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, err = ParseLimits([]byte(yaml)); err != nil || !reflect.DeepEqual(bareLimits(again), bareLimits(limits)) {
			t.Fatalf("%s is written %s, which is\n%+v, not\n%+v, %v", text, yaml, again, limits, err)
		}
	})
	if text, err := FormatLimits(nil); err != nil || string(text) != `{"limits":[]}` {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := FormatLimits([]Limit{{As: limit.Fixed, Unit: "apples"}}); err == nil {
		t.Errorf("apples are written %s", text)
	}
}

// Limits of the file have their defaults filled in, and so are written whole.
func TestLimitsOfAFileAreWrittenWhole(t *testing.T) {
	p := load(t, "sites: [{host: a.test, limits: [{bytes: 1MB, per: 1m}, {requests: 2, per: 1s, as: bucket}, {requests: 5, per: day}, {concurrency: 8}, {as: adaptive, min: 0.2/s, max: 100/m}]}]")
	got, err := FormatLimits(p.Sites[0].Limits)
	want := `{"limits":[{"bytes":"1MB","per":"1m","as":"fixed","stall":"1m30s"},{"requests":2,"per":"1s","as":"bucket","burst":1},` +
		`{"requests":5,"per":"day","as":"quota","timezone":"UTC"},{"concurrency":8},{"as":"adaptive","min":"0.2/s","max":"100/m"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	again, err := ParseLimits(got)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range again {
		if one.String() != p.Sites[0].Limits[i].String() || one.Title() != p.Sites[0].Limits[i].Title() {
			t.Errorf("%s, want %s", one, p.Sites[0].Limits[i])
		}
	}
}

func FuzzParseLimits(f *testing.F) {
	for _, s := range []string{
		"", "{}", `{"limits":[]}`, `{"limits":[{"requests":10,"per":"1s"}]}`, `{"limits":[{"bytes":"1MB","per":"1m","stall":"30s","as":"bucket","burst":"64KiB"},{"concurrency":2,"by":"client"}]}`,
		`{"limits":[{"as":"adaptive","min":"0.2/s","max":"1/3s"}]}`, "limits: &a [*a]", "limits: [&a {requests: 1, per: 1s}, *a]", "{\"limits\":[{\"requests\":1,\"per\":\"day\",\"timezone\":\"UTC\"}]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		limits, err := ParseLimits(body)
		if err != nil {
			return
		}
		text, err := FormatLimits(limits)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		again, err := ParseLimits(text)
		if err != nil || len(again) != len(limits) {
			t.Fatalf("%q is written %s: %v", body, text, err)
		}
		for i := range again {
			if again[i].String() != limits[i].String() {
				t.Fatalf("%s is written as %s", limits[i], again[i])
			}
		}
	})
}

// TestLimitAtOnceTakesThePlaceOfWiderLimits: two limits of requests in flight would be one too many to understand.
func TestLimitAtOnceTakesThePlaceOfWiderLimits(t *testing.T) {
	p := load(t, `sites: [
		{host: wide.test, limits: [{concurrency: 8}, {requests: 5/s}]}, {host: narrow.test, limits: [{concurrency: 2}]},
		{host: route.test, limits: [{concurrency: 8, path: /slow}]}, {host: none.test}]`)
	p.LimitAtOnce(4)
	amounts := func(limits []Limit) (n []int64) {
		for _, l := range limits {
			n = append(n, l.Amount)
		}
		return n
	}
	for i, want := range [][]int64{{5, 4}, {2}, {8, 4}, {4}} {
		if got := amounts(p.Sites[i].Limits); !slices.Equal(got, want) {
			t.Errorf("site %d: %v in place of %v", i, got, want)
		}
	}
	if got := amounts(p.Defaults.Limits); !slices.Equal(got, []int64{4}) {
		t.Errorf("other sites: %v", got)
	}
}
