package learn

import (
	"cmp"
	"strings"
	"time"
)

// readHeader reads the lines of one header by the meaning of its name.
func (s *reading) readHeader(f *field, lines []string, resetUnit, retryUnit time.Duration) {
	switch f.role {
	case IsLabel:
		for _, line := range lines {
			s.label(f.dim, line)
		}
		return
	case IsRetry:
		for _, line := range lines {
			s.readTimes(line, func(text string) bool { return s.retry(f, text, retryUnit) })
		}
		return
	case isPolicy:
		s.policies(f, items(lines))
		return
	case isBare:
		s.readCombined(f, lines)
		return
	}
	for _, line := range lines {
		if len(line) > 8*maxValueLength || hasThousandsSeparators(trim(line)) && !isRepeatedValue(trim(line)) {
			continue
		}
		s.readLine(f, line, resetUnit)
	}
}

// readLine reads one line of a header that has a role.
func (s *reading) readLine(f *field, line string, unit time.Duration) {
	if f.role == IsUsed && strings.IndexByte(line, ':') > 0 {
		s.readWindowPairs(f, line, (*group).used)
		return
	}
	g := s.group(f.family, f.dim)
	if g == nil {
		return
	}
	if g.count(f.role, count(line)) { // the usual case
		return
	}
	if f.milli {
		unit = time.Millisecond
	}
	switch f.role {
	case IsLimit:
		s.limits(f, g, line)
	case IsRemaining, IsUsed:
		for _, it := range items([]string{line}) {
			if g.count(f.role, count(it.value)) && f.role == IsRemaining && g.Window == 0 {
				g.Window = time.Duration(windowOf(it.w)) * time.Second
			}
		}
	case IsRate, isFill, isBurst: // of a token bucket: its group has no dimension
		if g = s.group(f.family, ""); g != nil {
			s.value(f.role, f, g, line, 0)
		}
	default:
		s.value(f.role, f, g, line, unit)
	}
}

// reset reads the reset of a group. -1 and times long past are ignored.
func (s *reading) reset(g *group, text string, unit time.Duration) bool {
	m, verdict := s.clock.read(text, unit)
	if verdict == good && trimBlanks(text) != "-1" && m.ahead > -maxAhead {
		g.reset(m)
	}
	return verdict != notANumber
}

// readTimes reads a value as one time, or as several times if lines were joined. Dates
// contain commas, too.
func (s *reading) readTimes(line string, read func(string) bool) {
	if len(line) > 8*maxValueLength || hasThousandsSeparators(trim(line)) && !isRepeatedValue(trim(line)) || read(line) {
		return
	}
	parts := strings.Split(line, ",")
	for _, part := range parts {
		if _, verdict := s.clock.read(part, 0); verdict == notANumber || len(parts) > maxItems {
			return
		}
	}
	for _, part := range parts {
		read(part)
	}
}

// isRepeatedValue tells whether a list repeats one value.
func isRepeatedValue(line string) bool {
	head, rest, _ := strings.Cut(line, ",")
	for rest != "" {
		var next string
		if next, rest, _ = strings.Cut(rest, ","); next != head {
			return false
		}
	}
	return true
}

// limits reads 100, or 100;w=60, or 100, 100;w=10, 1000;w=60: the first number is the
// limit, the others with windows are policies.
func (s *reading) limits(f *field, g *group, line string) {
	all := items([]string{line})
	policies := false
	for _, it := range all {
		policies = policies || it.w != ""
	}
	for n, it := range all {
		value := count(it.value)
		switch {
		case !value.Known:
		case n > 0 && policies:
			s.policies(f, all[n:n+1])
		default:
			g.limit(value.N)
			if w := windowOf(it.w); w > 0 && n == 0 {
				g.Window = time.Duration(w) * time.Second
			}
		}
	}
}

