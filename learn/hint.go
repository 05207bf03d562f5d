package learn

import "time"

// Hints are what a response says of when to ask again, by how far each is to be
// trusted.
type hints struct {
	precise hint // retry-after-ms
	in      hint // x-retry-in
	after   hint // retry-after
	vendor  hint // the same in names of the server's own
	body    hint
}

// A hint is the latest of what one kind of header said.
type hint struct {
	moment
	is     verdict
	number decimal // as it was written, when it was a number
}

// add keeps the latest. What nobody can believe is later than all else.
func (h *hint) add(m moment, is verdict) bool {
	if is <= h.is && (is != h.is || is != good || !m.at.After(h.at)) {
		return false
	}
	h.moment, h.is = m, is
	return true
}

// retry reads one header of the family of Retry-After, and says whether it is a
// time.
func (s *said) retry(f *field, value string, unit time.Duration) bool {
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
	m, is := s.clock.read(value, unit)
	if is == good && m.relative && s.clock.age > 0 {
		m.at = m.at.Add(-s.clock.age) // it counts from when the response was made
		m.ahead -= s.clock.age
	}
	if h.add(m, is) {
		h.number, _ = parseDecimal(trim(value))
	}
	return is != absent
}

// heldBlind is how long a refusal holds that asks for longer than can be
// believed.
const heldBlind = 24 * time.Hour

// leastHold is how long a refusal holds when it says now, or before.
const leastHold = time.Second

// best is the hint that holds, and whether there is one.
func (h *hints) best() (hint, bool) {
	for _, one := range []*hint{&h.precise, &h.in, &h.after, &h.vendor, &h.body} {
		if one.is != absent {
			return *one, true
		}
	}
	return hint{}, false
}

// asks says whether Retry-After or one of its kind names a time to come: on a
// status that means many things, this is what makes it a refusal.
func (h *hints) asks() bool {
	for _, one := range []*hint{&h.precise, &h.in, &h.after, &h.vendor} {
		if one.is == unbelievable || one.is == good && one.ahead > 0 {
			return true
		}
	}
	return false
}

// given says whether there is any of them.
func (h *hints) given() bool {
	return h.precise.is|h.in.is|h.after.is|h.vendor.is != absent
}
