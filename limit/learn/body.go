package learn

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"
)

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
		if len(lines) == 0 || len(lines[0]) > maxValueLength {
			return false
		}
		text = []byte(lines[0])
	}
	if r.And != "" && indexOf(body, r.And) < 0 {
		return false
	}
	return slices.ContainsFunc(r.Says, func(word string) bool { return bodySays(text, word) })
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
	for found := members(text, key); ; {
		value, ok := found.next()
		if !ok {
			return false
		}
		if want == "*" || string(value) == want || inNumberRange(string(value), want) {
			return true
		}
	}
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

// wait returns the time that a refusal asks to wait.
func (s *reading) wait(r *Refusal, body []byte) hint {
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
		if value, ok := members(body, h.Name).next(); ok {
			if g := s.of(h, h.Of); g != nil {
				s.value(h, g, string(value), h.In)
			}
		}
	}
}
