package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"
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
	only   []string         // the settings that are read; nil: all
}

func newLoading(src Source) *loading {
	l := &loading{
		lookup: src.Lookup, name: cmp.Or(src.Path, src.Name, "configuration"),
		places: map[string]Fault{}, used: map[string]bool{},
	}
	if l.lookup == nil {
		l.lookup = func(name string) (value string, ok bool) {
			i := slices.IndexFunc(src.Environ, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
			if ok = i >= 0; ok { // the first counts, as in os.Getenv
				value = src.Environ[i][len(name)+1:]
			}
			return value, ok
		}
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

func (l *loading) full() bool { return len(l.faults) > mostFaults }

// parse reads the one YAML document of data. It reports a fault of the syntax by itself; the root
// of an empty document is nil.
func (l *loading) parse(data []byte) (root *yaml.Node, ok bool) {
	root, fault := parseDocument(data)
	if fault != nil {
		fault.Source = l.name
		l.fail(*fault)
	}
	return root, fault == nil
}

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

// contradict reports a fault of keys together, at the place at which one of them was set.
func (l *loading) contradict(key, format string, args ...any) {
	place, set := l.places[key]
	if !set {
		place = Fault{Source: l.name, Key: key}
	}
	place.Text = fmt.Sprintf(format, args...)
	l.fail(place)
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// inURL escapes what a path may have, and a user, a password or an option may not.
var inURL = strings.NewReplacer("@", "%40", "&", "%26", "+", "%2B", "=", "%3D", ":", "%3A")

// dollar finds $$, ${NAME}, and a $ that begins neither.
var dollar = regexp.MustCompile(`\$(?:\$|\{[A-Za-z_][A-Za-z0-9_]*\})?`)

// expand replaces ${NAME} in a secret. Its errors name variables, never what
// they hold nor what stands around them. Inside of a longer URL a variable is
// taken literally, so a password needs no percent-encoding.
func (l *loading) expand(s string, kind TextKind) (text string, err error) {
	text = dollar.ReplaceAllStringFunc(s, func(found string) string {
		if found == "$$" {
			return "$"
		}
		name := strings.Trim(found, "${}")
		l.used[name], l.used[name+fileSuffix] = true, true
		value, ok, failed := LookupSecret(l.lookup, name)
		switch {
		case name == "":
			failed = errors.New("has a $ that the name of a variable in braces does not follow; write ${NAME} for a variable, $$ for a $ itself")
		case failed != nil:
			failed = fmt.Errorf("refers to the variable %s: %w", name, failed)
		case !ok:
			failed = fmt.Errorf("refers to the variable %s, which is not set", name)
		case value == "":
			failed = fmt.Errorf("refers to the variable %s, which is empty", name)
		case kind == SecretURL && found != s:
			value = inURL.Replace(url.PathEscape(value))
		}
		err = cmp.Or(err, failed)
		return value
	})
	return text, err
}

// Source has the inputs of a Policy. The zero value is an empty file in an empty
// environment.
type Source struct {
	Path   string                      // of the file, "" for none
	Name   string                      // of a document that is no file, for faults
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
	Notes    []string // warnings about the way to the file, which Warnings returns first
}

// TextKind says which references a value may have, and whether it may be quoted.
type TextKind int

const (
	PlainText  TextKind = iota
	SecretText          // ${NAME} is replaced, and the value is never quoted
	SecretURL           // the same, for a URL with a password somewhere in it
)

// pipePatience is the time that the writer of a pipe has to write into it.
const pipePatience = 5 * time.Second

// ReadFile reads at most so many bytes of a file. It never waits for ever: not for
// somebody who opens the other end of a pipe, nor for what a device has to say.
func ReadFile(path string, most int64) ([]byte, error) {
	over := time.Now().Add(pipePatience)
	for {
		data, mode, err := readNow(path, most, over)
		if err != nil || len(data) > 0 || mode&fs.ModeNamedPipe == 0 {
			return data, err
		}
		if !time.Now().Before(over) {
			return nil, errNobodyWrites
		}
		timer := time.NewTimer(pipePatience / 100) // a writer may be about to open it
		<-timer.C
	}
}

var errNobodyWrites = fmt.Errorf("it is a pipe, and nobody has written into it for %v", pipePatience)

func readNow(path string, most int64, over time.Time) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	_ = f.SetReadDeadline(over) // a regular file has none, and needs none
	data, err := io.ReadAll(io.LimitReader(f, most))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && info.Mode()&fs.ModeNamedPipe != 0:
		return nil, 0, errNobodyWrites
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EAGAIN):
		return nil, 0, errors.New("it is a device, and has nothing to read")
	}
	return data, info.Mode(), err
}
