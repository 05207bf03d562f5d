package paginate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

const firstURL = "https://api.test/orders?day=1"

// asked is one answer of a server in a test, and the URL that has to be asked for it.
type asked struct {
	url, body, link string
}

// walked answers the URLs of a walk in turn, restored from its checkpoint before each one,
// and returns how the walk ends.
func walked(t *testing.T, p jobfile.Pagination, first string, answers []asked) Step {
	t.Helper()
	start, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(p, start, nil, nil, &Learned{})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if w, err = New(p, start, nil, w.Checkpoint(time.Time{}), &Learned{}); err != nil {
			t.Fatal(err)
		}
		u := w.Next()
		if u == nil || u.String() != a.url {
			t.Fatalf("page %d is asked for at %v, and should be at %s", i+1, u, a.url)
		}
		step, err := w.Answer(pageOf(t, u, a))
		if err != nil {
			t.Fatal(err)
		}
		if last := i == len(answers)-1; last != (step.State != Going) {
			t.Fatalf("after page %d the walk is %s: %s", i+1, step.State, step.Reason)
		} else if last {
			if u := w.Next(); u != nil {
				t.Errorf("the walk is over and asks for %s", u)
			}
			return step
		}
	}
	return Step{}
}

func pageOf(t *testing.T, u *url.URL, a asked) Page {
	t.Helper()
	body, err := records.Read("", []byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	x, err := records.New(&jobfile.Job{Records: "data"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := x.Records(body, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if a.link != "" {
		h.Add("Link", a.link)
	}
	return Page{URL: u, Header: h, Body: body, Records: len(list), Digest: records.Digest(list)}
}

// data is a body with the records from up to before to, and what else the body has.
func data(from, to int, rest ...string) string {
	list := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return `{"data":[` + strings.Join(list, ",") + "]" + strings.Join(append([]string{""}, rest...), ",") + "}"
}

var (
	offsets = jobfile.Pagination{Style: jobfile.OffsetPages, Param: "offset"}
	sized   = jobfile.Pagination{Style: jobfile.OffsetPages, Param: "offset", SizeParam: "limit", Size: 7}
	totals  = jobfile.Pagination{Style: jobfile.OffsetPages, Param: "offset", SizeParam: "limit", Size: 7, Total: "total"}
	numbers = jobfile.Pagination{Style: jobfile.PagePages, Param: "page", First: 1}
	cursors = jobfile.Pagination{Style: jobfile.CursorPages, Param: "cursor", Next: "next"}
	mores   = jobfile.Pagination{Style: jobfile.CursorPages, Param: "cursor", Next: "next", More: "more"}
	links   = jobfile.Pagination{Style: jobfile.LinkPages}
	nexts   = jobfile.Pagination{Style: jobfile.NextPages, Next: "next"}
	auto    = jobfile.Pagination{Style: jobfile.AutoPages}
)

func TestHowWalksEnd(t *testing.T) {
	for name, test := range map[string]struct {
		p       jobfile.Pagination
		answers []asked
		state   State
		reason  string
	}{
		"no style": {jobfile.Pagination{}, []asked{{firstURL, data(0, 3), ""}}, Complete, "only page"},
		"an empty page": {
			offsets,
			[]asked{{firstURL + "&offset=0", data(0, 3), ""}, {firstURL + "&offset=3", data(3, 5), ""}, {firstURL + "&offset=5", data(5, 5), ""}},
			Complete, "page 3 is empty",
		},
		"a short page": {
			sized,
			[]asked{{firstURL + "&offset=0&limit=7", data(0, 7), ""}, {firstURL + "&offset=7&limit=7", data(7, 9), ""}},
			Complete, "page 2 is short",
		},
		"a short first page": {sized, []asked{{firstURL + "&offset=0&limit=7", data(0, 3), ""}}, Complete, "page 1 is short"},
		"a server with a maximum": {
			jobfile.Pagination{Style: jobfile.OffsetPages, Param: "offset", SizeParam: "limit", Size: 50},
			[]asked{{firstURL + "&offset=0&limit=50", data(0, 10), ""}, {firstURL + "&offset=10&limit=50", data(10, 20), ""}, {firstURL + "&offset=20&limit=50", data(20, 21), ""}},
			Complete, "page 3 is short",
		},
		"a total that is reached": {
			totals,
			[]asked{{firstURL + "&offset=0&limit=7", data(0, 3, `"total":5`), ""}, {firstURL + "&offset=3&limit=7", data(3, 5, `"total":5`), ""}},
			Complete, "total of 5",
		},
		"a total that is too low": {
			totals,
			[]asked{{firstURL + "&offset=0&limit=7", data(0, 7, `"total":7`), ""}, {firstURL + "&offset=7&limit=7", data(7, 14, `"total":7`), ""}, {firstURL + "&offset=14&limit=7", data(14, 15, `"total":7`), ""}},
			Complete, "short",
		},
		"a total that is too high": {
			totals,
			[]asked{{firstURL + "&offset=0&limit=7", data(0, 7, `"total":9`), ""}, {firstURL + "&offset=7&limit=7", data(7, 7, `"total":9`), ""}},
			Incomplete, "7 records came, though the answer says that there are 9",
		},
		"a total that falls": {
			totals,
			[]asked{{firstURL + "&offset=0&limit=7", data(0, 7, `"total":9`), ""}, {firstURL + "&offset=7&limit=7", data(8, 9, `"total":8`), ""}},
			Incomplete, "the total fell",
		},
		"a parameter that the server does not know": {
			numbers,
			[]asked{{firstURL + "&page=1", data(0, 3), ""}, {firstURL + "&page=2", data(0, 3), ""}},
			Incomplete, `may not know the parameter "page"`,
		},
		"an empty page, and more": {
			jobfile.Pagination{Style: jobfile.PagePages, Param: "page", First: 1, More: "more"},
			[]asked{{firstURL + "&page=1", data(0, 3, `"more":true`), ""}, {firstURL + "&page=2", data(3, 3, `"more":true`), ""}, {firstURL + "&page=3", data(3, 4, `"more":false`), ""}},
			Complete, "no more",
		},
		"cursors": {
			cursors,
			[]asked{{firstURL, data(0, 3, `"next":"a b&=/+ü"`), ""}, {firstURL + "&cursor=a+b%26%3D%2F%2B%C3%BC", data(3, 3, `"next":123456789012345678901`), ""}, {firstURL + "&cursor=123456789012345678901", data(3, 4, `"next":null`), ""}},
			Complete, "page 3 has no cursor",
		},
		"no cursor":        {cursors, []asked{{firstURL, data(0, 3), ""}}, Complete, "no cursor"},
		"an empty cursor":  {cursors, []asked{{firstURL, data(0, 3, `"next":""`), ""}}, Complete, "no cursor"},
		"a false cursor":   {cursors, []asked{{firstURL, data(0, 3, `"next":false`), ""}}, Complete, "no cursor"},
		"a cursor of zero": {cursors, []asked{{firstURL, data(0, 3, `"next":0`), ""}}, Complete, "no cursor"},
		"no more":          {mores, []asked{{firstURL, data(0, 3, `"next":"a"`, `"more":false`), ""}}, Complete, "no more"},
		"more without a cursor": {
			mores, []asked{{firstURL, data(0, 3, `"more":true`), ""}}, Incomplete, "says that there are more",
		},
		"a cursor that comes again": {
			cursors,
			[]asked{{firstURL, data(0, 3, `"next":"a"`), ""}, {firstURL + "&cursor=a", data(3, 5, `"next":"a"`), ""}},
			Incomplete, "cursor comes again",
		},
		"a cursor that leads to itself without records": {
			cursors,
			[]asked{{firstURL, data(0, 3, `"next":"a"`), ""}, {firstURL + "&cursor=a", data(3, 5, `"next":"b"`), ""}, {firstURL + "&cursor=b", data(5, 6, `"next":"c"`), ""}, {firstURL + "&cursor=c", data(6, 6, `"next":"c"`), ""}},
			Incomplete, "cursor comes again",
		},
		"records that come again": {
			cursors,
			[]asked{{firstURL, data(0, 3, `"next":"a"`), ""}, {firstURL + "&cursor=a", data(0, 3, `"next":"b"`), ""}},
			Incomplete, "same records",
		},
		"too long a cursor": {cursors, []asked{{firstURL, data(0, 3, `"next":"`+strings.Repeat("x", maxNext+1)+`"`), ""}}, Incomplete, "8193 characters"},
		"links": {
			links,
			[]asked{{firstURL, data(0, 3), `<?p=2#x>; rel="last next"`}, {"https://api.test/orders?p=2", data(3, 5), `<https://API.test:443//x/y?p=3>; rel=next`}, {"https://api.test//x/y?p=3", data(5, 6), `<?p=1>; rel=prev`}},
			Complete, "page 3 has no URL",
		},
		"a link to another host": {links, []asked{{firstURL, data(0, 3), `<https://evil.test/>; rel=next`}}, Incomplete, "https://evil.test, another origin"},
		"a link to another port": {links, []asked{{firstURL, data(0, 3), `<https://api.test:8443/>; rel=next`}}, Incomplete, "another origin"},
		"a link without TLS":     {links, []asked{{firstURL, data(0, 3), `<http://api.test/>; rel=next`}}, Incomplete, "another origin"},
		"a link with a user":     {links, []asked{{firstURL, data(0, 3), `<https://u:p@api.test/>; rel=next`}}, Incomplete, "user name"},
		"a link that is none":    {links, []asked{{firstURL, data(0, 3), `<%zz>; rel=next`}}, Incomplete, "no readable URL"},
		"a link to a script":     {links, []asked{{firstURL, data(0, 3), `<javascript:alert()>; rel=next`}}, Incomplete, "no readable URL"},
		"a link to itself":       {links, []asked{{firstURL, data(0, 3), `<` + firstURL + `>; rel=next`}}, Incomplete, "URL comes again"},
		"next URLs": {
			nexts,
			[]asked{{firstURL, data(0, 3, `"next":"/orders?p=2"`), ""}, {"https://api.test/orders?p=2", data(3, 3, `"next":"https://api.test/orders?p=3"`), ""}, {"https://api.test/orders?p=3", data(3, 4, `"next":null`), ""}},
			Complete, "page 3 has no URL",
		},
		"a next URL to another host": {nexts, []asked{{firstURL, data(0, 3, `"next":"//evil.test/orders"`), ""}}, Incomplete, "evil.test"},
		"too many pages": {
			jobfile.Pagination{Style: jobfile.PagePages, Param: "page", MaxPages: 2},
			[]asked{{firstURL + "&page=0", data(0, 3), ""}, {firstURL + "&page=1", data(3, 4), ""}},
			Incomplete, "more than 2 pages",
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := walked(t, test.p, firstURL, test.answers)
			if step.State != test.state || !strings.Contains(step.Reason, test.reason) {
				t.Errorf("the walk is %s: %s", step.State, step.Reason)
			}
		})
	}
}

func TestAutoRecognisesWhatItMeets(t *testing.T) {
	for name, test := range map[string]struct {
		first   string
		answers []asked
		state   State
		found   string
	}{
		"a link":   {firstURL, []asked{{firstURL, data(0, 3), `<?p=2>; rel=next`}, {"https://api.test/orders?p=2", data(3, 5), ""}}, Complete, "Link"},
		"a URL":    {firstURL, []asked{{firstURL, data(0, 3, `"links":{"next":"?p=2"}`), ""}, {"https://api.test/orders?p=2", data(3, 5), ""}}, Complete, `"links.next"`},
		"a cursor": {firstURL, []asked{{firstURL, data(0, 3, `"nextPageToken":"a"`), ""}, {firstURL + "&pageToken=a", data(3, 5), ""}}, Complete, `"nextPageToken"`},
		"more": {
			firstURL,
			[]asked{{firstURL, data(0, 3, `"next_cursor":"a","has_more":true`), ""}, {firstURL + "&cursor=a", data(3, 5, `"next_cursor":"b","has_more":false`), ""}},
			Complete, `"next_cursor"`,
		},
		"an offset": {
			firstURL + "&offset=0&limit=3",
			[]asked{{firstURL + "&offset=0&limit=3", data(0, 3, `"total":5`), ""}, {firstURL + "&offset=3&limit=3", data(3, 5, `"total":5`), ""}},
			Complete, `"offset", from 0`,
		},
		"a number": {
			firstURL + "&page=1",
			[]asked{{firstURL + "&page=1", data(0, 3), ""}, {firstURL + "&page=2", data(3, 5), ""}, {firstURL + "&page=3", data(5, 5), ""}},
			Complete, `"page", from 1`,
		},
		"nothing":          {firstURL, []asked{{firstURL, data(0, 3), ""}}, Complete, "nothing in the answer"},
		"nothing, of more": {firstURL, []asked{{firstURL, data(0, 3, `"has_more":true`), ""}}, Incomplete, "nothing in the answer"},
		"nothing, of five": {firstURL, []asked{{firstURL, data(0, 3, `"total":5`), ""}}, Incomplete, "nothing in the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			start, err := url.Parse(test.first)
			if err != nil {
				t.Fatal(err)
			}
			w, err := New(auto, start, nil, nil, &Learned{})
			if err != nil {
				t.Fatal(err)
			}
			step, err := w.Answer(pageOf(t, start, test.answers[0]))
			if err != nil || !strings.Contains(step.Found, test.found) {
				t.Errorf("auto found %q, %v", step.Found, err)
			}
			if step := walked(t, auto, test.first, test.answers); step.State != test.state {
				t.Errorf("the walk is %s: %s", step.State, step.Reason)
			}
		})
	}
}

// What says that more follows is known by its name, however it is written and whatever holds it, in the body and in headers. What
// says that nothing follows, or has such a name and means another thing, is not.
func TestWhatSaysThatMoreFollows(t *testing.T) {
	body := func(rest string) Page {
		u, _ := url.Parse(firstURL)
		return pageOf(t, u, asked{body: data(0, 20, rest)})
	}
	header := func(name, value string) Page {
		p := body(`"x": 1`)
		p.Header.Set(name, value)
		return p
	}
	object := func(rest string) Page {
		p := body(rest)
		p.Whole, p.Records = true, 1
		return p
	}
	for i, one := range []struct {
		page Page
		says string // "": that nothing follows
	}{
		{body(`"paging": {"next": {"after": "abc"}}`), "paging.next.after"},
		{body(`"paging": {"next": {"after": null}}`), ""},
		{body(`"paging": {"cursors": {"before": "a", "after": "b"}}`), ""},
		{body(`"nextRecordsUrl": "/query/01g-2000", "totalSize": 60, "done": false`), "nextRecordsUrl"},
		{body(`"totalSize": 60, "done": true`), "there are 60"},
		{body(`"totalSize": 20, "done": false`), `"done" in the answer is false`},
		{body(`"totalSize": 20, "done": true`), ""},
		{body(`"isLast": false`), "isLast"},
		{body(`"isLast": true`), ""},
		{body(`"last_page": false`), "last_page"},
		{body(`"last_page": 1`), ""},
		{body(`"meta": {"pagination": {"last-page": 3}}`), "meta.pagination.last-page"},
		{body(`"last": "2025-01-01"`), ""},
		{body(`"hits": {"total": 60}`), "there are 60"},
		{body(`"hits": {"total": {"value": 60, "relation": "eq"}}`), "there are 60"},
		{body(`"hits": {"total": {"value": 20, "relation": "eq"}}`), ""},
		{body(`"response": {"numFound": 60, "start": 0}`), "there are 60"},
		{body(`"LastEvaluatedKey": {"id": {"S": "x"}}`), "LastEvaluatedKey.id.S"},
		{body(`"LastEvaluatedKey": null`), ""},
		{body(`"_scroll_id": "DXF1"`), "_scroll_id"},
		{body(`"_scroll_id": "DXF1", "hits": {"total": {"value": 20}}`), ""},
		{body(`"_scroll_id": "DXF1", "hits": {"total": {"value": 60}}`), "there are 60"},
		{body(`"offset": "itrA/rec3"`), "offset"},
		{body(`"offset": 20`), ""},
		{body(`"offset": "20"`), ""},
		{body(`"exceededTransferLimit": true`), "exceededTransferLimit"},
		{body(`"nbPages": 3, "page": 0`), "nbPages"},
		{body(`"end_of_stream": false`), "end_of_stream"},
		{body(`"end_of_stream": true`), ""},
		{body(`"opensearch:totalResults": "60"`), "there are 60"},
		{body(`"info": {"more_records": true}`), "info.more_records"},
		{body(`"info": {"more_records": false, "page": 1}`), ""},
		{body(`"d": {"HasMoreItems": true}`), "d.HasMoreItems"},
		{body(`"meta": {"has-more": true}`), "meta.has-more"},
		{body(`"IsTruncated": true`), "IsTruncated"},
		{body(`"order": {"total": 60, "done": false, "last": false}`), ""},
		{body(`"d": {"total": 60, "done": false}`), ""},
		{body(`"total": 60.5, "done": "no", "next": null, "next_page": -1, "annex": "next"`), ""},
		{object(`"total": 60, "done": false, "last": false, "nextPage": "x", "LastEvaluatedKey": "x"`), ""},
		{header("X-Total", "60"), "there are 60"},
		{header("X-Total", "20"), ""},
		{header("X-Total-Count", "60"), "there are 60"},
		{header("X-Total-Pages", "3"), "X-Total-Pages"},
		{header("X-Total-Pages", "1"), ""},
		{header("X-WP-Total", "60"), "there are 60"},
		{header("X-WP-TotalPages", "3"), "X-Wp-Totalpages"},
		{header("X-Next-Page", "2"), "X-Next-Page"},
		{header("X-Next-Page", ""), ""},
		{header("X-Pagination", `{"totalCount": 60, "currentPage": 1}`), "there are 60"},
		{header("X-Pagination", `{"nextPage": 2}`), "X-Pagination.nextPage"},
		{header("Content-Range", "items 0-19/60"), "there are 60"},
		{header("Content-Range", "0-19/20"), ""},
		{header("Content-Range", "0-19/*"), ""},
		{header("Content-Range", "bytes 0-19/60"), ""},
		{header("X-RateLimit-Limit", "5000"), ""},
		{header("X-Nextjs-Cache", "HIT"), ""},
	} {
		w, err := New(jobfile.Pagination{}, one.page.URL, nil, nil, &Learned{})
		if err != nil {
			t.Fatal(err)
		}
		step, err := w.Answer(one.page)
		if err != nil || (step.State == Incomplete) != (one.says != "") || !strings.Contains(step.Reason, one.says) {
			t.Errorf("%d: %s with %v: the walk is %s: %s %v", i, one.page.Body, one.page.Header, step.State, step.Reason, err)
		}
	}
}

// A server that counts records says so on the first page, whatever else it says, so that a path of "total" that leads nowhere is
// found there. A last page may be without its cursor.
func TestATotalThatIsNotThereIsFoundOnTheFirstPage(t *testing.T) {
	for _, p := range []jobfile.Pagination{offsets, sized, numbers, cursors} {
		for _, rest := range []string{`"x": []`, `"total": 9`, `"next": 7`} {
			p.Total = "totl"
			first, _ := url.Parse(firstURL)
			w, err := New(p, first, nil, nil, &Learned{})
			if err != nil {
				t.Fatal(err)
			}
			if step, err := w.Answer(pageOf(t, first, asked{body: data(0, 7, rest)})); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), `"totl"`) || strings.Contains(err.Error(), "there is .") {
				t.Errorf("%s with %s: %+v %v", p.Style, rest, step, err)
			}
		}
	}
	p := cursors
	p.Next, p.Total = "n", ""
	if step := walked(t, p, firstURL, []asked{{firstURL, data(0, 7), ""}}); step.State != Complete {
		t.Errorf("the walk is %s: %s", step.State, step.Reason)
	}
}

