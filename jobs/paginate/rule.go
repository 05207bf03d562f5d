package paginate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// rule finds the next page in a page.
type rule struct{ jobfile.Pagination }

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
	by     string // what says more although the job does not name it; "": the job does
	over   bool   // no page follows, by a usual name that the job does not name
	size   int64  // of a full page, by a usual name; 0: it does not say
	total  int64  // of records; -1: it does not say
	cursor string // or the URL of the next page; "": there is none
	shown  keys
}

// keys is a set of the keys of a Pagination whose path an answer has had.
type keys int32

const (
	hasNext keys = 1 << iota
	hasMore
	hasTotal
)

// hear reads what a page says, which is the last of so many.
func (r rule) hear(p Page, pages int, first *url.URL) (s said, err error) {
	at := func(path string, key keys) (v records.Value) {
		if path == "" {
			return nil
		}
		v, has := p.Body.Get(path)
		if has {
			s.shown |= key
		}
		return v
	}
	if s.more, err = truth(at(r.More, hasMore)); err != nil {
		return s, fmt.Errorf("\"more\" leads to %q, which is no truth value", r.More)
	}
	if s.total, err = count(at(r.Total, hasTotal)); err != nil {
		return s, fmt.Errorf("\"total\" leads to %q, which is no number of records", r.Total)
	}
	switch r.Style {
	case jobfile.LinkPages:
		s.cursor, _ = nextLink(p.Header, p.URL)
	case jobfile.CursorPages, jobfile.NextPages:
		v := at(r.Next, hasNext)
		if r.Header != "" && len(p.Header.Values(r.Header)) > 0 {
			s.shown |= hasNext
			v, _ = json.Marshal(p.Header.Get(r.Header)) // texts have no error
		}
		if s.cursor, err = reference(v); r.In == jobfile.InBody && (s.cursor != "" || len(v) > 0 && strings.Contains("[{", string(v[:1]))) {
			s.cursor, err = string(v), nil
		}
		if err != nil {
			return s, fmt.Errorf("\"next\" leads to %q, which is neither a text nor a number", r.Next)
		}
	}
	if !r.Unchecked {
		r.overhear(p, &s, pages, first)
	}
	return s, nil
}

// ErrPath is about a path of a job that no answer has had so far.
var ErrPath = errors.New("no answer has had")

// leads finds names of what may lead to a next page.
var leads = regexp.MustCompile(`(?i)next|cursor|token|continu|more|after|marker|bookmark|scroll|resume|total|count`)

// missing refuses the end of a walk with records if a path of the job was in no answer, unless
// the answers say themselves that nothing is missing, and the first page without its total. A server may leave the cursor of a
// last page out, so a usual name may be missing if nothing else could be meant.
func (r rule) missing(step Step, at position, p Page, said said, before keys) error {
	excused := step.State == Complete && at.Total > 0 && at.came(r) >= at.Total && r.Total == ""
	if r.Unchecked || at.Records == 0 || excused {
		return nil
	}
	for _, one := range []struct {
		key, path string
		bit       keys
	}{{"next", r.Next, hasNext}, {"header", r.Header, hasNext}, {"more", r.More, hasMore}, {"total", r.Total, hasTotal}} {
		may := one.bit != hasTotal && step.State != Complete && said.by == "" // a later answer may have it
		if one.path == "" || (at.Shown|before)&one.bit != 0 || one.bit == hasNext && said.more == no || may {
			continue
		}
		there := p.Body.Leaves(mostThere)
		if one.key == "header" {
			there = slices.DeleteFunc(slices.Sorted(maps.Keys(p.Header)), func(name string) bool { return !leads.MatchString(name) })
		}
		if one.bit != hasTotal && (len(there) == 0 || leads.MatchString(one.path) && !slices.ContainsFunc(there, leads.MatchString)) {
			continue
		}
		return fmt.Errorf("%w %q, which \"%s\" of paginate names; there is %s. If answers may be without it, write \"check: off\" in paginate",
			ErrPath, one.path, one.key, cmp.Or(strings.Join(there, ", "), "nothing beside the records"))
	}
	return nil
}

// mostThere bounds the paths that an error lists.
const mostThere = 20

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
	case s.more == no, s.over && came >= s.total:
		return complete("the server says that there are no more records")
	case n == 0 && s.more == yes && s.by == "" && (at.Full > 0 || r.Style == jobfile.PagePages):
		if r.Style == jobfile.OffsetPages {
			r.advance(at, at.Full)
		}
		return Step{State: Going}
	case n == 0:
		return complete("page %d is empty", at.Pages)
	case s.more == yes, came < s.total:
	case came == s.total && (short || int64(n) < s.size || first && at.Full == 0 && !likeMaximum(n)): // a total may be the number of records of the page
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
	return n%5 == 0 || n%12 == 0 || n >= 16 && n&(n-1) == 0
}
