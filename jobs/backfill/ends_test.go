package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// listed is a server with 60 records, 20 a page, in each style of pagination.
type listed struct {
	style string
	first int // number of the first page
	end   end
	asked int
}

// end is a wrong end of a server, or a fault of a job file.
type end struct {
	job func(p *jobfile.Pagination) // changes the job
	// answer changes an answer. from is the place of its first record.
	answer func(from int, status *int, h http.Header, b map[string]any)
	body   func(from, nth int, text string) string
	from   func(from int) int // which records are given in place of those from a place on
	whole  bool               // the job names no path of the records
}

func (s *listed) Close() {}

func (s *listed) Send(_ context.Context, r *http.Request, _ send.Options) (*http.Response, error) {
	const all, size = 60, 20
	s.asked++
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get(map[string]string{jobfile.OffsetPages: "offset", jobfile.CursorPages: "cursor"}[s.style] + map[bool]string{true: "from"}[s.style != jobfile.OffsetPages && s.style != jobfile.CursorPages]))
	status, h, b := 200, http.Header{}, map[string]any{}
	if s.style == jobfile.PagePages {
		page, _ := strconv.Atoi(q.Get("page"))
		if from = (page - s.first) * size; from < 0 {
			status = 400
		}
	}
	given := from
	if s.end.from != nil {
		given = s.end.from(from)
	}
	list := []any{}
	for i := given; i < min(given+size, all) && status == 200; i++ {
		list = append(list, map[string]any{"id": strconv.Itoa(i)})
	}
	b["data"] = list
	if next := from + size; next < all {
		u := fmt.Sprintf("http://api.test/list?from=%d", next)
		switch s.style {
		case jobfile.CursorPages:
			b["next"] = strconv.Itoa(next)
		case jobfile.NextPages:
			b["next"] = u
		case jobfile.LinkPages:
			h.Set("Link", "<"+u+`>; rel="next"`)
		}
	}
	if s.end.answer != nil {
		s.end.answer(from, &status, h, b)
	}
	text, _ := json.Marshal(b)
	if s.end.body != nil {
		text = []byte(s.end.body(from, s.asked, string(text)))
	}
	if status == 204 {
		text = nil
	} else {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

// paginated is what a job for a server says.
func paginated(style string) jobfile.Pagination {
	return map[string]jobfile.Pagination{
		jobfile.OffsetPages: {Style: style, Param: "offset"},
		jobfile.PagePages:   {Style: style, Param: "page", First: jobfile.UnknownFirst},
		jobfile.CursorPages: {Style: style, Param: "cursor", Next: "next"},
		jobfile.LinkPages:   {Style: style},
		jobfile.NextPages:   {Style: style, Next: "next"},
		"none":              {},
		jobfile.AutoPages:   {Style: style},
	}[style]
}

// says adds a member to each answer, at a path with dots, by the place of its first record.
func says(path string, value func(from int) any) end {
	return end{answer: func(from int, _ *int, _ http.Header, b map[string]any) {
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			inner, ok := b[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				b[name] = inner
			}
			b = inner
		}
		b[names[len(names)-1]] = value(from)
	}}
}

// moved puts the next page elsewhere in an answer than the job says.
func moved(name string) end {
	return end{answer: func(_ int, _ *int, _ http.Header, b map[string]any) {
		b[name] = b["next"]
		delete(b, "next")
	}}
}

// at gives another answer at a place.
func at(place, status int, text string) end {
	return end{
		answer: func(from int, code *int, h http.Header, _ map[string]any) {
			if from == place {
				*code = status
				h.Del("Link")
			}
		},
		body: func(from, _ int, whole string) string {
			if from == place {
				return text
			}
			return whole
		},
	}
}

// written changes what the job says.
func written(change func(p *jobfile.Pagination)) end { return end{job: change} }

func more(from int) any { return from+20 < 60 }

func always[T any](value T) func(int) any { return func(int) any { return value } }

