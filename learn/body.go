package learn

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// mostBody is how much of a body is looked at.
const mostBody = 4096

// A finding is what a body, or a header that says in words what went wrong,
// turned out to mean.
type finding struct {
	*Refusal
	wait hint
}

func indexOf(text []byte, word string) int { return bytes.Index(text, []byte(word)) }

// finds is the first refusal of the dialects that this response is.
func (s *said) finds(status int, body []byte, dialects []*Dialect) *finding {
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
	right := len(r.Status) == 0 && status >= 400
	for _, one := range r.Status {
		right = right || one == status
	}
	if !right {
		return false
	}
	text := body
	if r.In != "" {
		lines := headers[canonical(r.In)]
		if len(lines) == 0 || len(lines[0]) > longest {
			return false
		}
		text = []byte(lines[0])
	}
	if r.And != "" && indexOf(body, r.And) < 0 {
		return false
	}
	for _, word := range r.Says {
		if says(text, word) {
			return true
		}
	}
	return false
}

// says looks for a phrase, or for a member of JSON.
func says(text []byte, word string) bool {
	key, want, member := strings.Cut(word, "=")
	if !member {
		return indexOf(text, word) >= 0
	}
	for found := members(text, key); ; {
		value, ok := found.next()
		if !ok {
			return false
		}
		if want == "*" || string(value) == want || between(string(value), want) {
			return true
		}
	}
}

// between says whether a number is in a range: 80000-80014.
func between(text, span string) bool {
	low, high, ok := strings.Cut(span, "-")
	if !ok {
		return false
	}
	n, from, to := count(text), count(low), count(high)
	return n.Known && from.Known && to.Known && from.N <= n.N && n.N <= to.N
}

// wait is how long a refusal asks for.
func (s *said) wait(r *Refusal, body []byte) hint {
	var h hint
	if r.Key != "" {
		if value, ok := members(body, r.Key).next(); ok {
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
	if h.is == absent && r.Wait > 0 {
		h.add(s.clock.in(r.Wait, time.Second), good)
	}
	if h.is == absent && r.Until != "" {
		h.add(s.clock.at(midnight(s.clock.now, r.Until), time.Second))
	}
	return h
}

// zones are the time zones that were asked for.
var zones sync.Map // :: name → *time.Location

// midnight is when the day after now begins in a time zone. Where the zone is
// not known it is UTC.
func midnight(now time.Time, zone string) time.Time {
	found, ok := zones.Load(zone)
	if !ok {
		location, err := time.LoadLocation(zone)
		if err != nil {
			location = time.UTC
		}
		found, _ = zones.LoadOrStore(zone, location)
	}
	there := now.In(found.(*time.Location))
	year, month, day := there.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, there.Location())
}

// members reads what a body announces, as headers do elsewhere.
func (s *said) members(d *Dialect, body []byte) {
	for n := range d.Body {
		h := &d.Body[n]
		if value, ok := members(body, h.Name).next(); ok {
			if g := s.of(h, h.Of); g != nil {
				s.value(h, g, string(value), h.In)
			}
		}
	}
}
