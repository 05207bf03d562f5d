package learn

import (
	"slices"
	"time"
)

// hints are the retry times of a response, from the most to the least trusted.
type hints struct {
	precise hint // retry-after-ms
	in      hint // x-retry-in
	after   hint // retry-after
	vendor  hint // the same in vendor-specific headers
	body    hint
}

// hint is the latest retry time of one kind of header.
type hint struct {
	moment
	is     verdict
	number decimal // the number as written, if it was a number
}

// add keeps the latest time. An unbelievable time counts as later than any other.
func (h *hint) add(m moment, got verdict) bool {
	if got <= h.is && (got != h.is || got != good || !m.at.After(h.at)) {
		return false
	}
	h.moment, h.is = m, got
	return true
}

// retry reads one header of the Retry-After family. It returns false if the value is no
// time.
func (s *reading) retry(f *field, value string, unit time.Duration) bool {
	h := &s.hints.vendor
	switch f.header {
	case "retry-after-ms":
		h = &s.hints.precise
	case "x-retry-in":
		h = &s.hints.in
	case "retry-after", "retryafter":
		h = &s.hints.after
	}
	switch {
	case f.milli:
		unit = time.Millisecond
	case f.unit:
		unit = time.Second
	}
	m, verdict := s.clock.read(value, unit)
	if verdict == good && m.relative && s.clock.age > 0 {
		m.at = m.at.Add(-s.clock.age) // Retry-After counts from when the response was generated
		m.ahead -= s.clock.age
	}
	if h.add(m, verdict) {
		h.number, _ = parseDecimal(trim(value))
	}
	return verdict != notANumber
}

// unbelievableHold is the time a refusal holds whose wait is too long to be believed.
const unbelievableHold = 24 * time.Hour

// minHold is the time a refusal holds whose retry time is not in the future.
const minHold = time.Second

// best returns the most trusted retry time. ok is false if there is none.
func (h *hints) best() (hint, bool) {
	for _, one := range []*hint{&h.precise, &h.in, &h.after, &h.vendor, &h.body} {
		if one.is != notANumber {
			return *one, true
		}
	}
	return hint{}, false
}

// namesFutureTime tells whether Retry-After or a similar header names a future time. On an
// ambiguous status, that makes the response a refusal.
func (h *hints) namesFutureTime() bool {
	return slices.ContainsFunc([]*hint{&h.precise, &h.in, &h.after, &h.vendor}, func(hint *hint) bool {
		return hint.is == unbelievable || hint.is == good && hint.ahead > 0
	})
}
