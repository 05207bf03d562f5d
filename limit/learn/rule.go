package learn

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// readByRule reads one header by a dialect's rule.
func (s *reading) readByRule(d *Dialect, h *Header, name string, lines []string) {
	unit := h.In
	if unit == 0 && h.Is == IsReset {
		unit = d.ResetUnit
	}
	if unit == 0 && h.Is == IsRetry {
		unit = d.RetryUnit
	}
	for _, line := range lines {
		if len(line) > 8*maxValueLength {
			continue
		}
		switch h.Form {
		case List:
			s.list(h, line)
		case Ratio:
			s.ratios(h, line)
		case Named:
			s.named(h, line)
		case Usage:
			s.usage(h, line)
		case Suffix:
			suffix := strings.TrimPrefix(name, strings.TrimSuffix(h.Name, "*"))
			if g := s.of(h, h.Of+" "+suffix); g != nil {
				g.Window = time.Duration(periodOf(suffix)) * time.Second
				s.value(h.Is, &field{header: name}, g, line, unit)
			}
		case Plain, Hertz:
			of := strings.Fields(h.Of)
			if len(of) == 0 {
				of = append(of, "")
			}
			for _, one := range of {
				if g := s.of(h, one); g != nil {
					s.value(h.Is, &field{header: name}, g, line, unit)
					if n := count(line); h.Form == Hertz && n.N > 0 {
						g.Rate, g.Window = n.N, time.Second
					}
				}
			}
		}
	}
}

// of is the group of a limit that a dialect names.
func (s *reading) of(h *Header, name string) *group {
	g := s.group("row", name)
	if g == nil {
		return nil
	}
	if h.Unit != "" || h.Is != IsReset {
		g.Unit = h.Unit
	}
	if h.Scope != None {
		g.Scope = h.Scope
	}
	if h.Window > 0 {
		g.Window = h.Window
	}
	g.aligned = g.aligned || h.Aligned
	method := s.method
	if method == "HEAD" {
		method = "GET"
	}
	g.Other = g.Other || h.Method != "" && h.Method != method
	return g
}

// value reads one value of a limit, in a header f.
func (s *reading) value(role Role, f *field, g *group, line string, unit time.Duration) {
	n := count(line)
	g.count(role, n)
	switch role {
	case IsRate:
		g.Rate = max(g.Rate, n.N)
	case isFill:
		g.fill = n
	case isBurst:
		if n.Known && n.N >= 0 {
			g.limit(n.N)
		}
	case IsCost:
		g.cost = n
	case IsReset, isAfter:
		s.readTimes(line, func(text string) bool { return s.reset(g, text, unit) })
	case IsNext:
		s.readTimes(line, func(text string) bool {
			m, verdict := s.clock.read(text, unit)
			if verdict == good {
				g.Next = status.Later(g.Next, m.at)
			}
			s.hints.vendor.add(m, verdict)
			return verdict != notANumber
		})
	case IsRetry:
		s.readTimes(line, func(text string) bool { return s.retry(f, text, unit) })
	case IsWindow:
		if w := durationOf(line, unit == time.Millisecond); w > 0 {
			g.Window = w
		}
	case IsLabel:
		s.label("type", line)
	case isStatus:
		g.status = strings.ToLower(trimBlanks(line))
	}
}

// list reads one number for each window of the rule.
func (s *reading) list(h *Header, line string) {
	for n, window := range h.Windows {
		var part string
		part, line, _ = strings.Cut(line, ",")
		g := s.of(h, h.Of+" "+window.String())
		if g == nil {
			return
		}
		g.Window = window
		s.value(h.Is, &field{header: h.Name}, g, part, 0)
		if line == "" && n+1 < len(h.Windows) {
			return
		}
	}
}

// ratios reads name=used/limit; name=used/limit.
func (s *reading) ratios(h *Header, line string) {
	parts := strings.Split(line, ";")
	for _, part := range parts[:min(len(parts), maxItems)] {
		name, ratio, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		if g := s.of(h, trimBlanks(name)); g != nil {
			g.ratio(trimBlanks(ratio))
		}
	}
}

// named reads name;remaining,name;remaining.
func (s *reading) named(h *Header, line string) {
	parts := strings.Split(line, ",")
	for _, part := range parts[:min(len(parts), maxItems)] {
		name, left, _ := strings.Cut(trimBlanks(part), ";")
		n := count(left)
		if name == "" || !n.Known {
			continue
		}
		if g := s.of(h, name); g != nil {
			g.Bucket, g.Scope = bucketOf(name)
			g.remaining(n.N)
		}
	}
}

// usage reads percentages, and the minutes until requests are possible again.
func (s *reading) usage(h *Header, line string) {
	g := s.of(h, h.Of)
	if g == nil {
		return
	}
	g.Unit = Percent
	for _, key := range []string{"call_count", "total_time", "total_cputime", "acc_id_util_pct"} {
		for value := range members([]byte(line), key) {
			if n := count(string(value)); n.Known {
				g.used(n.N)
			}
		}
	}
	for _, key := range []string{"estimated_time_to_regain_access", "reset_time_duration"} {
		unit := time.Minute
		if key == "reset_time_duration" {
			unit = time.Second
		}
		value, ok := member([]byte(line), key)
		if !ok {
			continue
		}
		d, verdict := parseDecimal(string(value))
		if ahead, believed := d.of(unit); verdict == good && believed && ahead > 0 {
			m := s.clock.in(ahead, unit)
			s.hints.body.add(m, good)
			g.Next = m.at
		}
	}
}

// member is the first of members.
func member(text []byte, key string) (value []byte, ok bool) {
	for value := range members(text, key) {
		return value, true
	}
	return nil, false
}

// members finds the values of a key at any depth in JSON that may be truncated: the content of a string, or the
// text of a number or word.
func members(text []byte, key string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		quoted := strconv.Quote(key)
		for at := indexOf(text, quoted); at >= 0; at = indexOf(text, quoted) {
			inside := at > 0 && text[at-1] == '\\'
			text = text[at+len(quoted):]
			rest, named := bytes.CutPrefix(skip(text), []byte(":"))
			if inside || !named {
				continue
			}
			rest = skip(rest)
			end := 0
			if len(rest) > 0 && rest[0] == '"' {
				for end = 1; end < len(rest) && rest[end] != '"'; end++ {
					if rest[end] == '\\' {
						end++
					}
				}
				if end >= len(rest) || !yield(rest[1:end]) {
					return
				}
				continue
			}
			for end < len(rest) && (digit(rest[end]) || rest[end]|0x20 >= 'a' && rest[end]|0x20 <= 'z' || rest[end] == '.' || rest[end] == '-' || rest[end] == '+') {
				end++
			}
			if end > 0 && !yield(rest[:end]) {
				return
			}
		}
	}
}

func skip(text []byte) []byte { return bytes.TrimLeft(text, " \t\n\r") }
