package paginate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Usual names of what says whether another page follows. Each stands for all ways to write it, as wordOf returns it. Of several that an
// answer has the first one counts.
var (
	urlNames   = strings.Fields("next nexturl nextpageurl nextpage nextlink @odata.nextlink next.href nextrecordsurl nexturi")
	moreNames  = strings.Fields("hasmore hasnext hasnextpage hasmorepages hasmoreitems hasmoreresults hasmorerecords morerecords moreresults moreavailable istruncated exceededtransferlimit incompleteresults more")
	lastNames  = strings.Fields("islast islastpage lastpage last isdone done endofstream") // more follows where it is false; one that is true may mean another thing
	totalNames = strings.Fields("total totalcount totalresults totalrecords totalelements totalitems totalsize totalhits totalrows numfound @odata.count odata.count opensearch:totalresults paginationcount total.value")
	// holders are names of what holds such names, and so are those of ofAnswer, unless the name may be that of a value of one record: those of vague.
	holders  = strings.Fields("meta metadata pagination paging page pageinfo info hits links cursor cursors searchmetadata responsemetadata")
	ofAnswer = strings.Fields("data d result results response")
	vague    = strings.Fields("total more last done next pages")
	// cursorNames are words of cursors and the parameters that carry them, where names have _ and where they have not.
	cursorNames = [][3]string{
		{"nextcursor", "cursor", "cursor"},
		{"nextpagetoken", "page_token", "pageToken"},
		{"nexttoken", "next_token", "nextToken"},
		{"continuationtoken", "continuation_token", "continuationToken"},
		{"next.after", "after", "after"},
		{"after", "after", "after"},
		{"next", "cursor", "cursor"},
		{"nextpage", "page", "page"},
		{"cursor", "cursor", "cursor"},
		{"offset", "offset", "offset"}, // where it is no number
	}
	pageParams   = []string{"page", "page_number", "pageNumber", "page[number]", "p"}
	offsetParams = []string{"offset", "start", "skip", "page[offset]", "$skip", "startAt", "startIndex"}
	sizeParams   = []string{"limit", "per_page", "perPage", "page_size", "pageSize", "page[size]", "page[limit]", "size", "$top", "maxResults", "count"}
)

// member is a part of an answer, by whose word it may say whether another page follows.
type member struct {
	path, word string
	value      records.Value
}

// membersOf are the texts, numbers, truth values and nulls of a body, at most those that are nearest to its root.
func membersOf(body records.Value) (list []member) {
	const most = 200
	body.EachLeaf(func(path string, value records.Value) { list = append(list, member{path, "", value}) })
	slices.SortStableFunc(list, func(a, b member) int { return strings.Count(a.path, ".") - strings.Count(b.path, ".") })
	list = list[:min(len(list), most)]
	for i := range list {
		list[i].word = wordOf(list[i].path)
	}
	return list
}

// written finds what the ways to write a name differ in.
var written = regexp.MustCompile(`^x-(wp-|pagination-)?|[_-]`)

// wordOf is a path in small letters, without "_", "-" and what holds it: "total" of "meta.Pagination.total".
func wordOf(path string) string {
	word := written.ReplaceAllString(strings.ToLower(path), "")
	for holder, rest, found := strings.Cut(word, "."); found; holder, rest, found = strings.Cut(word, ".") {
		if !slices.Contains(holders, holder) && (!slices.Contains(ofAnswer, holder) || slices.Contains(vague, rest)) {
			break
		}
		word = rest
	}
	return word
}

// headersOf are the headers of an answer as a body.
func headersOf(h http.Header) records.Value {
	parts := map[string]json.RawMessage{}
	for name := range h {
		text := h.Get(name)
		if name == "Content-Range" && !strings.HasPrefix(text, "bytes") { // as in "items 0-19/60"
			name = "Total"
			_, text, _ = strings.Cut(text, "/")
		}
		if parts[name] = json.RawMessage(text); !json.Valid(parts[name]) {
			parts[name], _ = json.Marshal(text) // texts have no error
		}
	}
	body, _ := json.Marshal(parts) // nor have these
	return body
}

