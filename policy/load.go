package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// Load reads, checks and completes a configuration. A flag beats the
// environment, which beats the file. The error is a Faults, with every fault at
// once.
func Load(src Source) (*Policy, error) {
	l := newLoading(src)
	p := defaults(l.lookup)
	p.File = cmp.Or(src.Path, src.Name)
	l.flags(&Decoder{loading: l, policy: p}, src.Defaults)
	l.file(p, src)
	l.base = "" // what follows is relative to the working directory
	d := &Decoder{loading: l, policy: p}
	l.environment(d, src)
	l.flags(d, src.Flags)
	l.check(p)
	if len(l.faults) > 0 {
		return nil, l.sorted()
	}
	p.written, p.notes = maps.Clone(l.places), src.Notes
	p.index = indexOfRules(p.Sites)
	return p, nil
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
	if root, _ := l.parse(data); root != nil {
		d := &Decoder{loading: l, policy: p}
		d.Mapping(root, "", section(d, "")...)
		bind(d)
	}
}

func readFile(path string) ([]byte, error) {
	data, err := ReadFile(path, maxFile+1)
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return data, err
}

func (l *loading) environment(d *Decoder, src Source) {
	known := []string{"ABIDE_CONFIG", "ABIDE_CONFIG_YAML", "ABIDE_ADMIN"}
	for _, s := range d.table() {
		known = append(known, s.Env)
		value, ok := l.lookup(s.Env)
		if s.text != PlainText {
			var err error
			known = append(known, s.Env+fileSuffix)
			if value, ok, err = LookupSecret(l.lookup, s.Env); err != nil {
				l.places[s.Name] = Fault{Source: s.Env + fileSuffix, Key: s.Name}
				l.contradict(s.Name, "%s", err)
			}
		}
		d.outside = s.Env
		if s.Name == "admin.listen" {
			if brief, set := l.lookup("ABIDE_ADMIN"); set {
				if ok && brief != value {
					l.fail(Fault{Source: s.Env, Key: s.Name, Text: "differs from ABIDE_ADMIN, which means the same"})
				}
				value, ok, d.outside = brief, true, "ABIDE_ADMIN"
			}
		}
		if ok {
			d.beat(s, value, src.Flags)
		}
	}
	for _, one := range src.Environ {
		name, value, _ := strings.Cut(one, "=")
		ofKubernetes := serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
		if strings.HasPrefix(name, "ABIDE_") && !slices.Contains(known, name) && !l.used[name] && !ofKubernetes {
			l.fail(Fault{Source: clip(name), Text: "is a variable that abide does not know" + DidYouMean(name, known)})
		}
	}
}

// beat sets a key from a variable, and notes where the file says something else. Of secrets it
// notes no value. The variable to which the file refers is not something else, and a flag beats both.
func (d *Decoder) beat(s setting, value string, flags map[string]string) {
	inFile, was := d.loading.places[s.Name], s.show()
	s.Read(s.shape.node(value), s.Name)
	shown := s.show()
	beaten := func(format string, args ...any) {
		d.policy.beaten = append(d.policy.beaten, fmt.Sprintf(format+" in line %d", append(args, inFile.Line)...))
	}
	_, flagged := flags[s.Name]
	switch {
	case inFile.Source != d.loading.name || inFile.Line == 0 || d.loading.used[s.Env] || flagged:
	case s.text != PlainText:
		beaten("%s, and not %s", d.outside, s.Name)
	case shown != was:
		beaten("%s is %s, and not %s", d.outside, cmp.Or(shown, "empty"), cmp.Or(was, "empty"))
	}
}

// serviceVariable finds the variables that Kubernetes adds to every pod beside a service that is called abide.
var serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT|PORT_[A-Z0-9_]+)$|_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$`)

// flags sets keys that are written outside of the file.
func (l *loading) flags(d *Decoder, flags map[string]string) {
	table := d.table()
	known := lists.Map(table, func(s setting) string { return s.Name })
	d.outside = "flag"
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		key := name
		if name == "admin" {
			key = "admin.listen"
		}
		i := slices.Index(known, key)
		if i < 0 {
			l.fail(Fault{Source: d.outside, Key: clip(name), Text: "is not a key" + DidYouMean(name, known)})
			continue
		}
		table[i].Read(table[i].shape.node(flags[name]), key)
	}
}

// AdminKeys are the settings that LoadAdmin reads.
var AdminKeys = []string{"admin.listen", "admin.token", "admin.cert", "admin.key", "admin.ca", "data"}

// LoadAdmin reads AdminKeys and leaves everything else at its default, so that a command
// finds a running abide although its configuration file has faults elsewhere. A flag
// beats the environment, which beats the file. The faults are those of these settings,
// and that of a file which is not YAML; what can be read is in the answer all the same.
func LoadAdmin(src Source) (*Policy, Faults) {
	l := newLoading(src)
	l.only = AdminKeys
	p := defaults(l.lookup)
	d := &Decoder{loading: l, policy: p}
	if root, _ := l.parse(src.Data); root != nil {
		if src.Path != "" {
			l.base = filepath.Dir(src.Path)
		}
		for _, f := range section(d, "") {
			if value := below(root, f.name); value != root && (f.name == "admin" || f.name == "data") {
				f.Read(value, f.name)
			}
		}
		l.base = ""
	}
	l.environment(d, Source{})
	l.flags(d, src.Flags)
	return p, l.faults
}

// HasNoDocument tells whether a text is no configuration: it is empty, or all of it is comments.
func HasNoDocument(data []byte) bool {
	root, fault := parseDocument(data)
	return fault == nil && root == nil
}

// HasNoKeys tells whether a configuration file sets nothing: it is empty, or all of it
// is comments. A file that is not YAML is not empty.
func HasNoKeys(data []byte) bool {
	root, fault := parseDocument(data)
	return fault == nil && (root == nil || root.Kind == yaml.MappingNode && len(root.Content) == 0)
}
