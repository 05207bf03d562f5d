package learn

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Role is what the value of a header is.
type Role string

const (
	IsLimit     Role = "limit"
	IsRemaining Role = "remaining"
	IsUsed      Role = "used"
	IsReset     Role = "reset"
	IsNext      Role = "next"   // when one more unit is there
	IsWindow    Role = "window" // in seconds, or in the unit of the header
	IsRate      Role = "rate"   // units that come back in a second
	IsCost      Role = "cost"   // units that this request asked for
	IsRetry     Role = "retry"  // when to ask again
	IsLabel     Role = "label"  // what the limit is about, in words

	isAfter  Role = "reset-after" // a reset that is never a date
	isBare   Role = ""            // a header that says several things
	isPolicy Role = "policy"
	isStatus Role = "status"
	isFill   Role = "fill" // units that come back in a window
	isBurst  Role = "burst"
)

// A field is a header of which the name says what it is.
type field struct {
	header string // the whole name, normalised
	family string // what stands before "ratelimit": x, fitbit, x-app
	dim    string // what stands after it and is no role: requests, daily
	role   Role
	milli  bool // the name says milliseconds
	unit   bool // the name says seconds or milliseconds
}

// longestName is the longest name of a header that is looked at.
const longestName = 96

// normal is a header's name in one spelling: lower case, "-" for "_", ratelimit
// in one word, and without what CGI puts before it.
func normal(name string) string {
	name = strings.ToLower(name)
	if strings.IndexByte(name, '_') >= 0 {
		name = strings.ReplaceAll(name, "_", "-")
	}
	name = strings.TrimPrefix(name, "http-")
	if n := strings.Index(name, "rate-limit"); n >= 0 {
		name = name[:n] + "ratelimit" + name[n+len("rate-limit"):]
	}
	return name
}

// stems are the words around which the names of such headers are built. All but
// the first need a role after them.
var stems = []string{"ratelimit", "requestlimit", "limit"}

// parseName says what a header is by its name alone.
func parseName(name string) (field, bool) {
	if name == "" || len(name) > longestName {
		return field{}, false
	}
	f := field{header: normal(name)}
	if f.retry() {
		return f, true
	}
	for n, stem := range stems {
		at := strings.Index(f.header, stem)
		if at < 0 || n > 0 && at > 0 && f.header[at-1] != '-' {
			continue
		}
		f.family = strings.TrimSuffix(f.header[:at], "-")
		rest := f.header[at+len(stem):]
		if n == 0 && strings.HasPrefix(rest, "ed") {
			rest = rest[len("ed"):]
		}
		switch {
		case rest == "" && n == 0:
			return f, true
		case rest == "" || rest[0] != '-':
			continue
		}
		f.rest(rest[1:])
		if n > 0 {
			switch f.role {
			case IsLimit, IsRemaining, IsReset, isAfter, IsNext:
			default:
				continue
			}
			if f.dim == "" && f.role == IsLimit {
				continue
			}
		}
		return f, true
	}
	// Calls used of calls allowed: 32/40.
	if strings.HasSuffix(f.header, "-call-limit") {
		f.family = f.header
		return f, true
	}
	return f, false
}

// A glossary remembers what names were found to say: the same few come with
// every response of a site.
type glossary struct {
	entries sync.Map // :: name → *entry
	many    atomic.Int32
}

type entry struct {
	field field
	ok    bool
}

var known glossary

// mostKnown is where a glossary is full: what comes later is read every time.
const mostKnown = 1024

func (g *glossary) field(name string) (*field, bool) {
	if found, ok := g.entries.Load(name); ok {
		e := found.(*entry)
		return &e.field, e.ok
	}
	e := &entry{}
	e.field, e.ok = parseName(name)
	if len(name) <= longestName && g.many.Load() < mostKnown {
		if _, loaded := g.entries.LoadOrStore(strings.Clone(name), e); !loaded {
			g.many.Add(1)
		}
	}
	return &e.field, e.ok
}

// retry recognises the family of Retry-After, with whatever stands around it.
func (f *field) retry() bool {
	name := f.header
	at, end := -1, 0
	for _, word := range []string{"retry-after", "retryafter", "retry-in"} {
		if at = strings.Index(name, word); at >= 0 {
			end = at + len(word)
			break
		}
	}
	if at < 0 || at > 0 && name[at-1] != '-' || end < len(name) && name[end] != '-' {
		return false
	}
	f.role = IsRetry
	f.dim = strings.TrimSuffix(name[:at], "-") + name[end:]
	f.timeUnit(name)
	return true
}

func (f *field) timeUnit(name string) {
	switch {
	case strings.HasSuffix(name, "-ms"), strings.HasSuffix(name, "-milliseconds"):
		f.milli, f.unit = true, true
	case strings.HasSuffix(name, "-seconds"), strings.HasSuffix(name, "-s"):
		f.unit = true
	}
}

