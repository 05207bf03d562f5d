package paginate

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// rule finds the next page in a page.
type rule struct {
	jobfile.Pagination
	next, more, total records.Path
}

func ruleOf(p jobfile.Pagination) (r rule, err error) {
	r.Pagination = p
	switch p.Style {
	case jobfile.NoPages, jobfile.AutoPages, jobfile.LinkPages:
	case jobfile.OffsetPages, jobfile.PagePages:
		if p.Param == "" {
			return r, fmt.Errorf("paginate: the style %s needs \"param\"", p.Style)
		}
	case jobfile.CursorPages:
		if p.Param == "" || p.Next == "" && p.Header == "" {
			return r, errors.New("paginate: the style cursor needs \"param\", and \"next\" or \"header\"")
		}
	case jobfile.NextPages:
		if p.Next == "" {
			return r, errors.New("paginate: the style next_url needs \"next\"")
		}
	default:
		return r, fmt.Errorf("paginate: there is no style %q", p.Style)
	}
	for _, one := range []struct {
		key, text string
		path      *records.Path
	}{{"next", p.Next, &r.next}, {"more", p.More, &r.more}, {"total", p.Total, &r.total}} {
		if *one.path, err = records.ParsePath(one.text); err != nil {
			return r, fmt.Errorf("paginate: %s: %w", one.key, err)
		}
	}
	return r, nil
}

// counted says whether the next page is known without the server.
func (r rule) counted() bool { return r.Style == jobfile.OffsetPages || r.Style == jobfile.PagePages }

// follows names what leads to the next page.
func (r rule) follows() string {
	if r.Style == jobfile.CursorPages {
		return "cursor"
	}
	return "URL"
}

// suspect says why pages may repeat.
func (r rule) suspect() string {
	if r.Param == "" {
		return "the pages lead round in a circle"
	}
	return fmt.Sprintf("the server may not know the parameter %q", r.Param)
}

// answer is yes, no, or nothing.
type answer int

const (
	nothing answer = iota
	yes
	no
)

// said holds what a page says about the next one.
type said struct {
	more   answer
	total  int64  // of records; -1: it does not say
	cursor string // or the URL of the next page; "": there is none
}

// hear reads what a page says.
func (r rule) hear(p Page) (s said, err error) {
	s.total = -1
	if r.More != "" {
		v, _ := p.Body.At(r.more)
		if s.more, err = truth(v); err != nil {
			return s, fmt.Errorf("\"more\" leads to %q, which is no truth value", r.More)
		}
	}
	if r.Total != "" {
		v, _ := p.Body.At(r.total)
		if s.total, err = count(v); err != nil {
			return s, fmt.Errorf("\"total\" leads to %q, which is no number of records", r.Total)
		}
	}
	switch r.Style {
	case jobfile.LinkPages:
		s.cursor, _ = nextLink(p.Header, p.URL)
	case jobfile.CursorPages, jobfile.NextPages:
		if r.Header != "" {
			s.cursor = p.Header.Get(r.Header)
			break
		}
		v, _ := p.Body.At(r.next)
		if s.cursor, err = reference(v); err != nil {
			return s, fmt.Errorf("\"next\" leads to %q, which is neither a text nor a number", r.Next)
		}
	}
	return s, nil
}

var errKind = errors.New("another kind of value")

func truth(v records.Value) (answer, error) {
	if v.Null() {
		return nothing, nil
	}
	text, ok := v.Text()
	switch strings.ToLower(text) {
	case "true", "1", "yes":
		return yes, nil
	case "false", "0", "no", "":
		if ok {
			return no, nil
		}
	}
	return nothing, errKind
}

// count is a number of records, -1 if there is none.
func count(v records.Value) (int64, error) {
	if v.Null() {
		return -1, nil
	}
	text, _ := v.Text()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1, err
	}
	return max(n, -1), nil
}

// reference is a cursor or URL, "" if there is none.
func reference(v records.Value) (string, error) {
	if v.Null() {
		return "", nil
	}
	text, ok := v.Text()
	switch {
	case !ok, text == "true" && string(v) == "true":
		return "", errKind
	case string(v) == "false":
		return "", nil
	}
	return text, nil
}

// move goes to the next page, if there is one.
func (r rule) move(at *position, p Page, s said, first *url.URL) Step {
	switch r.Style {
	case jobfile.OffsetPages, jobfile.PagePages:
		return r.count(at, p.Records, s)
	case jobfile.CursorPages, jobfile.LinkPages, jobfile.NextPages:
		return r.refer(at, p, s, first)
	case jobfile.AutoPages:
		return complete("nothing in the answer leads to another page")
	}
	return complete("it is the only page")
}

