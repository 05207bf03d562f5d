package learn

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Read reads a response for limits. headers are net/http's, with canonical names. head is
// the beginning of the body: 4 KiB are read, and only if WantsBody returns true. now is
// when the headers arrived. Read is safe for concurrent use and retains none of its
// arguments.
func Read(status int, headers map[string][]string, head []byte, request Request, now time.Time) Lesson {
	var few [16]string
	names := few[:0]
	for name := range headers {
		if interesting(name) || request.Dialect != nil && request.Dialect.readsHeader(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && status < 400 && !needsBody(status, head, &request) {
		return Lesson{}
	}
	return read(status, headers, names, head, request, now)
}

// interesting tells whether a header may be about limits.
func interesting(name string) bool {
	switch name { // the most frequent headers first
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
	return slices.ContainsFunc(builtin.beginning, func(start string) bool { return strings.HasPrefix(name, start) })
}

// WantsBody tells whether Read needs the beginning of a body: of errors, and of all answers
// of the few hosts that refuse with 200.
func WantsBody(status int, request Request) bool {
	return status >= 400 || needsBody(status, []byte{0}, &request)
}

func needsBody(status int, head []byte, request *Request) bool {
	if len(head) == 0 || status < 200 || status >= 300 {
		return false
	}
	var room [most]*Dialect
	return slices.ContainsFunc(builtin.of(request, room[:0]), func(d *Dialect) bool { return d.readsBody(status) })
}

// readsBody tells whether a dialect looks at the bodies of a status.
func (d *Dialect) readsBody(status int) bool {
	for n := range d.Refusals {
		if slices.Contains(d.Refusals[n].Status, status) {
			return true
		}
	}
	return len(d.Body) > 0
}

// maxHeaders bounds the limit headers of one response that are read.
const maxHeaders = 64

// maxLines bounds the lines of one header that are read.
const maxLines = 16

// read is Read for a response with headers or a body of interest.
func read(status int, headers map[string][]string, names []string, head []byte, request Request, now time.Time) Lesson {
	now = now.Round(0)
	// Sorted, because a map has no order and the result must not depend on it.
	slices.Sort(names)
	names = names[:min(len(names), maxHeaders)]
	s := &reading{clock: &clock{now: now, headers: headers}, served: status < 400, method: request.Method}
	if seconds := windowOf(first(headers["Age"])); seconds > 0 {
		s.clock.age = time.Duration(seconds) * time.Second
	}
	dialects := builtin.of(&request, nil)
	s.headers(headers, names, dialects)
	head = head[:min(len(head), maxBodyBytes)]
	text := skip(head)
	s.json = len(text) > 0 && (text[0] == '{' || text[0] == '[')
	var found *finding
	if status >= 400 || len(names) > 0 || len(head) > 0 {
		for _, d := range dialects {
			if s.clock.age == 0 {
				s.members(d, head)
			}
		}
		if found = s.findRefusal(status, head, dialects); found == nil {
			found = s.findRefusal(status, head, builtin.anywhere)
		}
	}
	s.finishGroups(status)
	return s.lesson(status, found, dialects)
}

// headers reads all headers that may be about limits. Of a response from a cache only the
// retry time counts.
func (s *reading) headers(headers map[string][]string, names []string, dialects []*Dialect) {
	var resetUnit, retryUnit time.Duration
	for _, d := range dialects {
		resetUnit, retryUnit = cmp.Or(resetUnit, d.ResetUnit), cmp.Or(retryUnit, d.RetryUnit)
	}
	for _, name := range names {
		if len(name) > maxNameLength {
			continue
		}
		lines := headers[name]
		lines = lines[:min(len(lines), maxLines)]
		f, ok := headerNames.field(name)
		d, h := headerRule(dialects, f.header)
		if h == nil {
			d, h = builtin.row(f.header)
		}
		switch {
		case h != nil:
			if s.clock.age == 0 || h.Is == IsRetry {
				s.readByRule(d, h, f.header, lines)
			}
		case ok && (s.clock.age == 0 || f.role == IsRetry):
			s.readHeader(f, lines, resetUnit, retryUnit)
		}
	}
}

func headerRule(dialects []*Dialect, name string) (*Dialect, *Header) {
	for _, d := range dialects {
		if h := d.header(name); h != nil {
			return d, h
		}
	}
	return nil, nil
}

// finishGroups makes limits of the groups.
func (s *reading) finishGroups(status int) {
	s.assignWindows()
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return !g.finish(s, status) })
	slices.SortStableFunc(s.groups, func(a, b *group) int {
		return cmp.Or(strings.Compare(a.family, b.family), strings.Compare(a.dim, b.dim))
	})
	s.merge()
	// An old API of Discord sends Retry-After in milliseconds, which another header of the
	// response reveals.
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