// words are the roles by the words that stand for them, longer ones first.
var words = []struct {
	word string
	role Role
}{
	{"interval-milliseconds", IsWindow},
	{"interval-seconds", IsWindow},
	{"window-seconds", IsWindow},
	{"interval-ms", IsWindow},
	{"reset-seconds", isAfter},
	{"reset-after", isAfter},
	{"reset-time", IsReset},
	{"resettime", IsReset},
	{"reset-ms", IsReset},
	{"reset-in", isAfter},
	{"reset-at", IsReset},
	{"remaining", IsRemaining},
	{"observed", IsUsed},
	{"interval", IsWindow},
	{"duration", IsWindow},
	{"window", IsWindow},
	{"period", IsWindow},
	{"policy", isPolicy},
	{"status", isStatus},
	{"limit", IsLimit},
	{"total", IsLimit},
	{"reset", IsReset},
	{"count", IsUsed},
	{"usage", IsUsed},
	{"left", IsRemaining},
	{"used", IsUsed},
	{"next", IsNext},
	{"max", IsLimit},
}

// whole are words that are a role only when nothing else stands beside them.
var whole = map[string]Role{
	"name": IsLabel, "bucket": IsLabel, "resource": IsLabel, "action": IsLabel,
	"scope": IsLabel, "reason": IsLabel, "type": IsLabel, "source": IsLabel, "global": IsLabel,
	"replenish-rate": IsRate, "fillrate": isFill, "fill-rate": isFill, "burst-capacity": isBurst,
}

// periods are words for a length of time. A dimension with one of them has that
// window; alone after ratelimit it is the limit of such a window.
var periods = map[string]int64{
	"second": 1, "secondly": 1, "sec": 1, "minute": 60, "minutely": 60, "min": 60,
	"hour": 3600, "hourly": 3600, "day": 86400, "daily": 86400, "week": 604800, "weekly": 604800,
}

// rest finds the role in what stands after the stem, at either end or glued to
// it; what is left of it is the dimension.
func (f *field) rest(rest string) {
	if role, ok := whole[rest]; ok {
		f.role, f.dim = role, rest
		return
	}
	if _, ok := periods[rest]; ok {
		f.role, f.dim = IsLimit, rest
		return
	}
	cut := func(left string, word string, role Role) {
		f.role, f.dim = role, strings.Trim(left, "-")
		if f.dim == "limit" { // the window of the limit, not of a limit called limit
			f.dim = ""
		}
		f.timeUnit(word)
	}
	for _, one := range words {
		if rest == one.word {
			cut("", one.word, one.role)
			return
		}
	}
	for _, one := range words {
		if left, ok := strings.CutSuffix(rest, "-"+one.word); ok {
			cut(left, one.word, one.role)
			return
		}
		if left, ok := strings.CutPrefix(rest, one.word+"-"); ok {
			cut(left, one.word, one.role)
			return
		}
	}
	for _, one := range words {
		if left, ok := strings.CutSuffix(rest, one.word); ok {
			cut(left, one.word, one.role)
			return
		}
	}
	f.role, f.dim = isBare, rest
}

// periodOf is the window that a name speaks of, in seconds: daily, api-minute,
// 24hour, 10s. 0 when it speaks of none.
func periodOf(dim string) int64 {
	for dim != "" {
		var word string
		word, dim, _ = strings.Cut(dim, "-")
		if n, ok := periods[word]; ok {
			return n
		}
		n := 0
		for n < len(word) && digit(word[n]) {
			n++
		}
		if n == 0 || n > 4 {
			continue
		}
		many, _ := parseDecimal(word[:n])
		unit := periods[strings.TrimSuffix(word[n:], "s")]
		switch word[n:] {
		case "s":
			unit = 1
		case "m":
			unit = 60
		case "h", "hr", "hrs":
			unit = 3600
		case "d":
			unit = 86400
		}
		if seconds := many.whole * unit; seconds > 0 && seconds <= int64(horizon.Seconds()) {
			return seconds
		}
	}
	return 0
}

// unitFor is what a dimension counts.
func unitFor(dim string) Unit {
	switch {
	case dim == "tokens", strings.HasSuffix(dim, "-tokens"), strings.HasPrefix(dim, "tokens-"):
		return Tokens
	case strings.Contains(dim, "complexity"), strings.Contains(dim, "points"), dim == "cost", strings.HasSuffix(dim, "-cost"):
		return Points
	case dim == "bytes", strings.HasSuffix(dim, "-bytes"), strings.HasPrefix(dim, "bytes-"):
		return Bytes
	case strings.Contains(dim, "concurren"):
		return Concurrent
	}
	return Requests
}
