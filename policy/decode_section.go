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
			fields = append(fields, optional(name, sentence(s.Doc), settingValue(d, s)))
		case !seen[name]:
			seen[name] = true
			fields = append(fields, optional(name, sectionDocs[prefix+name], nestedSection(d, prefix+name)))
		}
	}
	switch prefix {
	case "":
		fields = append(fields,
			optional("pools", "Tokens that abide puts into requests, by the names of their pools.", value{
				func(n *yaml.Node, path string) { readPools(d, n, path) }, poolsNode,
			}),
			optional("sites", "Rules, of which the first that matches counts.", value{
				func(n *yaml.Node, path string) { readSites(d, n, path) },
				func() node { return sitesNode(d) },
			}),
		)
	case "access.":
		fields = append(fields, optional("clients", "The clients that may connect. With any client listed, all need Proxy-Authorization.", value{
			func(n *yaml.Node, path string) { readClients(d, n, path) },
			func() node { return sequenceNode(objectNode(clientFields(d, &Client{}, nil)), 1) },
		}))
	case "defaults.":
		fields = append(fields, optional("limits", "The limits of sites without a rule.", value{func(n *yaml.Node, path string) {
			d.policy.Defaults.Limits = readLimits(d, n, path, ofRule)
		}, limitsNode}))
	}
	return fields
}

// sectionDocs is a sentence about each section that has settings.
var sectionDocs = map[string]string{
	"abide":    "What abide adds to answers.",
	"access":   "Who may use the proxy.",
	"admin":    "The operator's listener, or just its address.",
	"bounds":   "How much abide holds for others.",
	"breaker":  "When a site that fails is left alone.",
	"ca":       "A CA of one's own.",
	"defaults": "What holds for sites without a rule.",
	"egress":   "Which destinations may be reached, and how.",
	"log":      "What is logged on standard error.",
	"metrics":  "Which metrics there are.",
	"queue":    "Requests that wait until the limits of their site let them go.",
	"retry":    "Requests that are sent again.",
	"shard":    "Which part of all URLs this crawler owns.",
	"timeouts": "How long abide waits for others.",
}

// sentence is a line of help as a sentence.
func sentence(s string) string {
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// nestedSection is the section of a name, of which admin may be an address alone.
func nestedSection(d *decoder, name string) value {
	return value{func(n *yaml.Node, path string) {
		if name == "admin" && isScalar(n) { // just an address
			for _, s := range d.table {
				if s.Name == "admin.listen" {
					settingValue(d, s).read(n, path)
				}
			}
			return
		}
		d.mapping(n, path, section(d, name+".")...)
	}, func() node {
		all := objectNode(section(d, name+"."))
		if name == "admin" {
			return eitherNode(all["properties"].(node)["listen"].(node), all)
		}
		return all
	}}
}

func readClients(d *decoder, n *yaml.Node, path string) {
	first := map[string]int{}
	d.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		c := Client{Weight: 1, Priority: defaultPriority}
		d.mapping(n, path, clientFields(d, &c, first)...)
		d.policy.Access.Clients = append(d.policy.Access.Clients, c)
	})
	if isEmpty(n) {
		d.failf(n, path, "is empty; leave it out to ask nobody for a secret")
	}
}

// clientFields are the keys of a client. first has the lines of the clients before.
func clientFields(d *decoder, c *Client, first map[string]int) []field {
	return []field{
		required("name", "The name in Proxy-Authorization.", value{func(n *yaml.Node, path string) {
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
		}, clientNameNode}),
		required("secret", "The secret in Proxy-Authorization; ${NAME} takes the variable NAME.", d.secret(&c.Secret)),
		optional("weight", "The share of the client beside others that wait for the same site.", d.number(&c.Weight, 1, mostWeight)),
		optional("priority", "Of requests that ask for no other: 0, the most urgent, to 7; 3 is usual.", d.number(&c.Priority, 0, lowestPriority)),
		optional("intercept", "Whether all https of the client is opened. It has to trust abide's CA then.", value{func(n *yaml.Node, path string) {
			if word, ok := d.scalar(n, path, plainText); ok && word != "all" {
				d.failf(n, path, "%s is not all, the only value that it has for a client; leave it out for what intercept says", quote(word))
			}
			c.OpensAll = true
		}, func() node { return wordNode("all") }}),
	}
}

func clientNameNode() node {
	n := textNode()
	n["pattern"] = "^[^:]+$"
	return n
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

// settingValue is the value of one scalar key of the table.
func settingValue(d *decoder, s setting) value {
	return value{func(n *yaml.Node, path string) {
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
	}, func() node {
		return s.schemaWithDefault()
	}}
}
