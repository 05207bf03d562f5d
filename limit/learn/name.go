package learn

import (
	"cmp"
	"strings"
	"sync"
	"sync/atomic"
)

// Role is the meaning of a header's value.
type Role string

const (
	IsLimit     Role = "limit"
	IsRemaining Role = "remaining"
	IsUsed      Role = "used"
	IsReset     Role = "reset"
	IsNext      Role = "next"   // when one more unit is available
	IsWindow    Role = "window" // in seconds, or in the unit of the header
	IsRate      Role = "rate"   // units that come back per second
	IsCost      Role = "cost"   // units that this request used
	IsRetry     Role = "retry"  // when to retry
	IsLabel     Role = "label"  // what the limit is about, in words

	isAfter  Role = "reset-after" // a reset that is never a date
	isBare   Role = ""            // a header that combines several values
	isPolicy Role = "policy"
	isStatus Role = "status"
	isFill   Role = "fill" // units that come back per window
	isBurst  Role = "burst"
)

// field is the meaning of a header, by its name.
type field struct {
	header string // the normalised name
	family string // prefix before "ratelimit": x, fitbit, x-app
	dim    string // rest of the name without a role: requests, daily
	role   Role
	milli  bool // the name says milliseconds
	unit   bool // the name says seconds or milliseconds
}

// maxNameLength bounds the names of headers that are read.
const maxNameLength = 96

// normal normalises the name of a header: lower case, "-" for "_", "ratelimit" as one word,
// without the prefix of CGI.
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

// stems are the words that names of limit headers contain. All but the first need a role
// after them.
var stems = []string{"ratelimit", "requestlimit", "limit"}

// parseName tells the meaning of a header by its name alone.
func parseName(name string) (field, bool) {
	if name == "" || len(name) > maxNameLength {
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
		f.parseRole(rest[1:])
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

// nameCache caches the meaning of header names, because each response of a site has the
// same few. It is safe for concurrent use.
type nameCache struct {
	entries sync.Map // :: name → *entry
	size    atomic.Int32
}

type entry struct {
	field field
	ok    bool
}

var headerNames nameCache

// maxCachedNames bounds the cache. Names beyond it are parsed each time.
const maxCachedNames = 1024

func (g *nameCache) field(name string) (*field, bool) {
	if found, ok := g.entries.Load(name); ok {
		e := found.(*entry)
		return &e.field, e.ok
	}
	e := &entry{}
	e.field, e.ok = parseName(name)
	if len(name) <= maxNameLength && g.size.Load() < maxCachedNames {
		if _, loaded := g.entries.LoadOrStore(strings.Clone(name), e); !loaded {
			g.size.Add(1)
		}
	}
	return &e.field, e.ok
}

// retry recognises the Retry-After family, with any prefix and suffix.
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

// roleWords map words in names to roles, longer words first.
var roleWords = []struct {
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

// standaloneRoles are words that are a role only if the name has no other word.
var standaloneRoles = map[string]Role{
	"name": IsLabel, "bucket": IsLabel, "resource": IsLabel, "action": IsLabel,
	"scope": IsLabel, "reason": IsLabel, "type": IsLabel, "source": IsLabel, "global": IsLabel,
	"replenish-rate": IsRate, "fillrate": isFill, "fill-rate": isFill, "burst-capacity": isBurst,
}

// periods map words to lengths in seconds. A dimension that contains such a word has that
// window; alone after "ratelimit" the word is the limit of that window.
var periods = map[string]int64{
	"second": 1, "secondly": 1, "sec": 1, "minute": 60, "minutely": 60, "min": 60,
	"hour": 3600, "hourly": 3600, "day": 86400, "daily": 86400, "week": 604800, "weekly": 604800,
}

// shortPeriods are the units that stand behind a number only, in seconds.
var shortPeriods = map[string]int64{"s": 1, "m": 60, "h": 3600, "hr": 3600, "hrs": 3600, "d": 86400}

// parseRole finds the role at the start or end of the text after the stem; the remaining
// text is the dimension.
func (f *field) parseRole(rest string) {
	if role, ok := standaloneRoles[rest]; ok {
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
	for _, one := range roleWords {
		if left, ok := strings.CutSuffix("-"+rest, "-"+one.word); ok {
			cut(left, one.word, one.role)
			return
		}
		if left, ok := strings.CutPrefix(rest, one.word+"-"); ok {
			cut(left, one.word, one.role)
			return
		}
	}
	for _, one := range roleWords {
		if left, ok := strings.CutSuffix(rest, one.word); ok {
			cut(left, one.word, one.role)
			return
		}
	}
	f.role, f.dim = isBare, rest
}

// periodOf is the window that a name mentions, in seconds: daily, api-minute, 24hour, 10s.
// 0: none.
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
		unit := cmp.Or(shortPeriods[word[n:]], periods[strings.TrimSuffix(word[n:], "s")])
		if seconds := many.whole * unit; seconds > 0 && seconds <= int64(maxAhead.Seconds()) {
			return seconds
		}
	}
	return 0
}

// unitFor is the unit that a dimension counts.
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
