package learn

import (
	"bytes"
	"cmp"
	"math"
	"net/textproto"
	"slices"
	"strings"
	"sync"
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
	return slices.ContainsFunc(builtin.of(request, room[:0]), func(d *Dialect) bool {
		return len(d.Body) > 0 || slices.ContainsFunc(d.Refusals, func(r Refusal) bool { return slices.Contains(r.Status, status) })
	})
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
			d, h = headerRule(builtin.anywhere, f.header)
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
			if n := h.number.float(); g.after > 0 && n >= 100 && math.Abs(n-1000*g.after.Seconds()) <= 1 {
				h.ahead = g.after
				h.at = s.clock.now.Add(h.ahead)
				break
			}
		}
	}
}

// maxBodyBytes is the largest part of a body that is read.
const maxBodyBytes = 4096

// finding is the Refusal that a body or a header's text matched, with its wait.
type finding struct {
	*Refusal
	wait hint
}

func indexOf(text []byte, word string) int { return bytes.Index(text, []byte(word)) }

// findRefusal returns the first refusal of the dialects that this response matches.
func (s *reading) findRefusal(status int, body []byte, dialects []*Dialect) *finding {
	for _, d := range dialects {
		for n := range d.Refusals {
			if r := &d.Refusals[n]; r.matches(status, body, s.clock.headers) {
				return &finding{r, s.wait(r, body)}
			}
		}
	}
	return nil
}

func (r *Refusal) matches(status int, body []byte, headers map[string][]string) bool {
	if !slices.Contains(r.Status, status) && (len(r.Status) > 0 || status < 400) {
		return false
	}
	text := body
	if r.In != "" {
		lines := headers[textproto.CanonicalMIMEHeaderKey(r.In)]
		if len(lines) == 0 || len(lines[0]) > maxValueLength {
			return false
		}
		text = []byte(lines[0])
	}
	if r.And != "" && indexOf(body, r.And) < 0 {
		return false
	}
	return len(r.Says) == 0 || slices.ContainsFunc(r.Says, func(word string) bool { return bodySays(text, word) })
}

// bodySays looks for a phrase, or for key=value as a member of JSON.
func bodySays(text []byte, word string) bool {
	key, want, member := strings.Cut(word, "=")
	if !member {
		return indexOf(text, word) >= 0
	}
	if want != "*" && !strings.Contains(want, "-") && indexOf(text, want) < 0 {
		return false // no member can have the value
	}
	for value := range members(text, key) {
		if want == "*" || string(value) == want || inNumberRange(string(value), want) {
			return true
		}
	}
	return false
}

// inNumberRange tells whether a number is in a range such as 80000-80014.
func inNumberRange(text, span string) bool {
	low, high, ok := strings.Cut(span, "-")
	if !ok {
		return false
	}
	n, from, to := count(text), count(low), count(high)
	return n.Known && from.Known && to.Known && from.N <= n.N && n.N <= to.N
}

// SpeaksOfRefusal tells whether a short body has the words of a refusal.
func SpeaksOfRefusal(body []byte) bool {
	text := bytes.ToLower(body)
	return slices.ContainsFunc(servedWords, func(word string) bool { return indexOf(text, word) >= 0 })
}

// servedWords are words of refusals with the status of a success, in lower case.
var servedWords = []string{
	"rate limit", "ratelimit", "rate_limit", "too many requests", "limit reached", "limit exceeded", "call frequency", "requests per ", "throttl",
	"captcha", "a robot", "are human", "unusual traffic", "automated ",
}

// wait returns the time that a refusal asks to wait.
func (s *reading) wait(r *Refusal, body []byte) hint {
	var h hint
	if r.Key != "" {
		if value, ok := member(body, r.Key); ok {
			h.add(s.clock.read(string(value), 0))
		}
	}
	if at := indexOf(body, r.Prose); r.Prose != "" && at >= 0 {
		rest := skip(body[at+len(r.Prose):])
		end := 0
		for end < len(rest) && (digit(rest[end]) || rest[end] == '.' && end+1 < len(rest) && digit(rest[end+1])) {
			end++
		}
		h.add(s.clock.read(string(rest[:end]), 0))
	}
	if h.is == notANumber && r.Wait > 0 {
		h.add(s.clock.in(r.Wait, time.Second), good)
	}
	if h.is == notANumber && r.Until != "" {
		h.add(s.clock.at(nextMidnight(s.clock.now, r.Until), time.Second))
	}
	return h
}

// zoneCache caches loaded time zones.
var zoneCache sync.Map

// nextMidnight is the first midnight after now in a time zone. An unknown zone counts as
// UTC.
func nextMidnight(now time.Time, zone string) time.Time {
	found, ok := zoneCache.Load(zone)
	if !ok {
		location, err := time.LoadLocation(zone)
		if err != nil {
			location = time.UTC
		}
		found, _ = zoneCache.LoadOrStore(zone, location)
	}
	local := now.In(found.(*time.Location))
	year, month, day := local.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, local.Location())
}

// members reads the limits that JSON members of a body announce.
func (s *reading) members(d *Dialect, body []byte) {
	for n := range d.Body {
		h := &d.Body[n]
		if value, ok := member(body, h.Name); ok {
			if g := s.of(h, h.Of); g != nil {
				s.value(h.Is, &field{header: h.Name}, g, string(value), h.In)
			}
		}
	}
}
