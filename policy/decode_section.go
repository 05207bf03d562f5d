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
func (d *decoder) section(prefix string) []field {
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
			fields = append(fields, field{name, d.setting(s)})
		case !seen[name]:
			seen[name] = true
			fields = append(fields, field{name, d.nested(prefix + name)})
		}
	}
	switch prefix {
	case "":
		fields = append(fields, field{"pools", d.pools}, field{"sites", d.sites})
	case "access.":
		fields = append(fields, field{"clients", d.clients})
	case "defaults.":
		fields = append(fields, field{"limits", func(n *yaml.Node, path string) {
			d.policy.Defaults.Limits = d.limits(n, path, ofRule)
		}})
	}
	return fields
}

func (d *decoder) nested(name string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if name == "admin" && isScalar(n) { // just an address
			for _, s := range d.table {
				if s.Name == "admin.listen" {
					d.setting(s)(n, path)
				}
			}
			return
		}
		d.mapping(n, path, d.section(name+".")...)
	}
}

func isScalar(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode
}

func (d *decoder) clients(n *yaml.Node, path string) {
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		c := Client{Weight: 1, Priority: defaultPriority, Line: n.Line}
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

// need reports keys that are missing from a mapping that could be read.
func (d *decoder) need(n *yaml.Node, path string, set map[string]*yaml.Node, names ...string) {
	if !isMapping(n) {
		return
	}
	for _, name := range names {
		if set[name] == nil {
			d.failf(n, path, "needs %s", name)
		}
	}
}

func isMapping(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.MappingNode
}

// The readers of values that are not in the table.

func (d *decoder) secret(to *Secret) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, secretText)
		switch {
		case !ok:
		case s == "":
			d.failf(n, path, "is empty")
		case strings.ContainsAny(s, "\r\n\x00"):
			d.failf(n, path, "has a line break, which no header can carry")
		default:
			*to = NewSecret(s)
		}
	}
}

func (d *decoder) number(to *int, least, most int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parseCount(s, least, most)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = int(v)
		}
	}
}

// mostAmount of any unit is a petabyte, and far from overflowing.
const mostAmount = 1e15

func (d *decoder) amount(to *int64) func(*yaml.Node, string) { return d.amountOf(to, parseAmount) }

// amountOf reads what parse makes of a value.
func (d *decoder) amountOf(to *int64, parse func(string) (int64, error)) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parse(s)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

func (d *decoder) truth(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parseSwitch(s)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

func (d *decoder) word(to *string, words ...string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parseWord(s, words...)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

// label is text for people: short, printable and not empty.
func (d *decoder) label(to *string) func(*yaml.Node, string) {
	const most = 200
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		switch {
		case !ok:
		case strings.TrimSpace(s) == "":
			d.failf(n, path, "is empty")
		case len(s) > most:
			d.failf(n, path, "is longer than %d characters", most)
		case strings.ContainsFunc(s, unicode.IsControl):
			d.failf(n, path, "has a control character")
		default:
			*to = s
		}
	}
}

func (d *decoder) period(to *Period) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parsePeriod(s)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

func (d *decoder) rate(to *Rate) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parseRate(s)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

// method is a request method as it is sent, which is upper case in practice.
func (d *decoder) method(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		for i := range len(s) {
			if s[i] < 'A' || s[i] > 'Z' {
				d.failf(n, path, "%s is not a method such as GET%s", quote(s),
					didYouMean(s, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}))
				return
			}
		}
		if s == "" {
			d.failf(n, path, "is empty")
			return
		}
		*to = s
	}
}
