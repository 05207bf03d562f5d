package learn

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

// Dialect describes how one service announces and refuses. An empty field says nothing. The
// built-in dialects are in dialects.go; an operator may configure another for a site, which
// takes precedence. If you add a field, also add it to package policy's decoder and to
// docs/learning.md.
type Dialect struct {
	Name  string
	Hosts []string // exact, or *.example.com; none: any host that sends its headers
	Paths []string // prefixes of paths; none: all

	Headers  []Header
	Body     []Header // headers whose Name is a member of a JSON body
	Refusals []Refusal

	// ResetUnit and RetryUnit are the units of a bare number in a reset or retry header. If
	// they are 0, the size of the number decides.
	ResetUnit, RetryUnit time.Duration

	// Scope is the documented scope of the limits, for responses that do not tell it.
	Scope Scope

	// Statuses are additional statuses that count as refusals if they come with a
	// Retry-After or with no units left.
	Statuses []int

	// Apart are paths whose last segment distinguishes budgets that the server gives the
	// same name: /v1/projects/* matches that path and everything below it; * is any one
	// segment. The first match decides. Its name is that of the configuration key.
	Apart []string

	// Limits are those that the service documents.
	Limits []KnownLimit
}

// KnownLimit is a limit that a service documents, and that does not change: so many requests
// in any time of a length, or so many at once.
type KnownLimit struct {
	Requests int64
	Per      time.Duration
	AtOnce   int64 // requests in flight; the other numbers are 0 then
	Scope    Scope // Token or Site
}

// Header describes a header that the general rules cannot read, or read wrongly.
type Header struct {
	Name string // in lower case; a final * matches any rest
	Is   Role
	Form Form

	Of      string        // name of the limit; headers with the same Of make one limit
	Unit    Unit          // what the limit counts
	Scope   Scope         // what shares the limit
	Method  string        // the only method that counts; "": all
	In      time.Duration // unit of a bare number of a time
	Window  time.Duration
	Windows []time.Duration // windows of the members of a list
	Aligned bool            // windows begin on the clock, in UTC
}

// Form is the notation of a value. If you add a form, add its row to forms, its case to readByRule in
// rule.go, an example to forms_test.go, and its name to docs/learning.md.
type Form string

// The forms of values.
const (
	Plain  Form = ""          // a number, or a time
	List   Form = "list"      // one number for each of Windows: 200,2000
	Ratio  Form = "ratio"     // used/allowed, by name: api-usage=18/5000; …
	Named  Form = "named"     // remaining units, by name: reads;197,writes;12
	Suffix Form = "suffix"    // the * of the name is the window: 1m
	Usage  Form = "usage"     // JSON with percentages: {"call_count":28,…}
	Hertz  Form = "persecond" // a rate per second
)

// forms has every form but Plain, which is written by leaving it out.
var forms = []Form{List, Ratio, Named, Suffix, Usage, Hertz}

// roles has every role that a dialect can give to a header. If you add a role, add it here and to
// docs/learning.md.
var roles = []Role{IsLimit, IsRemaining, IsUsed, IsReset, IsNext, IsWindow, IsRate, IsCost, IsRetry, IsLabel}

// Forms lists the names of the forms.
func Forms() []string { return wordsOf(forms) }

// Roles lists the names of the roles.
func Roles() []string { return wordsOf(roles) }

// wordsOf is a list of names as plain text.
func wordsOf[T ~string](all []T) []string {
	return lists.Map(all, func(name T) string { return string(name) })
}

// Refusal tells by the body or a header which responses are refusals, or are not. The first
// match decides.
type Refusal struct {
	Status []int // none: any from 400 on

	// Says are texts of which the body must contain one: a phrase, or key=value for a
	// member of JSON, where value may be a range of numbers (4, 80000-80014) or * for any.
	// In names a header to look in instead. Without texts, Status alone decides.
	Says []string
	In   string
	And  string // a phrase that must be contained too

	Scope Scope

	// Wait, Until, Key and Prose tell when to retry if no header does: after Wait, at the
	// next midnight in time zone Until, or after the number of seconds in JSON member Key
	// or in the text after Prose.
	Wait  time.Duration
	Until string
	Key   string
	Prose string

	Spent       bool   // the announced limits are used up, whatever they say
	Lock        bool   // another request held a lock: no rate was exceeded
	Permanent   bool   // waiting does not help: the credential is not paid for or not valid
	Reason      string // of Permanent, in some words
	Concurrency bool   // too many requests were in flight
	Overload    bool   // the server is short of capacity, whatever this client's rate is
	Block       bool   // everything is refused for a while, and asking again prolongs that
	Fine        bool   // not a refusal
	Hint        bool   // not a refusal, but the wait applies
}

