package policy

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

var poolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func readPools(d *decoder, n *yaml.Node, path string) {
	d.each(n, path, false, func(key, value *yaml.Node, name, path string) {
		if !poolName.MatchString(name) {
			d.failf(key, path, "is not a name for a pool: letters, digits and . _ - do")
		}
		pool := readPool(d, value, path)
		pool.Name, pool.Line = name, key.Line
		d.policy.Pools = append(d.policy.Pools, pool)
	})
}

func readPool(d *decoder, n *yaml.Node, path string) Pool {
	p := Pool{Put: Placement{Where: "header", Name: "Authorization", Before: "Bearer "}, Exhausted: "wait"}
	fields := []field{
		{"column", d.label(&p.Column)},
		{"label", d.label(&p.Label)},
		{"account", d.label(&p.Account)},
		{"put", parsed(d, &p.Put, parsePlacement)},
		{"oauth2", func(n *yaml.Node, path string) { p.OAuth2 = readOAuth2(d, n, path) }},
		{"reserve", parsed(d, &p.Reserve, parseReserve)},
		{"exhausted", d.word(&p.Exhausted, "wait", "refuse")},
		{"anonymous", d.truth(&p.Anonymous)},
		{"limits", func(n *yaml.Node, path string) { p.Limits = readLimits(d, n, path, ofPool) }},
	}
	for _, one := range poolSources {
		fields = append(fields, field{one.key, one.read(d, &p)})
	}
	set := d.mapping(n, path, fields...)
	if !isMapping(n) || d.stopped {
		return p
	}
	sources := sourceKeys(set)
	switch {
	case len(sources) == 0:
		d.failf(n, path, "has no tokens; write one of %s", allSourceKeys())
	case len(sources) > 1:
		d.failf(n, path, "has its tokens from %s; write one of them", strings.Join(sources, " and "))
	case set["file"] == nil && (set["column"] != nil || set["label"] != nil || set["account"] != nil):
		d.failf(n, path, "has a column, a label or an account, which go with file")
	case set["column"] == nil && set["label"] != nil:
		d.failf(n, path, "has a label but no column; a file without columns is one secret a line")
	case set["column"] == nil && set["account"] != nil:
		d.failf(n, path, "has an account but no column; a file without columns is one secret a line")
	}
	return p
}

func readTokens(d *decoder, n *yaml.Node, path string) []Token {
	var all []Token
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		t := Token{Line: n.Line}
		set := d.mapping(n, path,
			field{"label", d.label(&t.Label)},
			field{"account", d.label(&t.Account)},
			field{"secret", d.secret(&t.Secret)},
		)
		d.need(n, path, set, "label", "secret")
		if line, twice := first[t.Label]; twice && t.Label != "" {
			d.failf(n, path, "has the label of line %d", line)
		}
		first[t.Label] = n.Line
		all = append(all, t)
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty")
	}
	return all
}

func readOAuth2(d *decoder, n *yaml.Node, path string) OAuth2 {
	var o OAuth2
	set := d.mapping(n, path,
		field{"token_url", parsed(d, &o.TokenURL, parseTokenURL)},
		field{"scopes", func(n *yaml.Node, path string) {
			d.list(n, path, func(_ int, n *yaml.Node, path string) {
				var scope string
				d.label(&scope)(n, path)
				o.Scopes = append(o.Scopes, scope)
			})
		}},
	)
	d.need(n, path, set, "token_url")
	return o
}

// parseTokenURL reads the address where tokens are given out. It quotes nothing: a
// secret may stand in it.
func parseTokenURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Hostname() == "", u.User != nil, u.Fragment != "":
		return "", errors.New("is not a URL such as https://api.example/oauth2/token")
	case u.Scheme != "https":
		return "", errors.New("is not https, so everybody on the way could read the secrets")
	}
	return s, nil
}
