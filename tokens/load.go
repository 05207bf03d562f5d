package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
)

const (
	maxTokens    = 10_000
	maxFaults    = 20
	maxFileBytes = 16 << 20 // of a file
)

// Surroundings are the places, apart from files, that tokens are read from.
type Surroundings struct {
	Config string                           // path of the configuration, for faults of tokens written there
	Lookup func(name string) (string, bool) // reads an environment variable; nil: no environment
	// Transport sends the requests of sources that are servers, by the egress rules of the
	// configuration that is loaded. It is nil only in tests whose source is not a server.
	Transport http.RoundTripper
}

// entry is one token as its source has it. Its label is "" where it has none, and its line 0 where the source has no lines.
type entry struct {
	policy.Token
	Number int // position among the rows that have a token, from 1
}

// Loaded is the content of a pool's source. No two entries have the same secret.
type Loaded struct {
	Entries  []entry
	Warnings []policy.Fault // what is doubtful and legal, without secrets
}

// Load reads a pool's tokens. The error is a policy.Faults with all faults, with file and
// line, and contains no secret.
func Load(ctx context.Context, p policy.Pool, at Surroundings) (*Loaded, error) {
	l := &loader{pool: p, indexBySecret: map[id]int{}, out: &Loaded{}}
	l.read(ctx, at)
	if err := ctx.Err(); err != nil {
		l.fail(0, "reading the tokens of %s took too long: %v", p.Name, err)
	}
	return l.done()
}

// LoadAll reads the tokens of every pool of a configuration, by pool name. The error is a
// policy.Faults with the faults of all pools; pools without a fault are returned
// nevertheless. A fault without a line of its own gets the line of the pool in the
// configuration. The path of the configuration is the policy's, not at.Config.
func LoadAll(ctx context.Context, p *policy.Policy, at Surroundings) (map[string]*Loaded, error) {
	at.Config = p.File
	all := map[string]*Loaded{}
	var faults policy.Faults
	for i := range p.Pools {
		pool := &p.Pools[i]
		loaded, err := Load(ctx, *pool, at)
		if err != nil {
			faults = append(faults, FaultsAt(p, pool, err)...)
			continue
		}
		all[pool.Name] = loaded
	}
	if len(faults) > 0 {
		return all, faults
	}
	return all, nil
}

// FaultsAt returns the faults of a pool's error, each with a line: its own, or else the
// pool's.
func FaultsAt(p *policy.Policy, pool *policy.Pool, err error) policy.Faults {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		faults = policy.Faults{{Text: err.Error()}}
	}
	return lists.Map(faults, func(fault policy.Fault) policy.Fault {
		if fault.Line == 0 {
			fault = policy.Fault{Source: p.File, Line: pool.Line, Key: "pools." + pool.Name, Text: fault.Error()}
		}
		return fault
	})
}

// read adds a token for each that the source has, and faults. If you add a source, give it a case
// here, a row in sourceFields of package policy, and a row in docs/tokens.md. A source that is a
// server sends through Surroundings.Transport, and ends with ctx: it may not answer.
func (l *loader) read(ctx context.Context, at Surroundings) {
	p := &l.pool
	l.source = cmp.Or(p.File, p.Env, p.Dir, at.Config)
	switch {
	case p.File != "":
		l.file()
	case p.Env != "":
		l.env(at.Lookup)
	case p.Dir != "":
		l.dir(ctx)
	default:
		l.config()
	}
}

// env reads an environment variable with comma separated secrets. lookup is nil where there is no
// environment.
func (l *loader) env(lookup func(name string) (string, bool)) {
	value, ok, err := "", false, error(nil)
	if lookup != nil {
		value, ok, err = policy.LookupSecret(lookup, l.source)
	}
	if err != nil {
		l.fail(0, "%v, and the pool %s has its tokens from there", err, l.pool.Name)
		return
	}
	if !ok || trim(value) == "" {
		l.fail(0, "the variable is not set or empty, and the pool %s has its tokens from there", l.pool.Name)
		return
	}
	n := 0
	for s := range strings.SplitSeq(value, ",") {
		if s = trim(s); s != "" {
			n++
			l.add(policy.Token{Secret: policy.NewSecret(s)}, fmt.Sprintf("secret %d", n))
		}
	}
}

// config reads the tokens that are written in the configuration, which may have no path.
func (l *loader) config() {
	for i, t := range l.pool.Tokens {
		if l.source == "" {
			t.Line = 0
		}
		t.Secret = policy.NewSecret(trim(t.Secret.Reveal()))
		l.add(t, fmt.Sprintf("pools.%s.tokens[%d].secret", l.pool.Name, i))
	}
}

// loader collects the tokens, faults and warnings of one pool's source. It is not safe for
// concurrent use.
type loader struct {
	pool          policy.Pool
	source        string
	indexBySecret map[id]int // :: hash of the secret → index in out.Entries
	number        int
	out           *Loaded
	faults        policy.Faults
}

func (l *loader) done() (*Loaded, error) {
	if len(l.out.Entries) == 0 && len(l.faults) == 0 {
		l.fail(0, "has no tokens")
	}
	if len(l.faults) == 0 {
		l.checkLabels()
	}
	if len(l.faults) > 0 {
		return nil, l.faults
	}
	return l.out, nil
}

