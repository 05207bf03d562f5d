package policy

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// loading is one run of Load.
type loading struct {
	lookup func(string) (string, bool)
	home   string
	base   string // where relative paths start
	name   string // of the file

	faults Faults
	places map[string]Fault // key → where it was set last
	used   map[string]bool  // variables that the file refers to
	table  []setting
}

func newLoading(src Source) *loading {
	l := &loading{
		lookup: src.Lookup, name: src.Path,
		places: map[string]Fault{}, used: map[string]bool{}, table: settings(),
	}
	if l.lookup == nil {
		vars := map[string]string{}
		for _, one := range src.Environ {
			name, value, _ := strings.Cut(one, "=")
			if _, twice := vars[name]; !twice { // the first counts, as in os.Getenv
				vars[name] = value
			}
		}
		l.lookup = func(name string) (string, bool) {
			value, ok := vars[name]
			return value, ok
		}
	}
	if l.name == "" {
		l.name = "configuration"
	}
	l.home = homeDir(l.lookup)
	return l
}

// homeDir is this user's, or nothing.
func homeDir(lookup func(string) (string, bool)) string {
	names := []string{"HOME"}
	if runtime.GOOS == "windows" {
		names = append(names, "USERPROFILE")
	}
	for _, name := range names {
		if home, ok := lookup(name); ok && filepath.IsAbs(home) {
			return home
		}
	}
	return ""
}

// mostFaults bounds the faults of a report: a file that is not a configuration has
// thousands.
const mostFaults = 100

func (l *loading) fail(f Fault) {
	if len(l.faults) == mostFaults {
		l.faults = append(l.faults, Fault{Source: f.Source, Text: "there are more faults, these are the first"})
	}
	if !l.full() {
		l.faults = append(l.faults, f)
	}
}

func (l *loading) count() int { return len(l.faults) }

func (l *loading) full() bool { return len(l.faults) > mostFaults }

// sorted has the file's faults in the order of its lines, then the others.
func (l *loading) sorted() Faults {
	rank := func(f Fault) int {
		switch {
		case f.Source == l.name && f.Line > 0:
			return f.Line
		case f.Source == l.name && l.full():
			return 1<<31 - 2
		case f.Source == l.name:
			return 0
		}
		return 1<<31 - 1
	}
	slices.SortStableFunc(l.faults, func(a, b Fault) int { return rank(a) - rank(b) })
	return l.faults
}

// kept is where a key was set, for faults that two keys share.
func (l *loading) kept(key string) Fault {
	if place, ok := l.places[key]; ok {
		return place
	}
	return Fault{Source: l.name, Key: key}
}

// set gives a setting its value, and remembers where from.
func (l *loading) set(p *Policy, s setting, place Fault, in *input) {
	l.places[s.Name] = place
	s.read(p, in)
}

func (l *loading) contradict(key, format string, args ...any) {
	place := l.kept(key)
	place.Text = fmt.Sprintf(format, args...)
	l.fail(place)
}

// Source is what a Policy is loaded from. The zero value is an empty file in an
// empty environment.
type Source struct {
	Path   string                      // of the file, "" for none
	Data   []byte                      // what it holds; nil has Load read Path
	Lookup func(string) (string, bool) // the environment; nil uses Environ
	// Environ is the environment as os.Environ gives it. Unlike Lookup it lets
	// Load refuse an ABIDE_ variable that nothing reads.
	Environ []string
	Flags   map[string]string // dotted key → text
	// Defaults are the defaults of a command that differ from those of the
	// configuration: dotted key → text. The file, the environment and flags beat
	// them.
	Defaults map[string]string
}
