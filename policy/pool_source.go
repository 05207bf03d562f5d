package policy

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// poolSource is a place that the tokens of a pool can come from, and the key that names the
// place in the configuration.
type poolSource struct {
	key, doc string
	// value returns what reads the value of the key into the pool.
	value func(d *decoder, p *Pool) value
	// describe says where the tokens are, after the word "tokens"; "" if the pool does not
	// have this source.
	describe func(p *Pool) string
}

// poolSources are all sources of tokens. If you add a row, also add its case to sourceOf in
// package tokens.
var poolSources = []poolSource{
	{
		"file", "A CSV with a header row, or a file with one secret a line.",
		func(d *decoder, p *Pool) value { return d.file(&p.File) },
		func(p *Pool) string { return prefixed("of ", p.File) },
	},
	{
		"env", "A variable with secrets between commas.",
		func(d *decoder, p *Pool) value { return d.variable(&p.Env) },
		func(p *Pool) string { return prefixed("of $", p.Env) },
	},
	{
		"dir", "A directory with one secret a file.",
		func(d *decoder, p *Pool) value { return d.file(&p.Dir) },
		func(p *Pool) string { return prefixed("in ", p.Dir) },
	},
	{
		"tokens", "The secrets themselves, each with a label.",
		func(d *decoder, p *Pool) value {
			return value{
				func(n *yaml.Node, path string) { p.Tokens = readTokens(d, n, path) },
				func() node { return sequenceNode(objectNode(tokenFields(d, &Token{})), 1) },
			}
		},
		func(p *Pool) string {
			labels := make([]string, len(p.Tokens))
			for i, t := range p.Tokens {
				labels[i] = t.Label
			}
			return someOf(labels)
		},
	},
}

// prefixed is s after before; "" if s is empty.
func prefixed(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// variable reads the name of an environment variable, which then counts as used.
func (d *decoder) variable(to *string) value {
	return value{func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		if !variableName.MatchString(s) {
			d.failf(n, path, "is not the name of a variable")
			return
		}
		*to, d.used[s] = s, true
	}, func() node { return patternNode(variableName.String()) }}
}

// source describes where the tokens of the pool come from.
func (p *Pool) source() string {
	for _, one := range poolSources {
		if text := one.describe(p); text != "" {
			return "tokens " + text
		}
	}
	return "no tokens"
}

// sourceKeys are the keys of the sources among those that a mapping has.
func sourceKeys(set map[string]*yaml.Node) (keys []string) {
	for _, one := range poolSources {
		if set[one.key] != nil {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// allSourceKeys lists the keys of all sources: "file, env, dir and tokens".
func allSourceKeys() string {
	var keys []string
	for _, one := range poolSources {
		keys = append(keys, one.key)
	}
	last := len(keys) - 1
	return strings.Join(keys[:last], ", ") + " and " + keys[last]
}
