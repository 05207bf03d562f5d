package backfill

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/abide-proxy/abide/policy/jobfile"
)

// expiring is a server with three pages, whose cursors are of a run: those of an earlier one are refused.
type expiring struct {
	style   string
	run     int
	fails   map[string]int // by the page, such as "2", what it is answered with in this run, once where it is 500 or more
	refuses int            // the cursors of an earlier run
	asked   []string
}

func (s *expiring) Close() {}

func (s *expiring) Send(_ context.Context, r *http.Request, _ send.Options) (*http.Response, error) {
	run, page, has := strings.Cut(r.URL.Query().Get("cursor"), ".")
	if !has {
		run, page = strconv.Itoa(s.run), "0"
	}
	s.asked = append(s.asked, page)
	n, _ := strconv.Atoi(page)
	status, h, b := 200, http.Header{"Content-Type": {"application/json"}}, map[string]any{"data": []any{map[string]any{"id": page}}}
	if status = 200; run != strconv.Itoa(s.run) {
		status = s.refuses
	} else if code := s.fails[page]; code > 0 {
		if status = code; code >= 500 {
			delete(s.fails, page)
		}
	}
	next := fmt.Sprintf("%d.%d", s.run, n+1)
	switch {
	case n == 2:
	case s.style == jobfile.LinkPages:
		h.Set("Link", "<http://api.test/?cursor="+next+`>; rel="next"`)
	case s.style == jobfile.NextPages:
		b["next"] = "http://api.test/?cursor=" + next
	default:
		b["next"] = next
	}
	text, _ := json.Marshal(b)
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

// A place that an earlier run has saved and that the server refuses now, such as a cursor that is too old, holds nothing back: the
// unit begins at its first page, once a run.
func TestAUnitWhoseSavedPlaceIsRefusedBeginsAnew(t *testing.T) {
	for name, test := range map[string]struct {
		refuses int
		fails   map[string]int // in the second run
		asked   string         // then
		state   output.State
		said    int
	}{
		"400":                             {400, nil, "2 0 1 2", output.Done, 1},
		"404":                             {404, nil, "2 0 1 2", output.Done, 1},
		"410":                             {410, nil, "2 0 1 2", output.Done, 1},
		"422":                             {422, nil, "2 0 1 2", output.Done, 1},
		"not the credential's":            {403, nil, "2", output.Failed, 0},
		"a failure first":                 {410, map[string]int{"0": 500}, "2 0 0 1 2", output.Done, 1},
		"the first page is refused, too":  {410, map[string]int{"0": 410}, "2 0", output.Failed, 1},
		"a page that it has come to then": {410, map[string]int{"2": 400}, "2 0 1 2", output.Failed, 1},
	} {
		for _, style := range []string{jobfile.CursorPages, jobfile.LinkPages, jobfile.NextPages, jobfile.AutoPages} {
			t.Run(name+" "+style, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, m, said := &expiring{style: style, refuses: test.refuses, fails: map[string]int{"2": 403}}, newMemory(), 0
					for s.run = range 2 {
						s.asked = nil
						j := &jobfile.Job{Name: "list", Workers: 1, Tries: 3, Records: "data", ID: []string{"id"}, Paginate: paginated(style), Request: jobfile.Request{Method: "GET", URL: "http://api.test/"}}
						b := New(Options{Job: j, Output: m, Sender: s, Units: numbered(1), Log: func(format string, _ ...any) {
							if strings.Contains(format, "begin again") {
								said++
							}
						}, Warn: unsaid})
						if err := b.Run(t.Context()); err != nil {
							t.Fatal(err)
						}
						s.fails = map[string]int{}
						for page, status := range test.fails {
							s.fails[page] = status
						}
					}
					if u := m.units[0]; u.state != test.state || strings.Join(s.asked, " ") != test.asked || said != test.said {
						t.Errorf("it asked for %v, and is %s: %s; %d lines", s.asked, u.state, u.reason, said)
					}
				})
			})
		}
	}
}

// list is a server with a list of pages of two records. Its third page fails while broken is true.
type list struct {
	style  string
	token  string // is before the offset in cursors and URLs
	rows   []int
	broken bool
	asked  []string
}

