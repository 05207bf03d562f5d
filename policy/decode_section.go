package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// section is the keys right below a prefix, such as "log.": those of the table,
// and those with a structure of their own.
func section(d *decoder, prefix string) []field {
	var fields []field
	seen := map[string]bool{}
	for _, s := range d.table {
		rest, ok := strings.CutPrefix(s.Name, prefix)
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, ".")
		switch {
		case !nested:
			fields = append(fields, field{name, readSetting(d, s)})
		case !seen[name]:
			seen[name] = true
			fields = append(fields, field{name, nestedSection(d, prefix+name)})
		}
	}
	switch prefix {
	case "":
		fields = append(fields,
			field{"pools", func(n *yaml.Node, path string) { readPools(d, n, path) }},
			field{"sites", func(n *yaml.Node, path string) { readSites(d, n, path) }},
		)
	case "access.":
		fields = append(fields, field{"clients", func(n *yaml.Node, path string) { readClients(d, n, path) }})
	case "defaults.":
		fields = append(fields, field{"limits", func(n *yaml.Node, path string) {
			d.policy.Defaults.Limits = readLimits(d, n, path, ofRule)
		}})
	}
	return fields
}

func nestedSection(d *decoder, name string) reader {
	return func(n *yaml.Node, path string) {
		if name == "admin" && isScalar(n) { // just an address
			for _, s := range d.table {
				if s.Name == "admin.listen" {
					readSetting(d, s)(n, path)
				}
			}
			return
		}
		d.mapping(n, path, section(d, name+".")...)
	}
}

func readClients(d *decoder, n *yaml.Node, path string) {
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		c := Client{Weight: 1, Priority: defaultPriority}
		set := d.mapping(n, path,
			field{"name", func(n *yaml.Node, path string) {
				if name, ok := d.scalar(n, path, plainText); ok {
					c.Name = name
					if err := checkClientName(name); err != nil {
						d.fail(n, path, err)
					} else if line, twice := first[name]; twice {
						d.failf(n, path, "%s is a client already, in line %d", quote(name), line)
					} else {
						first[name] = n.Line
					}
				}
			}},
			field{"secret", d.secret(&c.Secret)},
			field{"weight", d.number(&c.Weight, 1, mostWeight)},
			field{"priority", d.number(&c.Priority, 0, lowestPriority)},
			field{"intercept", func(n *yaml.Node, path string) {
				if word, ok := d.scalar(n, path, plainText); ok && word != "all" {
					d.failf(n, path, "%s is not all, the only value that it has for a client; leave it out for what intercept says", quote(word))
				}
				c.OpensAll = true
			}},
		)
		d.need(n, path, set, "name", "secret")
		d.policy.Access.Clients = append(d.policy.Access.Clients, c)
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty; leave it out to ask nobody for a secret")
	}
}

// checkClientName refuses what Basic credentials cannot carry.
func checkClientName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case strings.Contains(s, ":"):
		return fmt.Errorf("%s has a colon, which ends the name in Proxy-Authorization", quote(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s has a control character", quote(s))
	}
	return nil
}

// readDocument reads the whole document.
func readDocument(d *decoder, root *yaml.Node) {
	d.mapping(root, "", section(d, "")...)
	checkReferences(d)
}

// readSetting reads one scalar key of the table.
func readSetting(d *decoder, s setting) reader {
	return func(n *yaml.Node, path string) {
		var (
			items []string
			nodes []*yaml.Node
			paths []string
		)
		add := func(n *yaml.Node, path, text string) {
			items, nodes, paths = append(items, text), append(nodes, n), append(paths, path)
		}
		before := d.count()
		switch s.shape {
		case list:
			d.list(n, path, func(_ int, n *yaml.Node, path string) {
				if text, ok := d.scalar(n, path, s.text); ok {
					add(n, path, text)
				}
			})
		case pairs:
			d.each(n, path, false, func(key, value *yaml.Node, name, path string) {
				if text, ok := d.scalar(value, path, s.text); ok {
					add(key, path, name+"="+text)
				}
			})
		default:
			text, ok := d.scalar(n, path, s.text)
			if !ok {
				return
			}
			add(n, path, text)
		}
		if d.count() > before {
			return
		}
		d.set(d.policy, s, Fault{Source: d.source, Line: n.Line, Key: path}, &input{
			items: items, base: d.base, home: d.home,
			fail: func(i int, err error) {
				if i < 0 {
					d.fail(n, path, err)
				} else {
					d.fail(nodes[i], paths[i], err)
				}
			},
		})
	}
}