// wrongEnds are ends that hide records, or the end itself.
var wrongEnds = map[string]end{
	"none of it":                         {},
	"a path of the cursor that is none":  moved("continue_with"),
	"a cursor by another usual name":     moved("next_cursor"),
	"a cursor with a dot in its name":    moved("@odata.nextLink"),
	"a cursor in an object":              says("paging.next_token", func(from int) any { return map[bool]any{true: "x", false: nil}[from < 40] }),
	"a written path of more that is not": written(func(p *jobfile.Pagination) { p.More = "has_moore" }),
	"a written total that is not":        written(func(p *jobfile.Pagination) { p.Total = "meta.totl" }),
	"more is true":                       says("has_more", more),
	"more is true in meta":               says("meta.has_more", more),
	"a total":                            says("total", always(60)),
	"a total in a header":                {answer: func(_ int, _ *int, h http.Header, _ map[string]any) { h.Set("X-Total-Count", "60") }},
	"a total that is too high":           says("total", always(70)),
	"a total of the page":                says("total", always(20)),
	"a total that is the size, written":  {job: func(p *jobfile.Pagination) { p.Total = "total" }, answer: says("total", always(20)).answer},
	"a number of pages":                  says("meta.total_pages", always(3)),
	"a link beside":                      says("links.next", func(from int) any { return map[bool]any{true: "/list?x", false: nil}[from < 40] }),
	"pages from 0":                       written(nil),
	"the first page again":               {from: func(int) int { return 0 }},
	"the second page again":              {from: func(from int) int { return min(from, 20) }},
	"an empty page in the middle":        at(20, 200, `{"data":[],"has_more":true}`),
	"a cut body":                         at(20, 200, `{"data":[{"id":"20"},{"id`),
	"a page of HTML":                     at(20, 200, "<html>busy</html>"),
	"an empty body":                      at(20, 200, ""),
	"null, of 60":                        at(20, 200, `{"data":null,"total":60}`),
	"an error with 200":                  at(20, 200, `{"error":"busy"}`),
	"an error in place of the list":      at(20, 200, `{"data":"busy"}`),
	"400 because it is too deep":         at(40, 400, `{"error":"offset is above the maximum"}`),
	"422 because it is too deep":         at(40, 422, `{"message":"Only the first 40 results are available"}`),
	"401 in the middle":                  at(20, 401, "{}"),
	"500 in the middle":                  at(20, 500, "{}"),
	"400 behind the last page":           at(60, 400, `{"error":"page out of range"}`),
	"404 behind the last page":           at(60, 404, "{}"),
	"204 behind the last page":           at(60, 204, ""),
	"no list behind the last page":       at(60, 200, `{"page":4}`),
	"no path of the records":             {whole: true, answer: says("has_more", more).answer},
}

// For each wrong end and each style: all 60 records come, or the unit is not done.
func TestNoEndOfAServerLosesRecordsWithoutAWord(t *testing.T) {
	complete := 0
	for name, wrong := range wrongEnds {
		t.Run(name, func(t *testing.T) {
			for _, style := range []string{"none", jobfile.OffsetPages, jobfile.PagePages, jobfile.CursorPages, jobfile.LinkPages, jobfile.NextPages, jobfile.AutoPages} {
				served := style
				switch style {
				case "none", jobfile.AutoPages:
					served = jobfile.CursorPages
				}
				if wrong.whole && style != "none" {
					continue // the answers are the records
				}
				t.Run(style, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, m := &listed{style: served, end: wrong, first: 1}, newMemory()
						if name == "pages from 0" {
							s.first = 0
						}
						j := &jobfile.Job{Name: "list", Workers: 1, Tries: 3, Records: "data", ID: []string{"id"}, Paginate: paginated(style), Request: jobfile.Request{Method: "GET", URL: "http://api.test/list"}}
						if wrong.whole {
							j.Records, j.ID = "", nil
						}
						if wrong.job != nil {
							wrong.job(&j.Paginate)
						}
						b := New(Options{Job: j, Output: m, Sender: s, Units: numbered(1), Log: unsaid, Warn: unsaid})
						err := b.Run(t.Context())
						u := m.units[0]
						switch {
						case u.state == output.Done && len(m.records) == 60:
							complete++
						case u.state == output.Done:
							t.Errorf("%s, %s: the unit is done with %d records", name, style, len(m.records))
						case err == nil && u.reason == "", errors.Is(err, context.Canceled), u.state == output.Waiting && err == nil:
							t.Errorf("%s, %s: the unit is %s without a reason: %v", name, style, u.state, err)
						case wrong.answer == nil && wrong.body == nil && wrong.job == nil && wrong.from == nil && style != "none":
							t.Errorf("%s: the unit is %s: %s, %v", style, u.state, u.reason, err)
						}
						if strings.Contains(u.reason, "%!") {
							t.Error(u.reason)
						}
					})
				})
			}
		})
	}
	t.Logf("%d of %d end complete", complete, 7*len(wrongEnds))
}

// run runs a job against answers that do not change, and returns what it ends with.
func run(t *testing.T, j *jobfile.Job, units int, status int, body string) (*memory, int, error) {
	m := newMemory()
	o := &origin{asked: map[string]int{}, answer: func(string, int) (int, string) {
		return status, map[int]string{502: `Proxy-Status: abide; details="refused"`}[status]
	}, body: body}
	j.Name, j.Workers, j.Tries, j.Request = "list", 1, 10, jobfile.Request{Method: "GET", URL: "http://api.test/{item}"}
	b := New(Options{Job: j, Output: m, Sender: o, Units: numbered(units), Log: unsaid, Warn: unsaid})
	err := b.Run(t.Context())
	asked := 0
	for _, n := range o.asked {
		asked += n
	}
	return m, asked, err
}

