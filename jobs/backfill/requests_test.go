package backfill

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// shop is a server with so many records for each unit, 20 a page.
type shop struct {
	records int
	from    int                                                  // number of its first page
	before  func(unit string, page int) (status int, clamp bool) // of a page that is not there: status 0 is an empty page
	says    func(page, pages int) map[string]any

	mu    sync.Mutex
	asked map[int]int // page → requests
	all   int
}

func (s *shop) Close() {}

func (s *shop) Send(ctx context.Context, r *http.Request, _ send.Options) (*http.Response, error) {
	const size = 20
	if err := clock.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	q, unit := r.URL.Query(), r.URL.Path[1:]
	page, pages, code := s.from, (s.records+size-1)/size, 200
	if text := q.Get("page"); text != "" {
		page, _ = strconv.Atoi(text)
	} else if text := q.Get("offset"); text != "" {
		n, _ := strconv.Atoi(text)
		page += (n + size - 1) / size
	} else if text := q.Get("cursor"); text != "" {
		page, _ = strconv.Atoi(text)
	}
	s.mu.Lock()
	s.all++
	s.asked[page]++
	s.mu.Unlock()
	if s.before != nil && page < s.from {
		status, clamp := s.before(unit, page)
		if code = max(status, 200); clamp {
			page = s.from
		}
	}
	if unit == "u0" && s.records < 0 {
		code = 404
	}
	b := map[string]any{}
	if s.says != nil {
		maps.Copy(b, s.says(page-s.from+1, pages))
	}
	list := []any{}
	for i := max((page-s.from)*size, 0); page >= s.from && i < min((page-s.from+1)*size, max(s.records, -s.records)); i++ {
		list = append(list, map[string]any{"id": unit + "-" + strconv.Itoa(i)})
	}
	b["data"] = list
	text, _ := json.Marshal(b)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

func total(n int, rest ...any) func(page, pages int) map[string]any {
	return func(page, pages int) map[string]any {
		said := map[string]any{"total": n}
		for i := 0; i+1 < len(rest); i += 2 {
			said[rest[i].(string)] = rest[i+1]
		}
		return said
	}
}

func hasMore(page, pages int) map[string]any { return map[string]any{"has_more": page < pages} }

func pagesAre(name string) func(page, pages int) map[string]any {
	return func(_, pages int) map[string]any { return map[string]any{name: pages} }
}

func refuses(status int) func(string, int) (int, bool) {
	return func(string, int) (int, bool) { return status, false }
}

func clamps(string, int) (int, bool) { return 0, true }

// Of ten units each page is asked for once. Page 0, where nothing says where pages begin, is asked for once, of the first unit; a page
// behind the last one is, where nothing says that there is none.
func TestNoPageIsAskedForThatNothingNeeds(t *testing.T) {
	const units = 10
	unknown := jobfile.Pagination{Style: jobfile.PagePages, Param: "page", First: jobfile.UnknownFirst}
	offsets := jobfile.Pagination{Style: jobfile.OffsetPages, Param: "offset", First: jobfile.UnknownFirst}
	cursor := jobfile.Pagination{Style: jobfile.CursorPages, Param: "cursor", Next: "next"}
	skips := []jobfile.Rule{{Status: 404, Then: "skip"}}
	for name, test := range map[string]struct {
		p      jobfile.Pagination
		query  string
		s      *shop
		errors []jobfile.Rule
		asked  int
	}{
		"the URL has page 1":                  {unknown, "?page=1", &shop{records: 28, from: 1, says: total(28)}, nil, 2 * units},
		"the URL has page 0":                  {unknown, "?page=0", &shop{records: 28, from: 0, says: total(28)}, nil, 2 * units},
		"page 0 is page 1":                    {unknown, "", &shop{records: 28, from: 1, before: clamps, says: total(28)}, nil, 2*units + 1},
		"page 0 is page 1, and all":           {unknown, "", &shop{records: 13, from: 1, before: clamps, says: total(13)}, nil, units},
		"page 0 is empty":                     {unknown, "", &shop{records: 28, from: 1, before: refuses(0), says: hasMore}, nil, 2*units + 1},
		"page 0 is 400":                       {unknown, "", &shop{records: 28, from: 1, before: refuses(400), says: total(28)}, nil, 2*units + 1},
		"page 0 is 404, which a rule skips":   {unknown, "", &shop{records: 28, from: 1, before: refuses(404), says: total(28)}, skips, 2*units + 1},
		"pages from 0":                        {unknown, "", &shop{records: 28, from: 0, says: total(28)}, nil, 2 * units},
		"pages from 0, the first unit is 404": {unknown, "", &shop{records: -28, from: 0, says: total(28)}, nil, 2 * units},
		"nothing is said":                     {unknown, "?page=1", &shop{records: 28, from: 1}, nil, 3 * units},
		"a page with all, and a total":        {unknown, "?page=1", &shop{records: 13, from: 1, says: total(13)}, nil, units},
		"a round page, and a total":           {unknown, "?page=1", &shop{records: 20, from: 1, says: total(20)}, nil, 2 * units},
		"a round page, a total and a size":    {unknown, "?page=1", &shop{records: 10, from: 1, says: total(10, "per_page", 20)}, nil, units},
		"a size that is not the page's":       {unknown, "?page=1", &shop{records: 60, from: 1, says: total(20, "limit", 10)}, nil, 4 * units},
		"more":                                {unknown, "?page=1", &shop{records: 40, from: 1, says: hasMore}, nil, 2 * units},
		"full pages, and how many":            {unknown, "?page=1", &shop{records: 40, from: 1, says: pagesAre("total_pages")}, nil, 3 * units}, // which may be too low, or count from 0
		"full pages, and which is the last":   {unknown, "?page=1", &shop{records: 40, from: 1, says: pagesAre("last_page")}, nil, 3 * units},
		"offset, a total":                     {offsets, "", &shop{records: 28, says: total(28)}, nil, 2 * units},
		"offset, more":                        {offsets, "", &shop{records: 40, says: hasMore}, nil, 2 * units},
		"offset, all and a total":             {offsets, "", &shop{records: 13, says: total(13)}, nil, units},
		"offset, an offset in the URL":        {offsets, "?offset=20", &shop{records: 28, says: total(28)}, nil, units},
		"a cursor, and more": {cursor, "", &shop{records: 40, says: func(page, pages int) map[string]any {
			return map[string]any{"next": map[bool]any{true: strconv.Itoa(page), false: nil}[page < pages]}
		}}, nil, 2 * units},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, m := test.s, newMemory()
				s.asked = map[int]int{}
				j := &jobfile.Job{
					Name: "list", Workers: 4, Tries: 3, Records: "data", ID: []string{"id"}, Paginate: test.p, Errors: test.errors,
					Request: jobfile.Request{Method: "GET", URL: "http://api.test/{item}" + test.query},
				}
				b := New(Options{Job: j, Output: m, Sender: s, Units: numbered(units), Log: unsaid, Warn: unsaid})
				err := b.Run(t.Context())
				want, done := units*s.records, units
				if s.records < 0 {
					want, done = -(units-1)*s.records, units-1
				}
				if test.query == "?offset=20" {
					want -= 20 * units
				}
				if n := b.progress.counts().Units.Done; err != nil || n != int64(done) || len(m.records) != want || s.all != test.asked {
					t.Errorf("%v: %d units are done with %d records by %d requests %v: %s", err, n, len(m.records), s.all, s.asked, m.units[0].reason)
				}
			})
		})
	}
}
