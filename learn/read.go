package learn

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Read says what a response teaches. The headers are as net/http has them, with
// canonical names; head is the beginning of the body, of which 4 KiB are looked
// at, and only where WantsBody says so; now is when the headers arrived. It is
// safe for concurrent use, keeps nothing of its arguments, and believes nothing.
func Read(status int, headers map[string][]string, head []byte, request Request, now time.Time) Lesson {
	var few [16]string
	names := few[:0]
	for name := range headers {
		if interesting(name) || request.Dialect != nil && request.Dialect.knows(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && status < 400 && !wants(status, head, &request) {
		return Lesson{}
	}
	return read(status, headers, names, head, request, now)
}

// interesting says whether a header may have to do with limits.
func interesting(name string) bool {
	switch name { // what nearly every response has, first
	case "Date", "Content-Type", "Content-Length", "Server", "Cache-Control", "Connection", "Vary", "Etag", "Expires",
		"Last-Modified", "Set-Cookie", "Accept-Ranges", "Content-Encoding", "Strict-Transport-Security", "Age", "Via",
		"X-Content-Type-Options", "X-Frame-Options", "X-Xss-Protection", "X-Request-Id", "X-Cache", "X-Powered-By",
		"Content-Security-Policy", "Referrer-Policy", "Alt-Svc", "Cf-Ray", "Cf-Cache-Status", "Transfer-Encoding":
		return false
	}
	if strings.Contains(name, "imit") || strings.Contains(name, "etry") {
		return true
	}
	if len(name) < 4 || name[1] != '-' {
		return name == "Mediawiki-Api-Error"
	}
	if builtin.headers[name] {
		return true
	}
	for _, start := range builtin.beginning {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// WantsBody says whether Read looks at the beginning of a body: of an error, and
// of any answer from the few hosts that refuse with 200.
func WantsBody(status int, request Request) bool {
	return status >= 400 || wants(status, []byte{0}, &request)
}

func wants(status int, head []byte, request *Request) bool {
	if len(head) == 0 || status < 200 || status >= 300 {
		return false
	}
	var room [most]*Dialect
	for _, d := range builtin.of(request, room[:0]) {
		if d.reads(status) {
			return true
		}
	}
	return false
}

// reads says whether a dialect looks at the bodies of a status.
func (d *Dialect) reads(status int) bool {
	for n := range d.Refusals {
		if slices.Contains(d.Refusals[n].Status, status) {
			return true
		}
	}
	return len(d.Body) > 0
}

// mostNames is how many headers about limits one response has.
const mostNames = 64

// mostLines is how many lines of one header are looked at.
const mostLines = 16

// read is Read where there is something to read.
func read(status int, headers map[string][]string, names []string, head []byte, request Request, now time.Time) Lesson {
	now = now.Round(0)
	// The order of headers means nothing, and a map has none.
	slices.Sort(names)
	names = names[:min(len(names), mostNames)]
	s := &said{clock: &clock{now: now, headers: headers}, served: status < 400, method: request.Method}
	if seconds := windowOf(first(headers["Age"]), false); seconds > 0 {
		s.clock.age = time.Duration(seconds) * time.Second
	}
	dialects := builtin.of(&request, nil)
	s.headers(headers, names, dialects)
	head = head[:min(len(head), mostBody)]
	var found *finding
	if status >= 400 || len(names) > 0 || len(head) > 0 {
		for _, d := range dialects {
			if s.clock.age == 0 {
				s.members(d, head)
			}
		}
		if found = s.finds(status, head, dialects); found == nil {
			found = s.finds(status, head, builtin.anywhere)
		}
	}
	s.settle(status)
	return s.lesson(status, found, dialects)
}

// headers reads all that may have to do with limits. Of a response from a cache
// nothing holds but the time to ask again.
func (s *said) headers(headers map[string][]string, names []string, dialects []*Dialect) {
	var resetUnit, retryUnit time.Duration
	for _, d := range dialects {
		resetUnit, retryUnit = cmp.Or(resetUnit, d.ResetUnit), cmp.Or(retryUnit, d.RetryUnit)
	}
	for _, name := range names {
		if len(name) > longestName {
			continue
		}
		lines := headers[name]
		lines = lines[:min(len(lines), mostLines)]
		f, ok := known.field(name)
		d, h := rowOf(dialects, f.header)
		if h == nil {
			d, h = builtin.row(f.header)
		}
		switch {
		case h != nil:
			if s.clock.age == 0 || h.Is == IsRetry {
				s.row(d, h, f.header, lines)
			}
		case ok && (s.clock.age == 0 || f.role == IsRetry):
			s.take(f, lines, resetUnit, retryUnit)
		}
	}
}

func rowOf(dialects []*Dialect, name string) (*Dialect, *Header) {
	for _, d := range dialects {
		if h := d.header(name); h != nil {
			return d, h
		}
	}
	return nil, nil
}

// settle makes limits of the groups.
func (s *said) settle(status int) {
	s.attach()
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return !g.settle(s, status) })
	slices.SortStableFunc(s.groups, func(a, b *group) int {
		return cmp.Or(strings.Compare(a.family, b.family), strings.Compare(a.dim, b.dim))
	})
	s.merge()
	// An old interface of Discord counts Retry-After in milliseconds, which the
	// header beside it gives away.
	if h := &s.hints.after; h.is == good && h.relative {
		for _, g := range s.groups {
			if n := h.number.float(); g.after > 0 && n >= 100 && abs(n-1000*g.after.Seconds()) <= 1 {
				h.ahead = g.after
				h.at = s.clock.now.Add(h.ahead)
				break
			}
		}
	}
}

func abs(n float64) float64 { return max(n, -n) }