// policies keeps amounts per window until all headers have been read.
func (s *reading) policies(f *field, all []item) {
	for _, it := range all {
		text := cmp.Or(it.q, it.value)
		q := count(text)
		if !q.Known || q.N < 0 || len(s.policy) >= maxGroups {
			continue
		}
		window := time.Duration(windowOf(it.w)) * time.Second
		s.policy = append(s.policy, &policy{family: f.family, item: it, q: q.N, window: window})
	}
}

// readCombined reads a header that combines several values.
func (s *reading) readCombined(f *field, lines []string) {
	for _, line := range lines {
		if len(line) > 8*maxValueLength {
			continue
		}
		text := trim(line)
		head, _, _ := strings.Cut(text, ";")
		head, _, _ = strings.Cut(head, ",")
		switch {
		case text == "":
		case strings.HasSuffix(f.header, "-call-limit"):
			if g := s.group(f.family, ""); g != nil {
				g.ratio(text)
			}
		case text[0] != '"' && strings.IndexByte(head, '=') > 0:
			s.dictionary(f, text)
		case f.dim != "":
		case text[0] == '{':
			s.readJSON(f, text)
		case text[0] == '"':
			s.items(f, items([]string{text}))
		case strings.IndexByte(head, ':') > 0 && digit(head[0]):
			s.readWindowPairs(f, text, (*group).limit)
		case strings.IndexByte(head, ':') > 0:
			s.readNamedParts(f, text)
		case digit(text[0]):
			if g := s.group(f.family, ""); g != nil && (!hasThousandsSeparators(text) || isRepeatedValue(text)) {
				s.limits(f, g, text)
			}
		default:
			s.items(f, items([]string{text}))
		}
	}
}

// ratio reads used/limit.
func (g *group) ratio(text string) {
	used, limit, ok := strings.Cut(text, "/")
	if n := strings.IndexByte(limit, '('); n >= 0 {
		limit = limit[:n]
	}
	a, b := count(used), count(limit)
	if !ok || !a.Known || !b.Known || a.N < 0 || b.N <= 0 {
		return
	}
	g.used(a.N)
	g.limit(b.N)
}

// items reads "name";r=50;t=30. A malformed item is ignored.
func (s *reading) items(f *field, all []item) {
	for _, it := range all {
		r, t := count(it.r), moment{}
		if it.r == "" && it.t == "" || it.r != "" && (!r.Known || r.N < 0) {
			continue
		}
		if it.t != "" {
			d, verdict := parseDecimal(it.t)
			if verdict == notANumber || d.negative {
				continue
			}
			if t, verdict = s.clock.number(d, 0); verdict == notANumber {
				continue
			} else if verdict == unbelievable {
				t = moment{}
			}
		}
		g := s.group(f.family, "item "+it.value+" "+it.partition)
		if g == nil {
			return
		}
		g.Name, g.Unit, g.Window = it.value, Requests, 0
		g.Bucket, g.Scope = bucketOf(it.value)
		g.Partition = it.partition
		if r.Known {
			g.remaining(r.N)
		}
		if !t.at.IsZero() {
			g.reset(t)
		}
	}
}

// dictionary reads limit=100, remaining=50, reset=5, also with semicolons. The dimension in
// the header's name tells which limit it is.
func (s *reading) dictionary(f *field, text string) {
	sep := byte(',')
	if strings.IndexByte(text, ',') < 0 {
		sep = ';'
	}
	g := s.group(f.family, f.dim)
	if g == nil {
		return
	}
	if f.dim != "" {
		g.Bucket, g.Scope = bucketOf(f.dim)
	}
	for rest, more, ok := text, true, true; more; {
		var head string
		if head, rest, more, ok = split(rest, sep); !ok {
			return
		}
		key, value, _ := strings.Cut(head, "=")
		value, parameters, _ := strings.Cut(value, ";")
		s.setByWord(g, strings.ToLower(trimBlanks(key)), trimBlanks(value))
		if it, ok := parseItem("0;" + parameters); ok && it.w != "" && g.Window == 0 {
			g.Window = time.Duration(windowOf(it.w)) * time.Second
		}
	}
}

