package policy

import (
	"errors"
	"net/url"
	"strings"
)

// parseOrigin reads the scheme, the host and perhaps the port of a server. It
// quotes nothing but the host: a user and a password may stand beside it.
func parseOrigin(s string) (Target, error) {
	const rest = "; an origin is a scheme, a host and perhaps a port, such as https://a.example"
	u, err := url.Parse(s)
	switch {
	case s == "":
		return Target{}, errors.New("is empty")
	case err != nil, u.Opaque != "", u.Scheme == "":
		return Target{}, errors.New("is not an origin such as https://a.example")
	case u.User != nil:
		return Target{}, errors.New("is not an origin: it has a user or a password" + rest)
	case u.Path != "" && u.Path != "/":
		return Target{}, errors.New("is not an origin: it has a path" + rest)
	case u.RawQuery != "" || u.ForceQuery:
		return Target{}, errors.New("is not an origin: it has a query" + rest)
	case strings.Contains(s, "#"):
		return Target{}, errors.New("is not an origin: it has a fragment" + rest)
	}
	return ParseTarget(u.Scheme, u.Host)
}

// originNode is what parseOrigin reads, as far as a pattern tells.
func originNode() node {
	return patternNode("^" + anyCase("http") + `[sS]?://[^/?#@]+/?$`).suchAs("https://a.example")
}