func (l *loader) fail(line int, format string, args ...any) {
	l.faults = l.with(l.faults, line, format, args...)
}

func (l *loader) warn(line int, format string, args ...any) {
	l.out.Warnings = l.with(l.out.Warnings, line, format, args...)
}

// with returns a list with one more fault of the source, unless the list is full.
func (l *loader) with(list []policy.Fault, line int, format string, args ...any) []policy.Fault {
	switch {
	case len(list) < maxFaults:
		return append(list, policy.Fault{Source: l.source, Line: line, Text: fmt.Sprintf(format, args...)})
	case len(list) == maxFaults:
		return append(list, policy.Fault{Source: l.source, Text: "and more of the kind"})
	}
	return list
}

// add checks a token and adds it. what is the name of its secret in faults. A second token with the same secret is merged.
func (l *loader) add(t policy.Token, what string) {
	l.number++
	if l.number > maxTokens {
		if l.number == maxTokens+1 {
			l.fail(t.Line, "has more than %d tokens", maxTokens)
		}
		return
	}
	secret := t.Secret.Reveal()
	if err := cmp.Or(secretFault(secret), unusable(&l.pool, secret)); err != nil {
		l.fail(t.Line, "%s %v", what, err)
		return
	}
	if err := labelFault(t.Label); err != nil {
		l.fail(t.Line, "the label %v", err)
		return
	}
	e, key := entry{t, l.number}, hashOf(t.Secret)
	if i, duplicate := l.indexBySecret[key]; duplicate {
		l.mergeDuplicate(i, e, what)
		return
	}
	l.indexBySecret[key] = len(l.out.Entries)
	l.out.Entries = append(l.out.Entries, e)
}

// mergeDuplicate merges an entry into entry i, which has the same secret.
func (l *loader) mergeDuplicate(i int, e entry, what string) {
	first := &l.out.Entries[i]
	first.Label = cmp.Or(first.Label, e.Label)
	if first.Line > 0 {
		l.warn(e.Line, "%s is that of line %d: they are one token", what, first.Line)
		return
	}
	l.warn(e.Line, "%s is that of number %d: they are one token", what, first.Number)
}

// checkLabels refuses labels that reveal a secret and renames labels that are used twice.
func (l *loader) checkLabels() {
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
			label := freeLabel(e.Label, taken)
			l.out.Entries[i].Label, taken[label] = label, true
			l.warn(e.Line, "the label %q is there before, with another secret: this one is called %q", e.Label, label)
		}
		seen[e.Label] = true
		_, other := l.indexBySecret[hashOf(policy.NewSecret(e.Label))]
		if other || revealsSecret(e.Secret.Reveal(), e.Label) {
			l.fail(e.Line, "the label shows a secret, and labels are printed everywhere")
		}
	}
}

// freeLabel returns label~2, label~3 and so on: the first that is not taken.
func freeLabel(label string, taken map[string]bool) string {
	for n := 2; ; n++ {
		if numbered := fmt.Sprintf("%s~%d", label, n); !taken[numbered] {
			return numbered
		}
	}
}

// revealsSecret tells whether a label contains so much of a secret that it reveals it. The
// id of an id:secret pair is no secret.
func revealsSecret(secret, label string) bool {
	const revealing = 12
	if _, after, pair := strings.Cut(secret, ":"); pair && after != "" {
		secret = after
	}
	return label == secret || len(secret) >= revealing && strings.Contains(label, secret) || len(label) >= revealing && strings.Contains(secret, label)
}

const (
	// maxSecretBytes is more than servers accept in one header.
	maxSecretBytes = 8192
	maxLabelBytes  = 128
	bom            = "\ufeff"
)

// trim removes white space and byte order marks, which editors and shells leave around a
// secret.
func trim(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), bom))
}

// secretFault describes what is wrong with a secret. The error does not quote the secret.
func secretFault(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxSecretBytes:
		return fmt.Errorf("is longer than %d bytes", maxSecretBytes)
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	}
	for _, r := range s {
		switch {
		case r == '\r' || r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return errors.New("has a line break inside")
		case unicode.IsSpace(r):
			return errors.New("has a space inside")
		case unicode.IsControl(r) || r == '\ufeff' || r == '\u200b':
			return errors.New("has an invisible character inside")
		}
	}
	return nil
}

// unusable tells why a secret cannot be used as the pool's configuration says.
func unusable(p *policy.Pool, s string) error {
	if p.OAuth2.TokenURL != "" {
		if id, secret, ok := strings.Cut(s, ":"); !ok || id == "" || secret == "" {
			return errors.New("is not id:secret, which oauth2 exchanges for a token")
		}
		return nil // requests carry the exchanged token, not this secret
	}
	switch text := p.Put.Before + s + p.Put.After; {
	case p.Put.Where == "basic" && !strings.Contains(text, ":"):
		return errors.New(`is not id:secret, which basic needs; "basic: {token}:" is for a secret alone`)
	case p.Put.Where == "header" && strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
		return errors.New("has a character that is not ASCII, which no header carries unchanged")
	}
	return nil
}

// labelFault describes what is wrong with a label.
func labelFault(s string) error {
	switch {
	case len(s) > maxLabelBytes:
		return fmt.Errorf("is longer than %d bytes", maxLabelBytes)
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("has an invisible character inside")
	}
	return nil
}