// refer goes where the page points to.
func (r rule) refer(at *position, p Page, s said, first *url.URL) Step {
	switch {
	case s.more == no:
		return complete("the server says that there are no more records")
	case s.cursor == "", s.cursor == "0" && r.Style == jobfile.CursorPages: // from 0 a walk would begin again
		return complete("page %d has no %s of a next page", at.Pages, r.follows())
	case len(s.cursor) > maxNext:
		return incomplete("the %s of the next page has %d characters, more than %d", r.follows(), len(s.cursor), maxNext)
	case r.Style == jobfile.CursorPages:
		at.Cursor = s.cursor
		return Step{State: Going}
	}
	next, err := follow(first, p.URL, s.cursor)
	if err != nil {
		return Step{State: Incomplete, Reason: err.Error()}
	}
	at.URL = next.RequestURI()
	return Step{State: Going}
}

// count goes on by offset or number, if there may be more.
func (r rule) count(at *position, n int, s said) Step {
	first, short := at.Pages == 1, at.Full > 0 && n < at.Full
	r.advance(at, n)
	came := at.came(r)
	switch {
	case s.more == no:
		return complete("the server says that there are no more records")
	case n == 0 && s.more == yes && (at.Full > 0 || r.Style == jobfile.PagePages):
		if r.Style == jobfile.OffsetPages {
			r.advance(at, at.Full)
		}
		return Step{State: Going}
	case n == 0:
		return complete("page %d is empty", at.Pages)
	case s.more == yes, came < s.total:
	case came == s.total && (short || first && at.Full == 0):
		return complete("the total of %d records is reached", s.total)
	case short && r.Size > 0 && (!first || !likeMaximum(n)):
		return complete("page %d is short", at.Pages)
	}
	if first && (short || at.Full == 0) {
		at.Full = n // as many as the server gives
	}
	return Step{State: Going}
}

func (r rule) advance(at *position, n int) {
	if r.Style == jobfile.PagePages {
		n = 1
	}
	at.Number += n
}

// came returns the number of the server's records that the walk has passed. A walk that
// begins behind the first records has passed these, too.
func (p *position) came(r rule) int64 {
	switch {
	case r.Style == jobfile.OffsetPages && r.First > 1:
		return int64(p.Number)
	case r.Style == jobfile.OffsetPages:
		return int64(p.Number - r.First)
	case r.Style == jobfile.PagePages:
		return int64(max(r.First-1, 0))*int64(p.Full) + int64(p.Records)
	}
	return int64(p.Records)
}

// likeMaximum says whether servers may have n as the most records that a page can have.
func likeMaximum(n int) bool {
	return n%10 == 0 || n%25 == 0 || n >= 16 && n&(n-1) == 0
}

// Where servers usually put what leads to the next page. The first name that an answer has
// counts.
var (
	urlNames = []string{
		"next", "next_url", "nextUrl", "next_page_url", "nextPageUrl", "next_page", "nextLink", `"@odata.nextLink"`,
		"links.next", "links.next.href", "_links.next", "_links.next.href", "paging.next", "pagination.next", "pagination.next_url",
		"pagination.next_page_url", "meta.next", "meta.next_url", "info.next", "page.next",
	}
	// cursorNames are paths of cursors and the parameters that carry them.
	cursorNames = [][2]string{
		{"next_cursor", "cursor"},
		{"nextCursor", "cursor"},
		{"next_page_token", "page_token"},
		{"nextPageToken", "pageToken"},
		{"next_token", "next_token"},
		{"nextToken", "nextToken"},
		{"continuation_token", "continuation_token"},
		{"continuationToken", "continuationToken"},
		{"cursor.next", "cursor"},
		{"cursors.after", "after"},
		{"paging.cursors.after", "after"},
		{"paging.next.after", "after"},
		{"paging.next_cursor", "cursor"},
		{"pagination.next_cursor", "cursor"},
		{"pagination.nextCursor", "cursor"},
		{"pagination.next_token", "next_token"},
		{"meta.next_cursor", "cursor"},
		{"meta.nextCursor", "cursor"},
		{"meta.next_token", "next_token"},
		{"response_metadata.next_cursor", "cursor"},
		{"links.next_cursor", "cursor"},
		{"next", "cursor"},
		{"next_page", "page"},
		{"nextPage", "page"},
		{"cursor", "cursor"},
	}
	pageParams   = []string{"page", "page_number", "pageNumber", "page[number]", "p"}
	offsetParams = []string{"offset", "start", "skip", "page[offset]", "$skip", "startAt", "startIndex"}
	sizeParams   = []string{"limit", "per_page", "perPage", "page_size", "pageSize", "page[size]", "page[limit]", "size", "$top", "maxResults", "count"}
	moreNames    = []string{
		"has_more", "hasMore", "has_next", "hasNext", "has_next_page", "hasNextPage", "more", "meta.has_more", "meta.has_next",
		"pagination.has_more", "pagination.hasMore", "pagination.has_next", "paging.has_more", "page_info.has_next_page", "pageInfo.hasNextPage",
	}
	totalNames = []string{
		"total", "total_count", "totalCount", "total_results", "totalResults", "total_records", "totalRecords", "totalElements", `"@odata.count"`,
		"meta.total", "meta.total_count", "pagination.total", "pagination.total_count", "paging.total", "page.totalElements",
	}
)

