package policy

import (
	"gopkg.in/yaml.v3"
)

// place is the position of a value in the file.
type place struct {
	node *yaml.Node
	path string
}

// readBackends reads the servers that answer instead of a rule's hosts, and where each of
// them stands.
func readBackends(d *decoder, n *yaml.Node, path string) (all []Backend, at []place) {
	origins, names := map[Target]bool{}, map[string]bool{}
	d.list(n, path, func(_ int, n *yaml.Node, path string) {
		b, ok := readBackend(d, n, path)
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

// readBackend reads an origin, or keys of which url is an origin.
func readBackend(d *decoder, n *yaml.Node, path string) (b Backend, ok bool) {
	before := d.count()
	b.Weight = 1
	if isMapping(n) {
		d.mapping(n, path, backendFields(d, &b)...)
	} else {
		parsed(d, &b.Target, parseOrigin, originNode).read(n, path)
	}
	if b.Target != (Target{}) && b.Name == "" {
		b.Name = b.usualName()
	}
	return b, d.count() == before && b.Target != (Target{})
}

// backendFields are the keys of a backend.
func backendFields(d *decoder, b *Backend) []field {
	return []field{
		required("url", "The origin of the server.", parsed(d, &b.Target, parseOrigin, originNode)),
		optional("name", "What the backend is called.", value{func(n *yaml.Node, path string) {
			if s, ok := d.scalar(n, path, plainText); ok {
				if b.Name = s; !backendName.MatchString(s) {
					d.failf(n, path, "is not a name for a backend: letters, digits and . _ - do")
				}
			}
		}, func() node { return patternNode(backendName.String()) }}),
		optional("weight", "Its share beside other backends.", d.number(&b.Weight, 1, mostWeight)),
		optional("limits", "Limits of its own, in place of those of the rule.", value{
			func(n *yaml.Node, path string) { b.Limits, b.Own = readLimits(d, n, path, ofRule), true },
			limitsNode,
		}),
	}
}

// backendsNode is the schema of a rule's backends.
func backendsNode() node {
	item := eitherNode(originNode(), objectNode(backendFields(nil, &Backend{})))
	return eitherNode(item, sequenceNode(item, 1))
}

// checkBackends refuses backends that the rule is about: what goes there would come
// to the rule again.
func checkBackends(d *decoder, s *Site, at []place) {
	if len(at) == 0 {
		return
	}
	rule := newIndex([]Site{*s})
	for i, t := range s.Backends {
		if d.full() || rule.find(t.Host, t.Port) == none {
			continue
		}
		for _, one := range s.Hosts {
			if one.matches(t.Host, t.Port) {
				d.failf(at[i].node, at[i].path, "%s is one of the hosts of this rule (%s), so its requests would come back to the rule", t.Origin(), one)
				break
			}
		}
	}
}
