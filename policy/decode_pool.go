package policy

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var poolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (d *decoder) pools(n *yaml.Node, path string) {
	d.each(n, path, false, func(key, value *yaml.Node, name, path string) {
		if !poolName.MatchString(name) {
			d.failf(key, path, "is not a name for a pool: letters, digits and . _ - do")
		}
		pool := d.pool(value, path)
		pool.Name, pool.Line = name, key.Line
		d.policy.Pools = append(d.policy.Pools, pool)
	})
}

func (d *decoder) pool(n *yaml.Node, path string) Pool {
	p := Pool{Put: Put{Where: "header", Name: "Authorization", Before: "Bearer "}, Exhausted: "wait"}
	set := d.mapping(n, path,
		field{"file", d.file(&p.File)},
		field{"column", d.label(&p.Column)},
		field{"label", d.label(&p.Label)},
		field{"env", func(n *yaml.Node, path string) {
			if s, ok := d.scalar(n, path, plainText); ok {
				if !variableName.MatchString(s) {
					d.failf(n, path, "is not the name of a variable")
					return
				}
				p.Env, d.used[s] = s, true
			}
		}},
		field{"dir", d.file(&p.Dir)},
		field{"tokens", func(n *yaml.Node, path string) { p.Tokens = d.tokens(n, path) }},
		field{"put", func(n *yaml.Node, path string) {
			if s, ok := d.scalar(n, path, plainText); ok {
				put, err := parsePut(s)
				if err != nil {
					d.fail(n, path, err)
				}
				p.Put = put
			}
		}},
		field{"oauth2", func(n *yaml.Node, path string) { p.OAuth2 = d.oauth2(n, path) }},
		field{"reserve", func(n *yaml.Node, path string) {
			if s, ok := d.scalar(n, path, plainText); ok {
				reserve, err := parseReserve(s)
				if err != nil {
					d.fail(n, path, err)
				}
				p.Reserve = reserve
			}
		}},
		field{"exhausted", d.word(&p.Exhausted, "wait", "refuse")},
		field{"anonymous", d.truth(&p.Anonymous)},
		field{"limits", func(n *yaml.Node, path string) { p.Limits = d.limits(n, path, ofPool) }},
	)
	if !isMapping(n) || d.stopped {
		return p
	}
	var sources []string
	for _, name := range []string{"file", "env", "dir", "tokens"} {
		if set[name] != nil {
			sources = append(sources, name)
		}
	}
	switch {
	case len(sources) == 0:
		d.failf(n, path, "has no tokens; write one of file, env, dir and tokens")
	case len(sources) > 1:
		d.failf(n, path, "has its tokens from %s; write one of them", strings.Join(sources, " and "))
	case set["file"] == nil && (set["column"] != nil || set["label"] != nil):
		d.failf(n, path, "has a column or a label, which go with file")
	case set["column"] == nil && set["label"] != nil:
		d.failf(n, path, "has a label but no column; a file without columns is one secret a line")
	}
	return p
}

// file is a path that starts where the configuration is.
func (d *decoder) file(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		if s == "" {
			d.failf(n, path, "is empty")
			return
		}
		in := input{items: []string{s}, base: d.base, home: d.home}
		abs, err := in.path()
		if err != nil {
			d.fail(n, path, err)
			return
		}
		*to = abs
	}
}

func (d *decoder) tokens(n *yaml.Node, path string) []Token {
	var all []Token
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		t := Token{Line: n.Line}
		set := d.mapping(n, path,
			field{"label", d.label(&t.Label)},
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

func isEmpty(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

func (d *decoder) oauth2(n *yaml.Node, path string) OAuth2 {
	var o OAuth2
	set := d.mapping(n, path,
		field{"token_url", func(n *yaml.Node, path string) {
			s, ok := d.scalar(n, path, plainText)
			if !ok {
				return
			}
			u, err := url.Parse(s)
			switch {
			case err != nil, u.Hostname() == "", u.User != nil, u.Fragment != "":
				d.failf(n, path, "is not a URL such as https://api.example/oauth2/token")
			case u.Scheme != "https":
				d.failf(n, path, "is not https, so everybody on the way could read the secrets")
			default:
				o.TokenURL = s
			}
		}},
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

const tokenMark = "{token}"

// parsePut reads "Name: before{token}after", "query: name={token}" and
// "basic: {token}". It quotes nothing: who forgets the mark may have put the
// secret there.
func parsePut(s string) (Put, error) {
	where, value, ok := strings.Cut(s, ":")
	if !ok || strings.Count(s, tokenMark) != 1 || strings.Contains(where, tokenMark) {
		return Put{}, errors.New(`is not a place for {token}, such as "Authorization: Bearer {token}", "query: api_key={token}" or "basic: {token}"`)
	}
	value = strings.TrimLeft(value, " ")
	var p Put
	switch where {
	case "query":
		name, rest, ok := strings.Cut(value, "=")
		if !ok || name == "" || strings.Contains(name, tokenMark) || strings.ContainsAny(value, "&#? ") {
			return Put{}, errors.New(`is not a query parameter, such as "query: api_key={token}"`)
		}
		p.Where, p.Name, value = "query", name, rest
	case "basic":
		p.Where = "basic"
	default:
		if !headerName(where) {
			return Put{}, errors.New(`does not begin with the name of a header, such as "Authorization: Bearer {token}"`)
		}
		p.Where, p.Name = "header", textproto.CanonicalMIMEHeaderKey(where)
		if err := noPlace(p.Name); err != nil {
			return Put{}, err
		}
	}
	p.Before, p.After, _ = strings.Cut(value, tokenMark)
	for _, one := range p.Before + p.After {
		if one < ' ' || one == 0x7f {
			return Put{}, errors.New("has a control character")
		}
	}
	return p, nil
}

// noPlace refuses headers that no token may be in: those that say how a message
// is sent, which do not reach the site, and abide's own. Some servers take _ for -.
func noPlace(name string) error {
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch {
	case strings.HasPrefix(plain, "abide-"):
		return fmt.Errorf("puts the token into %s, but headers that begin with Abide- are between clients and abide, and no site gets them", name)
	case strings.HasPrefix(plain, "proxy-"):
		return fmt.Errorf("puts the token into %s, which is for proxies and does not reach the site; write Authorization", name)
	}
	switch plain {
	case "host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "via":
		return fmt.Errorf("puts the token into %s, which is not a header for credentials", name)
	}
	return nil
}

func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parseReserve reads units, 50, or a part, 1%.
func parseReserve(s string) (Reserve, error) {
	if part, ok := strings.CutSuffix(s, "%"); ok {
		n, err := scaled(part, 1e6)
		if err != nil || n >= 100e6 {
			return Reserve{}, fmt.Errorf("%s is not a part of less than 100%%", quote(s))
		}
		percent, _ := strconv.ParseFloat(part, 64)
		return Reserve{Percent: percent}, nil
	}
	n, err := parseCount(s, 0, 1e15)
	return Reserve{Units: n}, err
}