func (s *list) Close() {}

func (s *list) Send(_ context.Context, r *http.Request, _ send.Options) (*http.Response, error) {
	place, _ := strings.CutPrefix(r.URL.Path, "/at/")
	from, _ := strconv.Atoi(strings.TrimPrefix(cmp.Or(r.URL.Query().Get("offset"), place), s.token))
	if s.style == jobfile.PagePages {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		from = 2 * max(page-1, 0)
	}
	s.asked = append(s.asked, strconv.Itoa(from))
	status, data := 200, []map[string]int{}
	if s.broken && from == 4 {
		status = 403
	}
	for i := from; i < min(from+2, len(s.rows)); i++ {
		data = append(data, map[string]int{"id": s.rows[i]})
	}
	b, h := map[string]any{"data": data, "has_more": from+2 < len(s.rows)}, http.Header{"Content-Type": {"application/json"}}
	if next := s.token + strconv.Itoa(from+2); from+2 < len(s.rows) {
		switch s.style {
		case jobfile.CursorPages:
			b["next"] = next
		case jobfile.NextPages:
			b["next"] = "/at/" + next + "?limit=2&v=2"
		case jobfile.LinkPages:
			h.Set("Link", "</?limit=2&v=2&offset="+next+`>; rel="next"`)
		}
	}
	text, _ := json.Marshal(b)
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

// A unit goes on at the number of a page, or of a record, for some hours, whatever carries that number. In the next night the list
// may have moved: a run that went on missed records, or erased them with replace: unit. A token, or the ID of a record, is of
// another night as well, so that a walk of many nights comes to its end, unless its records take the place of all that there are.
func TestTheNumberOfAPageIsNotOfAnotherNight(t *testing.T) {
	const goesOn, anew = "4 6", "0 2 4"
	for _, c := range []struct {
		style, token string
		replace      bool
		later        string // what is asked for 24 hours later
	}{
		{jobfile.PagePages, "", false, anew},
		{jobfile.OffsetPages, "", false, anew},
		{jobfile.CursorPages, "", false, anew},
		{jobfile.CursorPages, "x", false, goesOn},
		{jobfile.CursorPages, "97000", false, goesOn},
		{jobfile.CursorPages, "x", true, anew},
		{jobfile.CursorPages, "offset:", false, anew},
		{jobfile.CursorPages, "1764547200,", false, anew},
		{jobfile.CursorPages, "2025-06-05T", false, goesOn},
		{jobfile.LinkPages, "", false, anew},
		{jobfile.LinkPages, "x", false, goesOn},
		{jobfile.LinkPages, "x", true, anew},
		{jobfile.NextPages, "", false, anew},
		{jobfile.NextPages, "x", false, goesOn},
		{jobfile.NextPages, "97000", false, goesOn},
	} {
		for later, want := range map[time.Duration]string{18 * time.Hour: goesOn, 24 * time.Hour: c.later} {
			t.Run(fmt.Sprint(c, later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, m := &list{style: c.style, token: c.token, rows: []int{8, 7, 6, 5, 4, 3, 2, 1}, broken: true}, newMemory()
					p := paginated(c.style)
					if p.More = "has_more"; c.style == jobfile.PagePages {
						p.First = 1
					} else if p.First = 0; c.style == jobfile.CursorPages {
						p.Param = "offset"
					}
					for range 2 {
						s.asked = nil
						j := &jobfile.Job{Name: "list", Workers: 1, Tries: 3, Records: "data", ID: []string{"id"}, Replace: c.replace, Paginate: p, Request: jobfile.Request{Method: "GET", URL: "http://api.test/?v=2"}}
						if err := New(Options{Job: j, Output: m, Sender: s, Units: numbered(1), Log: unsaid, Warn: unsaid}).Run(t.Context()); err != nil {
							t.Fatal(err)
						}
						if s.broken = false; want == anew {
							s.rows = s.rows[2:] // records at the beginning are deleted
						}
						time.Sleep(later)
					}
					if got := strings.Join(s.asked, " "); got != want || m.units[0].state != output.Done {
						t.Errorf("it asked for %s, and is %s: %s", got, m.units[0].state, m.units[0].reason)
					}
				})
			})
		}
	}
}