func TestAJobStopsWhereEachUnitWouldFailTheSameWay(t *testing.T) {
	for name, test := range map[string]struct {
		status, most int
		body, says   string
	}{
		"no credentials":         {401, mostFruitless, "{}", "401 Unauthorized"},
		"no path of records":     {200, mostFruitless, `{"items":[]}`, "there is items"},
		"web pages":              {200, mostFruitless, "<html>", "web page"},
		"no id in any record":    {200, mostFruitless, `{"data":[{"key":1}]}`, `no "id" (there is key)`},
		"no value of that id":    {200, mostFruitless, `{"data":[{"id":null}]}`, `null at "id"`},
		"all of another charset": {200, mostFruitless, "{\"data\":[{\"id\":\"\xff\"}]}", "not UTF-8"},
		"no such host":           {502, mostUnreached, "{}", "the host refused the connection"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, asked, err := run(t, &jobfile.Job{Records: "data", ID: []string{"id"}}, 300, test.status, test.body)
			if err == nil || !strings.Contains(err.Error(), test.says) || asked > test.most {
				t.Errorf("%s: %d requests, %v", name, asked, err)
			}
		})
	}
}

// A host that has answered is waited for when it goes away; one that has not is asked by one worker.
func TestAHostThatHasAnsweredIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Second}, newMemory()
		o.answer = func(u string, nth int) (int, string) {
			if nth < 4 && u != "http://api.test/u0?page=0" {
				return 502, `Proxy-Status: abide; details="refused"`
			}
			return 200, ""
		}
		b := newRun(o, m)
		time.AfterFunc(time.Second/2, func() {
			if n := o.begun.Load(); n != 1 {
				t.Errorf("%d requests before the first answer", n)
			}
		})
		if err := b.Run(t.Context()); err != nil || b.Status(time.Now()).State != status.JobDone {
			t.Errorf("%v, %+v", err, b.Status(time.Now()))
		}
	})
}

func TestUnitsThatAreIncompleteForOneReasonAreOneWarning(t *testing.T) {
	var said []string
	j := &jobfile.Job{Name: "list", Records: "data", ID: []string{"id"}, Workers: 1, Tries: 1, Request: jobfile.Request{Method: "GET", URL: "http://api.test/{item}"}, Columns: []jobfile.Column{{Name: "a", Path: "x"}, {Name: "b", Path: "y"}}}
	o := &origin{asked: map[string]int{}, body: `{"data":[{"id":1}],"has_more":true}`}
	b := New(Options{Job: j, Output: newMemory(), Sender: o, Units: numbered(5), Log: unsaid, Warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
	if err := b.Run(t.Context()); err != nil || len(said) != 2 || !strings.Contains(said[0], `no record has "x", the path of the column a, nor "y"`) || !strings.Contains(said[1], "u0 is incomplete") {
		t.Errorf("%v, %q", err, said)
	}
}

func TestARecordWithoutAnIDFailsNoUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, err := run(t, &jobfile.Job{Records: "data", ID: []string{"id"}}, 1, 200, "{\"data\":[{\"id\":1},{\"id\":null},{\"id\":2,\"a\":\"\xff\"},{\"id\":3}]}")
		if err != nil || m.units[0].state != output.Done || len(m.records) != 4 || m.records["1"].Rejected+m.records["3"].Rejected != "" {
			t.Errorf("%v, %s: %s, %v", err, m.units[0].state, m.units[0].reason, m.records)
		}
	})
}

func TestAUnitWhoseTimeIsNotOverIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		j := &jobfile.Job{Records: "data", ID: []string{"id"}, Range: &jobfile.Range{From: now.AddDate(0, 0, -1), To: now.AddDate(0, 0, 1), Step: jobfile.Step{N: 1, Unit: "d"}, Zone: time.UTC}}
		m, o := newMemory(), &origin{asked: map[string]int{}, body: `{"data":[{"id":1}]}`}
		j.Name, j.Workers, j.Tries, j.Request = "list", 1, 10, jobfile.Request{Method: "GET", URL: "http://api.test/{date}"}
		b := New(Options{Job: j, Output: m, Sender: o, Units: units.Of(t.Context(), j, nil, false), Log: unsaid, Warn: unsaid})
		if err := b.Run(t.Context()); err != nil || m.units[0].state != output.Done || m.units[1].state != output.NotOver || m.units[2].state != output.NotOver {
			t.Errorf("%v, %+v", err, m.units)
		}
		if s := b.Status(now); s.State != status.JobDone || s.Units.Open != 2 || s.Units.Done != 1 || !s.Run.Open.Equal(j.Range.To.AddDate(0, 0, 1)) {
			t.Errorf("%+v %+v", s, s.Run)
		}
	})
}