// Check tells what is wrong with an operator's dialect.
func (d *Dialect) Check() error {
	if err := d.check(); err != nil {
		return err
	}
	for n, r := range d.Refusals {
		// A built-in dialect may match every error of a service.
		if slices.Contains(r.Says, "") {
			return fmt.Errorf("refusals[%d].says: an empty phrase is in every body", n)
		}
	}
	return nil
}

func (d *Dialect) check() error {
	for n, h := range d.Headers {
		star := strings.IndexByte(h.Name, '*')
		switch {
		case h.Name == "" || h.Name != normal(h.Name):
			return fmt.Errorf("headers[%d].name: %q has to be in lower case, with - for _ and ratelimit for rate-limit", n, h.Name)
		case star >= 0 && star != len(h.Name)-1:
			return fmt.Errorf("headers[%d].name: %q: a * stands at the end", n, h.Name)
		}
		if err := h.check(); err != nil {
			return fmt.Errorf("headers[%d]%w", n, err)
		}
	}
	for n, h := range d.Body {
		if h.Name == "" {
			return fmt.Errorf("body[%d].name: says no key", n)
		}
		if err := h.check(); err != nil {
			return fmt.Errorf("body[%d]%w", n, err)
		}
	}
	for n, l := range d.Limits {
		if l.AtOnce < 0 || l.Requests < 0 || (l.AtOnce > 0) == (l.Requests > 0) || (l.Requests > 0) != (l.Per > 0) {
			return fmt.Errorf("limits[%d]: has to be requests and per, or concurrency", n)
		}
	}
	for n, path := range d.Apart {
		if err := checkBudgetPath(path); err != nil {
			return fmt.Errorf("apart[%d]: %w", n, err)
		}
	}
	for n, r := range d.Refusals {
		if len(r.Says)+len(r.Status) == 0 {
			return fmt.Errorf("refusals[%d]: needs status or says", n)
		}
		if r.Until != "" {
			if _, err := time.LoadLocation(r.Until); err != nil {
				return fmt.Errorf("refusals[%d].until: %w", n, err)
			}
		}
	}
	return nil
}

func (h *Header) check() error {
	switch {
	case !slices.Contains(roles, h.Is):
		return fmt.Errorf(".is: there is no role %q", h.Is)
	case h.Form != Plain && !slices.Contains(forms, h.Form):
		return fmt.Errorf(".form: there is no form %q", h.Form)
	case h.Form == List && len(h.Windows) == 0:
		return errors.New(": a list needs windows")
	}
	return nil
}

// header is the dialect's rule for a header, or nil.
func (d *Dialect) header(name string) *Header {
	for n := range d.Headers {
		h := &d.Headers[n]
		if h.Name == name && name != "" {
			return h
		}
		if start, ok := strings.CutSuffix(h.Name, "*"); ok && strings.HasPrefix(name, start) {
			return h
		}
	}
	return nil
}

// readsHeader tells whether the dialect has a rule for a header.
func (d *Dialect) readsHeader(name string) bool {
	f, _ := headerNames.field(name)
	return d.header(f.header) != nil
}

// appliesTo tells whether the dialect applies to a path.
func (d *Dialect) appliesTo(path string) bool {
	return len(d.Paths) == 0 || slices.ContainsFunc(d.Paths, func(start string) bool { return strings.HasPrefix(path, start) })
}

// A book finds the dialects of a host.
type book struct {
	hosts     map[string][]*Dialect // :: host, or .example.com for what is below it
	anywhere  []*Dialect
	headers   map[string]bool // canonical names that the general rules would pass over
	beginning []string        // the same, for names that end in *
}

