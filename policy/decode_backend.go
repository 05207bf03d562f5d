package policy

import (
	"errors"
	"net/url"
	"strings"

	"gopkg.in/yaml.v3"
)

// place is where a value stands.
type place struct {
	node *yaml.Node
	path string
}

// backends reads the origins that answer instead of a rule's hosts, and where
// each of them stands.
func (d *decoder) backends(n *yaml.Node, path string) (all []Target, at []place) {
	seen := map[Target]bool{}
	d.list(n, path, func(_ int, n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		t, err := parseOrigin(s)
		switch {
		case err != nil:
			d.fail(n, path, err)
		case seen[t]:
			d.failf(n, path, "%s is listed twice", t.Origin())
		default:
			seen[t] = true
			all, at = append(all, t), append(at, place{n, path})
		}
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty")
	}
	return all, at
}

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

// notItself refuses backends that the rule is about: what goes there would come
// to the rule again.
func (d *decoder) notItself(s *Site, at []place) {
	if len(at) == 0 {
		return
	}
	rule := newIndex([]Site{*s})
	for i, t := range s.Backends {
		if d.full() || rule.find(t.Host, t.Port) == none {
			continue
		}
		for _, one := range s.Hosts {
			if one.Matches(t.Host, t.Port) {
				d.failf(at[i].node, at[i].path, "%s is one of the hosts of this rule (%s), so its requests would come back to the rule", t.Origin(), one)
				break
			}
		}
	}
}
