package policy

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// place is where a value stands.
type place struct {
	node *yaml.Node
	path string
}

// backendName is a word that can stand in labels and keys.
var backendName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// mostWeight of a backend or a client is far more than differs in practice.
const mostWeight = 1000

// backends reads the servers that answer instead of a rule's hosts, and where each of
// them stands.
func (d *decoder) backends(n *yaml.Node, path string) (all []Backend, at []place) {
	origins, names := map[Target]bool{}, map[string]bool{}
	d.list(n, path, func(_ int, n *yaml.Node, path string) {
		b, ok := d.backend(n, path)
		switch {
		case !ok:
		case origins[b.Target]:
			d.failf(n, path, "%s is listed twice", b.Origin())
		case names[b.Name]:
			d.failf(n, path, "%s is the name of a backend already", quote(b.Name))
		default:
			origins[b.Target], names[b.Name] = true, true
			all, at = append(all, b), append(at, place{n, path})
		}
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty")
	}
	return all, at
}

// backend reads an origin, or keys of which url is an origin.
func (d *decoder) backend(n *yaml.Node, path string) (b Backend, ok bool) {
	before := d.count()
	b.Weight = 1
	origin := func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			var err error
			if b.Target, err = parseOrigin(s); err != nil {
				d.fail(n, path, err)
			}
		}
	}
	if isMapping(n) {
		set := d.mapping(n, path,
			field{"url", origin},
			field{"name", func(n *yaml.Node, path string) {
				if s, ok := d.scalar(n, path, plainText); ok {
					if b.Name = s; !backendName.MatchString(s) {
						d.failf(n, path, "is not a name for a backend: letters, digits and . _ - do")
					}
				}
			}},
			field{"weight", d.number(&b.Weight, 1, mostWeight)},
			field{"limits", func(n *yaml.Node, path string) { b.Limits, b.Own = d.limits(n, path, ofRule), true }},
		)
		d.need(n, path, set, "url")
	} else {
		origin(n, path)
	}
	if b.Target != (Target{}) && b.Name == "" {
		b.Name = b.usualName()
	}
	return b, d.count() == before && b.Target != (Target{})
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