// What is to be done about a total that is too high is what the job can do, and check: off helps where the job names no total.
func TestTheAdviceAboutATotalIsForTheJob(t *testing.T) {
	page := func(n int, list string) asked {
		return asked{url: fmt.Sprintf("https://api.test/orders?limit=2&page=%d", n), body: `{"total": 9, "data": [` + list + `]}`}
	}
	auto, named := jobfile.Pagination{Style: jobfile.AutoPages}, jobfile.Pagination{Style: jobfile.PagePages, Param: "page", First: 1, Total: "total"}
	unchecked := auto
	unchecked.Unchecked = true
	for _, one := range []struct {
		p     jobfile.Pagination
		state State
		says  string
		not   string
	}{
		{auto, Incomplete, `3 records came, though the answer says that there are 9: write "check: off"`, "out"},
		{named, Incomplete, `leave "total" out, and write "check: off", if it counts`, "style"},
		{jobfile.Pagination{}, Incomplete, "write a style of paginate that leads to them", `"total"`},
		{unchecked, Complete, "", "total"},
	} {
		answers := []asked{page(1, `{"id": 1}, {"id": 2}`), page(2, `{"id": 3}`), page(3, "")}
		if one.p.Style == jobfile.NoPages {
			answers = answers[:1]
		} else if one.p.Unchecked {
			answers = answers[:2]
		}
		step := walked(t, one.p, answers[0].url, answers)
		if step.State != one.state || !strings.Contains(step.Reason, one.says) || strings.Contains(step.Reason, one.not) {
			t.Errorf("%+v: the walk is %s: %s", one.p, step.State, step.Reason)
		}
	}
}

// Numbers that stand alone in a cursor may count records, also where base64 hides them. Those of times and parts of tokens do not.
func TestNumbersOfACursor(t *testing.T) {
	for text, want := range map[string]string{
		"100": "[100]", "page_3": "[3]", "100|50|desc": "[100 50]", `{"page":3}`: "[3]", "b2Zmc2V0OjEwMA": "[100]", "b2Zmc2V0OjEwMA==": "[100]",
		"2025-06-05T04": "[]", "itrA1/rec3": "[]", "": "[]", "gAAAAABm7w==": "[]",
	} {
		if got := fmt.Sprint(numbersIn(text)); got != want {
			t.Errorf("%q: %s in place of %s", text, got, want)
		}
	}
}
