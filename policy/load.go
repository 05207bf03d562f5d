package policy

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

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

// Load reads, checks and completes a configuration. A flag beats the
// environment, which beats the file. The error is a Faults, with every fault at
// once.
func Load(src Source) (*Policy, error) {
	l := newLoading(src)
	p := defaults(l.lookup)
	p.File = src.Path
	l.flags(p, src.Defaults)
	l.file(p, src)
	l.base = "" // what follows is relative to the working directory
	l.environment(p, src.Environ)
	l.flags(p, src.Flags)
	l.check(p)
	if len(l.faults) > 0 {
		return nil, l.sorted()
	}
	l.complete(p)
	p.index = newIndex(p.Sites)
	return p, nil
}

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

// mostFaults is enough for a morning's work; a file that is not a configuration
// has thousands.
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

func (l *loading) file(p *Policy, src Source) {
	data := src.Data
	if data == nil && src.Path != "" {
		var err error
		if data, err = readFile(src.Path); err != nil {
			l.fail(Fault{Source: l.name, Text: "cannot be read: " + err.Error()})
			return
		}
	}
	if src.Path != "" {
		l.base = filepath.Dir(src.Path)
	}
	root, fault := parseDocument(data)
	if fault != nil {
		fault.Source = l.name
		l.fail(*fault)
		return
	}
	if root != nil {
		d := &decoder{loading: l, policy: p, source: l.name}
		d.document(root)
	}
}

func readFile(path string) ([]byte, error) {
	data, err := ReadFile(path, maxFile+1)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return data, err
}

// set gives a setting its value, and remembers where from.
func (l *loading) set(p *Policy, s setting, place Fault, in *input) {
	l.places[s.Name] = place
	s.read(p, in)
}

func (l *loading) environment(p *Policy, environ []string) {
	known := []string{"ABIDE_CONFIG", "ABIDE_ADMIN"}
	for _, s := range l.table {
		known = append(known, s.Env)
		value, ok := l.lookup(s.Env)
		name := s.Env
		if s.Name == "admin.listen" {
			if brief, set := l.lookup("ABIDE_ADMIN"); set {
				if ok && brief != value {
					l.fail(Fault{Source: s.Env, Key: s.Name, Text: "differs from ABIDE_ADMIN, which means the same"})
				}
				value, ok, name = brief, true, "ABIDE_ADMIN"
			}
		}
		if ok {
			l.outside(p, s, Fault{Source: name, Key: s.Name}, value)
		}
	}
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		if strings.HasPrefix(name, "ABIDE_") && !slices.Contains(known, name) && !l.used[name] && !serviceLink(name, value) {
			l.fail(Fault{Source: clip(name), Text: "is a variable that abide does not know" + didYouMean(name, known)})
		}
	}
}

var serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT|PORT_[A-Z0-9_]+)$|_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$`)

// serviceLink tells the variables that Kubernetes adds to every pod beside a
// service that is called abide.
func serviceLink(name, value string) bool {
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

func (l *loading) flags(p *Policy, flags map[string]string) {
	var names, known []string
	for name := range flags {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, s := range l.table {
		known = append(known, s.Name)
	}
	for _, name := range names {
		key := name
		if name == "admin" {
			key = "admin.listen"
		}
		i := slices.Index(known, key)
		if i < 0 {
			l.fail(Fault{Source: "flag", Key: clip(name), Text: "is not a key" + didYouMean(name, known)})
			continue
		}
		l.outside(p, l.table[i], Fault{Source: "flag", Key: key}, flags[name])
	}
}

// outside sets a key from a variable or a flag.
func (l *loading) outside(p *Policy, s setting, place Fault, value string) {
	items := []string{value}
	if s.shape != single {
		items = nil
		if value != "" {
			items = strings.Split(value, ",")
		}
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
	}
	l.set(p, s, place, &input{
		items: items, base: l.base, home: l.home,
		fail: func(_ int, err error) {
			l.fail(Fault{Source: place.Source, Key: place.Key, Text: err.Error()})
		},
	})
}

// kept is where a key was set, for faults that two keys share.
func (l *loading) kept(key string) Fault {
	if place, ok := l.places[key]; ok {
		return place
	}
	return Fault{Source: l.name, Key: key}
}

// document reads the whole document.
func (d *decoder) document(root *yaml.Node) {
	d.mapping(root, "", d.section("")...)
	d.finish()
}
