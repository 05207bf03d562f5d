package tokens

import (
	"fmt"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

const (
	mostTokens = 10_000
	mostFaults = 20
	mostBytes  = 16 << 20 // of a file
)

// Source is where a pool's tokens are looked for, beside files.
type Source struct {
	Config string                           // the configuration's name, for faults of tokens that stand there
	Lookup func(name string) (string, bool) // the environment; nil is an empty one
}

// Entry is a token as it was found.
type Entry struct {
	Label  string // "" is none
	Number int    // of its row among the rows that have a token, from 1
	Line   int    // of the file or of the configuration; 0 elsewhere
	Secret policy.Secret
}

// Warning is something that is legal but doubtful. It has no secret.
type Warning struct {
	Source string
	Line   int
	Text   string
}

func (w Warning) String() string {
	if w.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", w.Source, w.Line, w.Text)
	}
	return w.Source + ": " + w.Text
}

// Loaded is what a pool's source has. No secret is there twice.
type Loaded struct {
	Entries  []Entry
	Warnings []Warning
}

// Load reads a pool's tokens. The error is a policy.Faults: all that is wrong, with
// file and line, and never a secret.
func Load(p policy.Pool, from Source) (*Loaded, error) {
	l := newLoading(p)
	switch {
	case p.File != "":
		l.file(p.File)
	case p.Env != "":
		l.env(p.Env, from)
	case p.Dir != "":
		l.dir(p.Dir)
	default:
		l.inline(from)
	}
	return l.done()
}

// loading is a pool on its way.
type loading struct {
	pool   policy.Pool
	source string
	first  map[id]int // :: secret → its place in Entries
	number int
	out    *Loaded
	faults policy.Faults
}

func newLoading(p policy.Pool) *loading {
	return &loading{pool: p, first: map[id]int{}, out: &Loaded{}}
}

func (l *loading) done() (*Loaded, error) {
	if len(l.out.Entries) == 0 && len(l.faults) == 0 {
		l.fail(0, "has no tokens")
	}
	if len(l.faults) == 0 {
		l.labels()
	}
	if len(l.faults) > 0 {
		return nil, l.faults
	}
	return l.out, nil
}

func (l *loading) fail(line int, format string, args ...any) {
	switch {
	case len(l.faults) < mostFaults:
		l.faults = append(l.faults, policy.Fault{Source: l.source, Line: line, Text: fmt.Sprintf(format, args...)})
	case len(l.faults) == mostFaults:
		l.faults = append(l.faults, policy.Fault{Source: l.source, Text: "and more of the kind"})
	}
}

func (l *loading) warn(line int, format string, args ...any) {
	switch {
	case len(l.out.Warnings) < mostFaults:
		l.out.Warnings = append(l.out.Warnings, Warning{l.source, line, fmt.Sprintf(format, args...)})
	case len(l.out.Warnings) == mostFaults:
		l.out.Warnings = append(l.out.Warnings, Warning{Source: l.source, Text: "and more of the kind"})
	}
}

// row is a token in some source, not looked at yet.
type row struct {
	label, secret string
	line          int
	what          string // what faults call it; "" is the secret
}

// take adds a token if it is a good one that is not there yet.
func (l *loading) take(r row) {
	l.number++
	if l.number > mostTokens {
		if l.number == mostTokens+1 {
			l.fail(r.line, "has more than %d tokens", mostTokens)
		}
		return
	}
	what := "the secret"
	if r.what != "" {
		what = r.what
	}
	err := malformed(r.secret)
	if err == nil {
		err = unfit(&l.pool, r.secret)
	}
	if err != nil {
		l.fail(r.line, "%s %v", what, err)
		return
	}
	if err := badLabel(r.label); err != nil {
		l.fail(r.line, "the label %v", err)
		return
	}
	e := Entry{Label: r.label, Number: l.number, Line: r.line, Secret: policy.NewSecret(r.secret)}
	who := identify(e.Secret)
	if i, twice := l.first[who]; twice {
		l.unite(i, e, what)
		return
	}
	l.first[who] = len(l.out.Entries)
	l.out.Entries = append(l.out.Entries, e)
}

// unite makes one token of two with the same secret.
func (l *loading) unite(i int, e Entry, what string) {
	first := &l.out.Entries[i]
	if first.Label == "" {
		first.Label = e.Label
	}
	if first.Line > 0 {
		l.warn(e.Line, "%s is that of line %d: they are one token", what, first.Line)
		return
	}
	l.warn(e.Line, "%s is that of number %d: they are one token", what, first.Number)
}

// labels refuses those that would show a secret, and makes of two that are the
// same two that differ.
func (l *loading) labels() {
	taken := map[string]bool{}
	for _, e := range l.out.Entries {
		taken[e.Label] = true
	}
	seen := map[string]bool{}
	for i, e := range l.out.Entries {
		if e.Label == "" {
			continue
		}
		if seen[e.Label] {
			own := another(e.Label, taken)
			l.out.Entries[i].Label, taken[own] = own, true
			l.warn(e.Line, "the label %q is there before, with another secret: this one is called %q", e.Label, own)
		}
		seen[e.Label] = true
		_, other := l.first[identify(policy.NewSecret(e.Label))]
		if other || gives(e.Secret.Reveal(), e.Label) {
			l.fail(e.Line, "the label shows a secret, and labels are printed everywhere")
		}
	}
}

// another is a label like one that is taken.
func another(label string, taken map[string]bool) string {
	for n := 2; ; n++ {
		if own := fmt.Sprintf("%s~%d", label, n); !taken[own] {
			return own
		}
	}
}

// gives tells whether a label is so much of a secret, or has so much of it, that it
// gives it away. The id of an id:secret pair is no secret.
func gives(secret, label string) bool {
	const telling = 12
	if _, after, pair := strings.Cut(secret, ":"); pair && after != "" {
		secret = after
	}
	return label == secret || len(secret) >= telling && strings.Contains(label, secret) || len(label) >= telling && strings.Contains(secret, label)
}

// env reads a variable with comma separated secrets.
func (l *loading) env(name string, from Source) {
	l.source = name
	value, ok := "", false
	if from.Lookup != nil {
		value, ok = from.Lookup(name)
	}
	if !ok || trim(value) == "" {
		l.fail(0, "the variable is not set or empty, and the pool %s has its tokens from there", l.pool.Name)
		return
	}
	n := 0
	for s := range strings.SplitSeq(value, ",") {
		if s = trim(s); s != "" {
			n++
			l.take(row{secret: s, what: fmt.Sprintf("secret %d", n)})
		}
	}
}

// inline reads the tokens that stand in the configuration.
func (l *loading) inline(from Source) {
	l.source = from.Config
	for i, t := range l.pool.Tokens {
		line := t.Line
		if l.source == "" {
			line = 0
		}
		what := fmt.Sprintf("pools.%s.tokens[%d].secret", l.pool.Name, i)
		l.take(row{label: t.Label, secret: trim(t.Secret.Reveal()), line: line, what: what})
	}
}