func newBook(rows []Dialect) *book {
	b := &book{hosts: map[string][]*Dialect{}, headers: map[string]bool{}}
	for n := range rows {
		d := &rows[n]
		for _, host := range d.Hosts {
			host = strings.TrimPrefix(host, "*")
			b.hosts[host] = append(b.hosts[host], d)
		}
		if len(d.Hosts) == 0 {
			b.anywhere = append(b.anywhere, d)
		}
		for n := range d.Headers {
			h := &d.Headers[n]
			if start, star := strings.CutSuffix(h.Name, "*"); star {
				b.beginning = append(b.beginning, textproto.CanonicalMIMEHeaderKey(start))
			} else {
				b.headers[textproto.CanonicalMIMEHeaderKey(h.Name)] = true
			}
		}
	}
	return b
}

// most is the largest number of dialects of one host.
const most = 6

// of are the dialects of a host, the closest first, then those that are spoken
// anywhere.
func (b *book) of(r *Request, found []*Dialect) []*Dialect {
	if r.Dialect != nil && r.Dialect.appliesTo(r.Path) {
		found = append(found, r.Dialect)
	}
	var short [maxNameLength]byte
	host := lower(r.Host, short[:0])
	for n := 0; n < len(host); n++ {
		if n > 0 && host[n] != '.' {
			continue
		}
		for _, d := range b.hosts[string(host[n:])] {
			if d.appliesTo(r.Path) && len(found) < most {
				found = append(found, d)
			}
		}
	}
	return found
}

// lower is a host in lower case, without its port and the dot of the root.
func lower(host string, into []byte) []byte {
	for n := range len(host) {
		c := host[n]
		if c == ':' && host[0] != '[' {
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		into = append(into, c)
	}
	if n := len(into); n > 0 && into[n-1] == '.' {
		into = into[:n-1]
	}
	return into
}

// Documented holds the statements of the dialects about a request before it is sent.
type Documented struct {
	EntitySegment int          // the path segment, from 1, that distinguishes budgets of one name; 0: none
	Limits        []KnownLimit // limits of its service; each call returns the same slice
}

// About returns what the dialects say of a request. The closest dialect with limits counts.
func About(request Request) (d Documented) {
	var room [most]*Dialect
	for _, one := range builtin.of(&request, room[:0]) {
		if d.EntitySegment == 0 {
			d.EntitySegment = one.entitySegment(request.Path)
		}
		if len(d.Limits) == 0 {
			d.Limits = one.Limits
		}
	}
	return d
}

// maxBudgetPathSegments bounds the segments of a path in Dialect.Apart.
const maxBudgetPathSegments = 12

// entitySegment is the position, from 1, of the path segment that distinguishes budgets
// which the server gives the same name. For /v1/projects/7/jobs it is 3, where each project
// has a budget of its own. 0: none.
func (d *Dialect) entitySegment(path string) int {
	for _, pattern := range d.Apart {
		if n := matchedSegments(path, pattern); n > 0 {
			return n
		}
	}
	return 0
}

// matchedSegments is the number of segments of a pattern that the path begins with, or 0.
func matchedSegments(path, pattern string) (n int) {
	path, more := strings.CutPrefix(path, "/")
	for pattern, another := pattern[1:], true; another; n++ {
		var want, segment string
		want, pattern, another = strings.Cut(pattern, "/")
		if !more {
			return 0
		}
		segment, path, more = strings.Cut(path, "/")
		if segment == "" || want != "*" && want != segment {
			return 0
		}
	}
	return n
}

// checkBudgetPath tells what is wrong with a path of Dialect.Apart.
func checkBudgetPath(path string) error {
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/*") {
		return fmt.Errorf("%q does not begin with a slash and end with the segment that tells budgets apart, as /v1/projects/* does", path)
	}
	segments := strings.Split(path[1:], "/")
	if len(segments) > maxBudgetPathSegments {
		return fmt.Errorf("%q has more than %d segments", path, maxBudgetPathSegments)
	}
	for _, one := range segments {
		if one == "" || one != "*" && strings.Contains(one, "*") {
			return fmt.Errorf("%q: each segment is a name, or a * for any", path)
		}
	}
	return nil
}
