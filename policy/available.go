package policy

import (
	"regexp"
	"strings"
)

// later is the table of what is read and checked but does nothing yet. Load
// refuses it, so that nothing is silently ignored. A key stands for all below
// it, and [] for any element.
var later = []string{
	"defaults.limits[].bytes",
	"shard",
	"sites[].limits[].bytes",
	"sites[].outage",
}

type laterValue struct {
	key  string
	here func(*Policy) bool
}

// laterValues are keys of which one value alone is there yet.
var laterValues = []laterValue{
	{"store", func(p *Policy) bool { return p.Store.Kind == "local" }},
}

const notAvailable = "is not available yet"

var element = regexp.MustCompile(`\[\d+\]`)

// notYet is the entry of the table that a key is or lies below, or nothing.
func notYet(key string) string {
	if strings.IndexByte(key, '[') >= 0 {
		key = element.ReplaceAllString(key, "[]")
	}
	for _, entry := range later {
		if rest, ok := strings.CutPrefix(key, entry); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return entry
		}
	}
	return ""
}

// later refuses a key of the file where the table has it. Keys below it are
// refused with it.
func (l *loading) later(place Fault) {
	entry := notYet(place.Key)
	if entry == "" || l.preview {
		return
	}
	if strings.Count(entry, ".") != strings.Count(place.Key, ".") || strings.HasSuffix(place.Key, "]") {
		return
	}
	place.Text = notAvailable
	l.fail(place)
}

func (l *loading) laterValues(p *Policy) {
	if l.preview {
		return
	}
	for _, one := range laterValues {
		if place, set := l.places[one.key]; set && !one.here(p) {
			place.Text = "has a value that " + notAvailable
			l.fail(place)
		}
	}
}