// partRoles are the roles of the words that name a value within a header.
var partRoles = map[string]Role{
	"limit": IsLimit, "total": IsLimit, "max": IsLimit, "lim": IsLimit,
	"remaining": IsRemaining, "left": IsRemaining, "rem": IsRemaining, "used": IsUsed, "count": IsUsed,
	"reset": IsReset, "resets": IsReset, "until": IsReset, "reset_at": IsReset, "resetat": IsReset,
	"window": IsWindow, "period": IsWindow, "interval": IsWindow, "w": IsWindow,
	"name": IsLabel, "bucket": IsLabel, "resource": IsLabel,
}

// setByWord sets the value that the word before it names.
func (s *reading) setByWord(g *group, key, value string) {
	switch role := partRoles[key]; role {
	case IsReset:
		s.reset(g, value, 0)
	case IsLabel:
		g.Bucket, g.Scope = bucketOf(value)
	default:
		s.value(role, nil, g, value, 0)
	}
}

// readJSON reads {"limit":50,"remaining":0,"period":10,"until":"…"}.
func (s *reading) readJSON(f *field, text string) {
	g := s.group(f.family, "")
	if g == nil {
		return
	}
	for _, key := range []string{"name", "limit", "remaining", "used", "reset", "until", "reset_at", "period", "window"} {
		if value, ok := member([]byte(text), key); ok {
			s.setByWord(g, key, string(value))
		}
	}
}

// readWindowPairs reads amount:seconds, one pair for each window.
func (s *reading) readWindowPairs(f *field, text string, add func(*group, float64)) {
	for n := 0; n < maxItems && text != ""; n++ {
		var pair string
		pair, text, _ = strings.Cut(text, ",")
		many, window, ok := strings.Cut(pair, ":")
		amount, w := count(many), windowOf(window)
		if !ok || !amount.Known || amount.N < 0 || w <= 0 {
			continue
		}
		span := time.Duration(w) * time.Second
		g := s.group(f.family, "per "+span.String())
		if g == nil {
			return
		}
		if g.Window = span; strings.HasSuffix(f.family, "-method") {
			g.Scope = Route
		}
		g.Name = strings.TrimPrefix(f.family, "x-") + " " + g.dim
		add(g, amount.N)
	}
}

// readNamedParts reads user-hour-lim:3600;user-hour-rem:3598.
func (s *reading) readNamedParts(f *field, text string) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' })
	for _, part := range parts[:min(len(parts), maxItems)] {
		key, value, ok := strings.Cut(trimBlanks(part), ":")
		if !ok || len(key) > maxNameLength {
			continue
		}
		dim, role := "", strings.ToLower(key)
		if at := strings.LastIndexByte(role, '-'); at > 0 {
			dim, role = role[:at], role[at+1:]
		}
		if g := s.group(f.family, dim); g != nil {
			s.setByWord(g, role, value)
		}
	}
}

// durationOf parses a length of time: 60, 1s, minute.
func durationOf(text string, milli bool) time.Duration {
	text = trim(text)
	if seconds, ok := periods[strings.ToLower(text)]; ok {
		return time.Duration(seconds) * time.Second
	}
	if d, verdict := parseDecimal(text); verdict == good && !d.negative {
		unit := time.Second
		if milli {
			unit = time.Millisecond
		}
		if span, ok := d.of(unit); ok {
			return span
		}
		return 0
	}
	if span, _, ok := parseDuration(text); ok && span <= maxAhead {
		return span
	}
	return 0
}

// label keeps a description of a limit.
func (s *reading) label(kind, value string) {
	if value = trimBlanks(value); value != "" && len(value) <= maxValueLength && len(s.labels) < maxGroups {
		s.labels = append(s.labels, label{kind, value})
	}
}
