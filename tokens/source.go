package tokens

import (
	"context"
	"fmt"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// source is a place that tokens are read from. If you add a source, give it a file of its
// own, a case in sourceOf, a row in sourceFields of package policy, and a row in
// docs/tokens.md. A source that is a server sends through Surroundings.Transport.
type source interface {
	// read calls l.add for each token, and l.fail or l.warn for faults. It returns when ctx
	// ends: a source may be a server that does not answer.
	read(ctx context.Context, l *loader)
}

// sourceOf returns the source that a pool's configuration names.
func sourceOf(p policy.Pool, at Surroundings) source {
	switch {
	case p.File != "":
		return fileSource(p.File)
	case p.Env != "":
		return envSource{p.Env, at.Lookup}
	case p.Dir != "":
		return dirSource(p.Dir)
	}
	return configSource(at.Config)
}

// envSource reads an environment variable with comma separated secrets.
type envSource struct {
	name   string
	lookup func(name string) (string, bool) // nil: no environment
}

func (e envSource) read(_ context.Context, l *loader) {
	l.source = e.name
	value, ok, err := "", false, error(nil)
	if e.lookup != nil {
		value, ok, err = policy.LookupSecret(e.lookup, e.name)
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
			l.add(rawToken{secret: s, describedAs: fmt.Sprintf("secret %d", n)})
		}
	}
}

// configSource reads the tokens that are written in the configuration. The value is the
// configuration's path; "" where it has none.
type configSource string

func (c configSource) read(_ context.Context, l *loader) {
	l.source = string(c)
	for i, t := range l.pool.Tokens {
		line := t.Line
		if l.source == "" {
			line = 0
		}
		what := fmt.Sprintf("pools.%s.tokens[%d].secret", l.pool.Name, i)
		l.add(rawToken{label: t.Label, account: t.Account, secret: trim(t.Secret.Reveal()), line: line, describedAs: what})
	}
}
