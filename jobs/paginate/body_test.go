package paginate

import (
	"net/url"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// Parameters stand in a body that is JSON, with the kind of value that the answer has, or in a form. Each page is asked for
// by a walk that was restored.
func TestParametersStandInTheBody(t *testing.T) {
	for name, test := range map[string]struct {
		p       jobfile.Pagination
		first   string
		answers []string
		bodies  []string
	}{
		"a text": {
			jobfile.Pagination{Style: jobfile.CursorPages, Param: "variables.after", Next: "pageInfo.endCursor", More: "pageInfo.hasNextPage", Size: 2, SizeParam: "variables.first"},
			`{ "query": "{ a(after: $after) }", "variables": {"after": null, "z": 1} }`,
			[]string{data(0, 2, `"pageInfo": {"hasNextPage": true, "endCursor": "a\"=<"}`), data(2, 3, `"pageInfo": {"hasNextPage": false, "endCursor": "b"}`)},
			[]string{`{"query":"{ a(after: $after) }","variables":{"after":null,"z":1,"first":2}}`, `{"query":"{ a(after: $after) }","variables":{"after":"a\"=<","z":1,"first":2}}`},
		},
		"a list": {
			jobfile.Pagination{Style: jobfile.CursorPages, Param: "search_after", Next: "data.-1.sort"},
			`{"size":1}`,
			[]string{`{"data": [{"id": 1, "sort": [17.50, "x"]}]}`, `{"data": []}`},
			[]string{`{"size":1}`, `{"size":1,"search_after":[17.50,"x"]}`},
		},
		"a number, at a path that is not there": {
			jobfile.Pagination{Style: jobfile.CursorPages, Param: "page.list[0].from", Next: "next"},
			`{"page":{"list":[{"a":1},2]}}`,
			[]string{data(0, 1, `"next": 7`), data(1, 2, `"next": null`)},
			[]string{`{"page":{"list":[{"a":1},2]}}`, `{"page":{"list":[{"a":1,"from":7},2]}}`},
		},
		"an offset": {
			jobfile.Pagination{Style: jobfile.OffsetPages, Param: "page.from", Size: 2, SizeParam: "page.size"},
			`{}`,
			[]string{data(0, 2), data(2, 3)},
			[]string{`{"page":{"from":0,"size":2}}`, `{"page":{"from":2,"size":2}}`},
		},
		"a page, from that of the body": {
			jobfile.Pagination{Style: jobfile.PagePages, Param: "page.n", First: jobfile.UnknownFirst, Size: 2},
			`{"page":{"n":3}}`,
			[]string{data(0, 2), data(2, 3)},
			[]string{`{"page":{"n":3}}`, `{"page":{"n":4}}`},
		},
		"an offset in a form, from that of the body": {
			jobfile.Pagination{Style: jobfile.OffsetPages, Param: "skip", First: jobfile.UnknownFirst, Size: 2},
			`a=1&skip=10`,
			[]string{data(0, 2), data(2, 3)},
			[]string{`a=1&skip=10`, `a=1&skip=12`},
		},
		"a form": {
			jobfile.Pagination{Style: jobfile.CursorPages, Param: "cursor", Next: "next"},
			"day=1&cursor=",
			[]string{data(0, 1, `"next": "a&b"`), data(1, 2, `"next": ""`)},
			[]string{"day=1&cursor=", "day=1&cursor=a%26b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.p.In = jobfile.InBody
			u, _ := url.Parse(firstURL)
			w, err := New(test.p, u, []byte(test.first), nil, &Learned{})
			for i, answer := range test.answers {
				if err != nil {
					t.Fatal(err)
				}
				if got := string(w.Body()); got != test.bodies[i] || w.Next().String() != firstURL {
					t.Errorf("page %d is asked for at %s with %s, and should be with %s", i+1, w.Next(), got, test.bodies[i])
				}
				step, err := w.Answer(pageOf(t, u, asked{body: answer}))
				if last := i == len(test.answers)-1; err != nil || last != (step.State == Complete) {
					t.Fatalf("page %d: %+v %v", i+1, step, err)
				}
				if w, err = New(test.p, u, []byte(test.first), w.Checkpoint(time.Time{}), &Learned{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