// overhear adds what a page says by usual names that the job does not name. That ends no walk that a cursor or a URL leads on.
func (r rule) overhear(p Page, s *said, pages int, first *url.URL) {
	known, how := Recognise(jobfile.Pagination{Style: jobfile.AutoPages, Unchecked: true}, first, p)
	heard, err := rule{known}.hear(p, pages, first)
	echoed := slices.Contains([]string{"after", "cursor"}, wordOf(known.Next)) // of this page
	more := func(format string, values ...any) {
		if err == nil && s.more == nothing && s.cursor == "" && heard.more != no {
			s.more, s.by = yes, fmt.Sprintf(format, values...)
		}
	}
	if heard.more == yes {
		more("%q in the answer is true", known.More)
	}
	if !slices.Contains(noNext, heard.cursor) && !echoed && (known.Style == jobfile.LinkPages || !p.Whole) { // a record may have a "next" of its own
		more("%s", how)
	}
	if p.Whole {
		return
	}
	s.over = heard.more == no
	scroll := ""
	for _, m := range append(membersOf(headersOf(p.Header)), membersOf(p.Body)...) {
		text, _ := m.value.Text()
		n, err := count(m.value)
		switch isNumber := err == nil && n >= 0; {
		case isNumber && s.total < 0 && slices.Contains(totalNames, m.word):
			s.total = n
		case isNumber && pageSizes.MatchString(m.word):
			s.size = cmp.Or(s.size, n)
		case isNumber && n > int64(pages) && pageCounts.MatchString(m.word):
			more("%q in the answer is %d", m.path, n)
		case slices.Contains(lastNames, m.word) && string(m.value) == "false", slices.Contains(moreNames, m.word) && text == "true":
			more("%q in the answer is %s", m.path, text)
		case m.path == r.Next || strings.EqualFold(m.path, r.Header):
		case nextNames.MatchString(m.word) && !slices.Contains(noNext, text):
			more("there is %q in the answer", m.path)
		case m.word == "scrollid" && text != "" && p.Records > 0:
			scroll = m.path
		}
	}
	if scroll != "" && s.total < 0 { // the last answer has it, too
		more("there is %q in the answer", scroll)
	}
}

// nextNames finds words of what leads to a next page, besides those of cursorNames and urlNames, but where its value is one of
// noNext. pageCounts finds those of the number of all pages, which may be too low, and pageSizes those of the number of records
// of a full one.
var (
	nextNames  = regexp.MustCompile(`next(page|records?|results?|batch)?(page|cursor|token|link|ur[li]|id|key|marker|offset|start|range)?(\.(after|cursor|href|ur[li]|page|token))?$|continu|lastevaluatedkey`)
	pageSizes  = regexp.MustCompile(`(^|\.)(perpage|pagesize|limit)$|^size$`)
	pageCounts = regexp.MustCompile(`(total|last|num|nb)pages?$|pages?count$|^pages$`)
	noNext     = []string{"", "0", "-1", "false", "none", "null"}
)

// Recognise returns the pagination that a server's first answer shows, and a sentence about it.
// The style stays what it is if nothing leads to another page.
func Recognise(p jobfile.Pagination, first *url.URL, page Page) (jobfile.Pagination, string) {
	list := membersOf(page.Body)
	p.More, p.Total = pathOf(list, moreNames, truths), pathOf(list, totalNames, counts)
	if _, has := nextLink(page.Header, page.URL); has {
		p.Style = jobfile.LinkPages
		return p, `pages follow by the header Link with rel="next"`
	}
	if name := pathOf(list, urlNames, urls); name != "" {
		p.Style, p.Next = jobfile.NextPages, name
		return p, fmt.Sprintf("pages follow by the URL in %q", name)
	}
	cursor, has := cursorIn(p, list)
	counted, hasParam := countedBy(p, first, page.Records)
	switch {
	case has, cursor.Next != "" && !hasParam:
		return cursor, fmt.Sprintf("pages follow by the cursor in %q, which the parameter %q carries", cursor.Next, cursor.Param)
	case hasParam:
		return counted, fmt.Sprintf("pages follow by the parameter %q, from %d", counted.Param, counted.First)
	}
	return p, "nothing in the answer leads to another page"
}

// Forms of values.
var truths, counts, urls = regexp.MustCompile(`^(?i:true|false|yes|no|0|1)$`), regexp.MustCompile(`^[0-9]+$`), regexp.MustCompile(`://|^[/?]`)

// pathOf is the path of the first member whose word is among some, and whose value has a form; "" if there is none.
func pathOf(list []member, words []string, form *regexp.Regexp) string {
	for _, word := range words {
		for _, m := range list {
			if text, _ := m.value.Text(); m.word == word && form.MatchString(text) {
				return m.path
			}
		}
	}
	return ""
}

// cursorIn is the rule of a cursor that an answer names, and maybe has: it may be null.
func cursorIn(p jobfile.Pagination, list []member) (known jobfile.Pagination, has bool) {
	known = p
	known.Style = jobfile.CursorPages
	for _, m := range list { // of GraphQL
		if at, found := strings.CutSuffix(m.path, "pageInfo.endCursor"); found {
			known.Next, known.More, known.Param = m.path, at+"pageInfo.hasNextPage", "after"
			if p.In == jobfile.InBody {
				known.Param = "variables.after"
			}
			return known, true
		}
	}
	for _, name := range cursorNames {
		for _, m := range list {
			cursor, err := reference(m.value)
			if m.word != name[0] || err != nil || cursor == "" && (known.Next != "" || m.word == "next") || m.word == "offset" && (cursor == "" || counts.MatchString(cursor)) { // which may be one of a URL
				continue
			}
			known.Next, known.Param = m.path, name[2]
			if m.word == "next" && m.value.Number() {
				known.Param = "page"
			} else if strings.Contains(m.path[strings.LastIndex(m.path, ".")+1:], "_") {
				known.Param = name[1]
			}
			if cursor != "" {
				return known, true
			}
		}
	}
	return known, false
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
