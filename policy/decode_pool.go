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
	set := d.mapping(n, path, poolFields(d, &p)...)
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

// poolFields are the keys of a pool.
func poolFields(d *decoder, p *Pool) []field {
	fields := []field{
		optional("column", "The column of the file with the secrets.", d.label(&p.Column)),
		optional("label", "The column of the file with the names of the tokens.", d.label(&p.Label)),
		optional("account", "The column of the file with the accounts, whose tokens share one budget.", d.label(&p.Account)),
		optional("put", "Where a token goes: a header, a query parameter or Basic credentials.", parsed(d, &p.Put, parsePlacement, placementNode)),
		optional("oauth2", "Where the secrets, each id:secret, are exchanged for access tokens.", oauth2Value(d, &p.OAuth2)),
		optional("reserve", "The part of every learned limit that is not used: 50, or 1%.", parsed(d, &p.Reserve, parseReserve, reserveNode)),
		optional("exhausted", "What happens when no token may be used: requests wait, or are refused.", d.word(&p.Exhausted, "wait", "refuse")),
		optional("anonymous", "Whether requests are sent without a token when none may be used.", d.truth(&p.Anonymous)),
		optional("limits", "Limits of each token, at each site by itself.", value{
			func(n *yaml.Node, path string) { p.Limits = readLimits(d, n, path, ofPool) },
			limitsNode,
		}),
	}
	for _, one := range poolSources {
		fields = append(fields, optional(one.key, one.doc, one.value(d, p)))
	}
	return fields
}

// poolsNode is the schema of pools.
func poolsNode() node {
	pool := objectNode(poolFields(nil, &Pool{}))
	sources := make([]node, len(poolSources))
	for i, one := range poolSources {
		sources[i] = node{"required": []string{one.key}}
	}
	pool["oneOf"] = sources
	return mapNode(poolName.String(), pool)
}

func readTokens(d *decoder, n *yaml.Node, path string) []Token {
	var all []Token
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		t := Token{Line: n.Line}
		d.mapping(n, path, tokenFields(d, &t)...)
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

// tokenFields are the keys of a token that stands in the configuration.
func tokenFields(d *decoder, t *Token) []field {
	return []field{
		required("label", "What the token is called.", d.label(&t.Label)),
		optional("account", "The account of the token. Tokens of one account share one budget.", d.label(&t.Account)),
		required("secret", "The token itself; ${NAME} takes the variable NAME.", d.secret(&t.Secret)),
	}
}

// oauth2Value is how a pool exchanges its secrets.
func oauth2Value(d *decoder, to *OAuth2) value {
	fields := []field{
		required("token_url", "The address that gives out access tokens.", parsed(d, &to.TokenURL, parseTokenURL, tokenURLNode)),
		optional("scopes", "What the access tokens are for.", value{func(n *yaml.Node, path string) {
			d.list(n, path, func(_ int, n *yaml.Node, path string) {
				var scope string
				d.label(&scope).read(n, path)
				to.Scopes = append(to.Scopes, scope)
			})
		}, func() node { return listNode(filledNode()) }}),
	}
	return value{
		func(n *yaml.Node, path string) { d.mapping(n, path, fields...) },
		func() node { return objectNode(fields) },
	}
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

func tokenURLNode() node { return patternNode("^" + anyCase("https") + "://.") }
