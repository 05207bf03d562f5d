package paginate

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Where servers usually put what leads to the next page. The first name that an answer has
// counts.
var (
	urlNames = []string{
		"next", "next_url", "nextUrl", "next_page_url", "nextPageUrl", "next_page", "nextLink", "@odata.nextLink",
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
		"total", "total_count", "totalCount", "total_results", "totalResults", "total_records", "totalRecords", "totalElements", "@odata.count",
		"meta.total", "meta.total_count", "pagination.total", "pagination.total_count", "paging.total", "page.totalElements",
	}
)

// overhear adds what a page says by usual names that the job does not name. That ends no walk that a cursor or a URL leads on.
func (r rule) overhear(p Page, s *said, pages int, first *url.URL) {
	p.Body = p.Body.Outline()
	known, how := Recognise(jobfile.Pagination{Style: jobfile.AutoPages, Unchecked: true}, first, p)
	heard, err := rule{known}.hear(p, pages, first)
	if n, failed := strconv.ParseInt(p.Header.Get("X-Total-Count"), 10, 64); failed == nil {
		heard.total = n
	}
	if s.total < 0 && !p.Whole {
		s.total = heard.total
	}
	if s.over = heard.more == no && !p.Whole; !p.Whole {
		size, _ := p.Body.Get(nameOf(p.Body, lists.Only(p.Body.Leaves(mostThere), pageSizes.MatchString), isCount))
		s.size, _ = count(size)
	}
	echoed := strings.HasSuffix(known.Next, "after") || known.Next == "cursor" // of this page
	switch {
	case err != nil || s.more != nothing || s.cursor != "" || heard.more == no:
	case heard.more == yes:
		s.more, s.by = yes, fmt.Sprintf("%q in the answer is true", known.More)
	case heard.cursor != "" && heard.cursor != "0" && !echoed && (known.Style == jobfile.LinkPages || !p.Whole): // a record may have a "next" of its own
		s.more, s.by = yes, how
	case !p.Whole:
		for _, name := range p.Body.Leaves(mostThere) {
			v, _ := p.Body.Get(name)
			text, has := v.Text()
			n, err := count(v)
			switch {
			case pageCounts.MatchString(name) && err == nil && v.Number() && n > int64(pages):
				s.more, s.by = yes, fmt.Sprintf("%q in the answer is %d", name, n)
			case nextNames.MatchString(name) && has && text != "" && text != "0" && text != "false" && name != r.Next:
				s.more, s.by = yes, fmt.Sprintf("there is %q in the answer", name)
			}
		}
	}
}

// nextNames finds names of what leads to a next page, besides those of cursorNames and urlNames, and
// pageCounts those of the number of all pages, which may be too low, and pageSizes those of the number of records of a full one.
var (
	nextNames  = regexp.MustCompile(`(?i)next.?(page|cursor|token|link|url|id|key|marker|offset|start)?$|continu`)
	pageSizes  = regexp.MustCompile(`(?i)(^|\.)(per_?page|page_?size|page\.size|limit)$`)
	pageCounts = regexp.MustCompile(`(?i)(total|last|num).?pages?$|pages?.?count$|^pages$`)
)

// Recognise returns the pagination that a server's first answer shows, and a sentence about it.
// The style stays what it is if nothing leads to another page.
func Recognise(p jobfile.Pagination, first *url.URL, page Page) (jobfile.Pagination, string) {
	page.Body = page.Body.Outline()
	p.More = nameOf(page.Body, moreNames, func(v records.Value) bool { _, err := truth(v); return err == nil })
	p.Total = nameOf(page.Body, totalNames, isCount)
	if _, has := nextLink(page.Header, page.URL); has {
		p.Style = jobfile.LinkPages
		return p, `pages follow by the header Link with rel="next"`
	}
	name := nameOf(page.Body, urlNames, func(v records.Value) bool {
		text, ok := v.Text()
		return ok && (strings.Contains(text, "://") || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "?"))
	})
	if name != "" {
		p.Style, p.Next = jobfile.NextPages, name
		return p, fmt.Sprintf("pages follow by the URL in %q", name)
	}
	for _, name := range page.Body.Leaves(mostThere) { // of GraphQL
		if at, found := strings.CutSuffix(name, "pageInfo.endCursor"); found {
			p.Style, p.Next, p.More, p.Param = jobfile.CursorPages, name, at+"pageInfo.hasNextPage", "after"
			if p.In == jobfile.InBody {
				p.Param = "variables.after"
			}
			return p, fmt.Sprintf("pages follow by the cursor in %q, which the parameter %q carries", p.Next, p.Param)
		}
	}
	cursor, named, has := cursorIn(p, page)
	counted, hasParam := countedBy(p, first, page.Records)
	switch {
	case has, named && !hasParam:
		return cursor, fmt.Sprintf("pages follow by the cursor in %q, which the parameter %q carries", cursor.Next, cursor.Param)
	case hasParam:
		return counted, fmt.Sprintf("pages follow by the parameter %q, from %d", counted.Param, counted.First)
	}
	return p, "nothing in the answer leads to another page"
}

func isCount(v records.Value) bool {
	_, err := count(v)
	return err == nil && v.Number()
}

// nameOf is the first of some paths whose value is as it should be, "" if there is none.
func nameOf(body records.Value, names []string, accepts func(records.Value) bool) string {
	for _, name := range names {
		if v, ok := body.Get(name); ok && !v.Null() && accepts(v) {
			return name
		}
	}
	return ""
}

// cursorIn is the rule of a cursor that an answer names, and maybe has: it may be null.
func cursorIn(p jobfile.Pagination, page Page) (known jobfile.Pagination, named, has bool) {
	known = p
	known.Style = jobfile.CursorPages
	for _, name := range cursorNames {
		v, ok := page.Body.Get(name[0])
		cursor, err := reference(v)
		if !ok || err != nil || named && cursor == "" {
			continue
		}
		carries := name[1]
		if name[0] == "next" && v.Number() {
			carries = "page"
		}
		known.Next, known.Param, named = name[0], carries, true
		if cursor != "" {
			return known, true, true
		}
	}
	return known, named, false
}

// countedBy is the rule of an offset or a number of a page in the URL of the first page.
func countedBy(p jobfile.Pagination, first *url.URL, n int) (jobfile.Pagination, bool) {
	query := first.Query()
	for i, name := range slices.Concat(offsetParams, pageParams) {
		number, err := strconv.Atoi(query.Get(name))
		if err != nil || number < 0 {
			continue
		}
		if p.Style, p.In, p.Param, p.First = jobfile.OffsetPages, "", name, number; i >= len(offsetParams) {
			p.Style = jobfile.PagePages
		}
		for _, size := range sizeParams {
			if full, err := strconv.Atoi(query.Get(size)); err == nil && full > 0 && p.Size == 0 && n > 0 {
				p.Size = full
			}
		}
		return p, true
	}
	return p, false
}