// recognise returns the pagination that a server's first answer shows, and a sentence about it.
// What the job says counts before what an answer looks like. The style stays auto if nothing
// leads to another page.
func recognise(p jobfile.Pagination, first *url.URL, page Page) (jobfile.Pagination, string) {
	if p.More == "" {
		p.More = nameOf(page.Body, moreNames, func(v records.Value) bool { _, err := truth(v); return err == nil })
	}
	total := p.Total
	if total == "" {
		total = nameOf(page.Body, totalNames, func(v records.Value) bool { _, err := count(v); return err == nil && v.Number() })
	}
	if _, has := nextLink(page.Header, page.URL); has {
		p.Style = jobfile.LinkPages
		return p, `pages follow by the header Link with rel="next"`
	}
	if name := nextURLName(p, page.Body); name != "" {
		p.Style, p.Next = jobfile.NextPages, name
		return p, fmt.Sprintf("pages follow by the URL in %q", name)
	}
	byCursor := func(known jobfile.Pagination) (jobfile.Pagination, string) {
		return known, fmt.Sprintf("pages follow by the cursor in %q, which the parameter %q carries", cmp.Or(known.Header, known.Next), known.Param)
	}
	cursor, named, has := cursorIn(p, page)
	if has {
		return byCursor(cursor)
	}
	withTotal := p
	withTotal.Total = total
	if known, has := countedBy(withTotal, first, page.Records); has {
		return known, fmt.Sprintf("pages follow by the parameter %q, from %d", known.Param, known.First)
	}
	if named {
		return byCursor(cursor)
	}
	p = withTotal
	return p, "nothing in the answer leads to another page"
}

// nameOf is the first of some paths whose value is as it should be, "" if there is none.
func nameOf(body records.Value, names []string, accepts func(records.Value) bool) string {
	for _, name := range names {
		if v, ok := valueAt(body, name); ok && !v.Null() && accepts(v) {
			return name
		}
	}
	return ""
}

func valueAt(body records.Value, name string) (records.Value, bool) {
	path, err := records.ParsePath(name)
	if err != nil {
		return nil, false
	}
	return body.At(path)
}

func nextURLName(p jobfile.Pagination, body records.Value) string {
	names := urlNames
	if p.Next != "" {
		names = []string{p.Next}
	}
	return nameOf(body, names, func(v records.Value) bool {
		text, ok := v.Text()
		return ok && (strings.Contains(text, "://") || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "?"))
	})
}

// cursorIn is the rule of a cursor that an answer names, and maybe has: it may be null.
func cursorIn(p jobfile.Pagination, page Page) (known jobfile.Pagination, named, has bool) {
	known = p
	known.Style = jobfile.CursorPages
	if p.Header != "" {
		known.Param = cmp.Or(p.Param, "cursor")
		has = page.Header.Get(p.Header) != ""
		return known, has, has
	}
	names := cursorNames
	if p.Next != "" {
		names = [][2]string{{p.Next, "cursor"}}
	}
	for _, name := range names {
		v, ok := valueAt(page.Body, name[0])
		cursor, err := reference(v)
		if !ok || err != nil || named && cursor == "" {
			continue
		}
		carries := name[1]
		if name[0] == "next" && v.Number() {
			carries = "page"
		}
		known.Next, known.Param, named = name[0], cmp.Or(p.Param, carries), true
		if cursor != "" {
			return known, true, true
		}
	}
	return known, named, false
}

// countedBy is the rule of an offset or a number of a page in the URL of the first page.
func countedBy(p jobfile.Pagination, first *url.URL, n int) (jobfile.Pagination, bool) {
	query := first.Query()
	find := func(names []string) (string, int, bool) {
		if p.Param != "" {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != p.Param })
		}
		for _, name := range names {
			if number, err := strconv.Atoi(query.Get(name)); err == nil && number >= 0 {
				return name, number, true
			}
		}
		return "", 0, false
	}
	name, number, has := find(offsetParams)
	p.Style = jobfile.OffsetPages
	if !has {
		if name, number, has = find(pageParams); !has {
			return p, false
		}
		p.Style = jobfile.PagePages
	}
	p.Param, p.First = name, number
	for _, size := range sizeParams {
		if full, err := strconv.Atoi(query.Get(size)); err == nil && full > 0 && p.Size == 0 && n > 0 {
			p.Size = full
		}
	}
	return p, true
}
