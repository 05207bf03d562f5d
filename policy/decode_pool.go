package policy

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

func readPools(d *Decoder, n *yaml.Node, path string) {
	d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
		if !wordForm.MatchString(name) {
			d.Failf(key, path, "is not a name for a pool: letters, digits and . _ - do")
		}
		pool := readPool(d, value, path)
		pool.Name, pool.Line = name, key.Line
		d.policy.Pools = append(d.policy.Pools, pool)
	})
}

func readPool(d *Decoder, n *yaml.Node, path string) Pool {
	p := Pool{Put: Placement{Where: "header", Name: "Authorization", Before: "Bearer "}, Exhausted: "wait"}
	set := d.Mapping(n, path, poolFields(d, &p)...)
	if !IsMapping(n) {
		return p
	}
	all := lists.Map(sourceFields(d, &p), func(f Field) string { return f.name })
	sources := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return set[key] == nil })
	switch {
	case len(sources) == 0:
		d.Failf(n, path, "has no tokens; write one of %s", and(all))
	case len(sources) > 1:
		d.Failf(n, path, "has its tokens from %s; write one of them", strings.Join(sources, " and "))
	case set["file"] == nil && (set["column"] != nil || set["label"] != nil || set["account"] != nil):
		d.Failf(n, path, "has a column, a label or an account, which go with file")
	case set["column"] == nil && set["label"] != nil:
		d.Failf(n, path, "has a label but no column; a file without columns is one secret a line")
	case set["column"] == nil && set["account"] != nil:
		d.Failf(n, path, "has an account but no column; a file without columns is one secret a line")
	}
	return p
}

// poolFields returns the keys of a pool, in the order in which they are described.
func poolFields(d *Decoder, p *Pool) []Field {
	return append(sourceFields(d, p),
		Optional("column", "The column of the file with the secrets.", d.Label(&p.Column)),
		Optional("label", "The column of the file with the names of the tokens.", d.Label(&p.Label)),
		Optional("account", "The column of the file with the accounts, whose tokens share one budget.", d.Label(&p.Account)),
		Optional("put", "Where a token goes: a header, a query parameter or Basic credentials.", Parsed(d, &p.Put, parsePlacement, func() Node {
			return PatternNode(`^[^:]+:.*\{token\}`).suchAs("Authorization: Bearer {token}", "query: api_key={token}", "basic: {token}")
		})),
		Optional("oauth2", "Where the secrets, each id:secret, are exchanged for access tokens.", Object(d, []Field{
			Required("token_url", "The address that gives out access tokens.", Parsed(d, &p.OAuth2.TokenURL, parseTokenURL, func() Node { return PatternNode("^" + anyCase("https") + "://.") })),
			Optional("scopes", "What the access tokens are for.", Listed(d, &p.OAuth2.Scopes, "", d.Label)),
		}).into(&p.OAuth2)).
			saying(when(p.OAuth2.TokenURL != "", "each is exchanged at "+p.OAuth2.TokenURL+when(len(p.OAuth2.Scopes) > 0, " for "+strings.Join(p.OAuth2.Scopes, ", ")))),
		Optional("reserve", "The part of every learned limit that is not used: 50, or 1%.", Parsed(d, &p.Reserve, parseReserve, func() Node {
			return numberNode(0, 1e15, `^(?:`+wholePattern+`|`+decimalPattern+`%)$`).suchAs(50, "1%")
		})).
			saying(when(p.Reserve != (Reserve{}), "reserve "+p.Reserve.String()+" of every limit that is learned")),
		Optional("exhausted", "What happens when no token may be used: requests wait, or are refused.", Word(d, &p.Exhausted, "wait", "refuse")).saying(p.exhaustedText()),
		Optional("anonymous", "Whether requests are sent without a token when none may be used.", d.Truth(&p.Anonymous)),
		Optional("limits", "Limits of each token, at each site by itself.", limitsValue(d, &p.Limits, ofPool)).saying(texts(p.Limits)...),
	)
}

// sourceFields returns the keys that name the source of a pool's tokens. If you add one, also add
// its case to the loader of package tokens.
func sourceFields(d *Decoder, p *Pool) []Field {
	as := " as " + p.Put.String()
	text := func(of, source string) string { return when(source != "", "tokens "+of+source+as) }
	unlined := lists.Map(p.Tokens, func(t Token) Token { t.Line = 0; return t })
	labels := lists.Map(p.Tokens, func(t Token) string { return t.Label })
	return []Field{
		Optional("file", "A CSV with a header row, or a file with one secret a line.", d.File(&p.File)).saying(text("of ", p.File)),
		Optional("env", "A variable with secrets between commas.", d.variable(&p.Env)).saying(text("of $", p.Env)),
		Optional("dir", "A directory with one secret a file.", d.File(&p.Dir)).saying(text("in ", p.Dir)),
		Optional("tokens", "The secrets themselves, each with a label.", tokensValue(d, &p.Tokens).into(&unlined)).saying(text("", someOf(labels))),
	}
}

// tokensValue reads the tokens that stand in the configuration. No two have one label.
func tokensValue(d *Decoder, to *[]Token) Value {
	first := map[string]int{}
	return Sequence(d, to, isEmpty, func(t *Token) Value {
		return Checked(d, func(n *yaml.Node, _ string, _ map[string]*yaml.Node) { t.Line = n.Line },
			Required("label", "What the token is called.", d.unlike(first, &t.Label, d.Label(&t.Label))),
			Optional("account", "The account of the token. Tokens of one account share one budget.", d.Label(&t.Account)),
			Required("secret", "The token itself; ${NAME} takes the variable NAME.", d.Secret(&t.Secret)),
		)
	})
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
