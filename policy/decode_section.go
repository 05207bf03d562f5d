package policy

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// section is the keys right below a prefix, such as "log.": those of the table,
// and those with a structure of their own.
func section(d *Decoder, prefix string) []Field {
	var fields []Field
	seen := map[string]bool{}
	for _, s := range d.loading.table {
		rest, ok := strings.CutPrefix(s.Name, prefix)
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, ".")
		switch {
		case !nested:
			fields = append(fields, Optional(name, strings.ToUpper(s.Doc[:1])+s.Doc[1:]+".", settingValue(d, s)))
		case !seen[name]:
			seen[name] = true
			fields = append(fields, Optional(name, sectionDocs[prefix+name], nestedSection(d, prefix+name)))
		}
	}
	switch prefix {
	case "":
		fields = append(fields,
			Optional("pools", "Tokens that abide puts into requests, by the names of their pools.", NewValue(
				func(n *yaml.Node, path string) { readPools(d, n, path) }, poolsNode,
			)),
			Optional("sites", "Rules, of which the first that matches counts.", NewValue(
				func(n *yaml.Node, path string) { readSites(d, n, path) },
				func() Node { return SequenceNode(ObjectNode((&siteReading{d: d, site: &Site{}}).fields()), 0) },
			)),
		)
	case "access.":
		fields = append(fields, Optional("clients", "The clients that may connect. With any client listed, all need Proxy-Authorization.", d.noted(clientsValue(d))))
	case "defaults.":
		fields = append(fields, Optional("limits", "The limits of sites without a rule.", d.noted(NewValue(func(n *yaml.Node, path string) {
			d.policy.Defaults.Limits = readLimits(d, n, path, ofRule)
		}, limitsNode))))
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

// nestedSection is the section of a name, of which admin may be an address alone.
func nestedSection(d *Decoder, name string) Value {
	return NewValue(func(n *yaml.Node, path string) {
		if name == "admin" && IsScalar(n) { // just an address
			for _, s := range d.loading.table {
				if s.Name == "admin.listen" {
					settingValue(d, s).Read(n, path)
				}
			}
			return
		}
		d.Mapping(n, path, section(d, name+".")...)
	}, func() Node {
		all := ObjectNode(section(d, name+"."))
		if name == "admin" {
			return EitherNode(all["properties"].(Node)["listen"].(Node), all)
		}
		return all
	})
}

// readConfiguration reads the whole configuration.
func readConfiguration(d *Decoder, root *yaml.Node) {
	d.Mapping(root, "", section(d, "")...)
	checkReferences(d)
	bind(d)
}

// settingValue is the value of one scalar key of the table.
func settingValue(d *Decoder, s setting) Value {
	return NewValue(func(n *yaml.Node, path string) {
		var (
			items []string
			nodes []*yaml.Node
			paths []string
		)
		add := func(n *yaml.Node, path, text string) {
			items, nodes, paths = append(items, text), append(nodes, n), append(paths, path)
		}
		before := d.loading.count()
		switch s.shape {
		case list:
			d.List(n, path, func(_ int, n *yaml.Node, path string) {
				if text, ok := d.Scalar(n, path, s.text); ok {
					add(n, path, text)
				}
			})
		case pairs:
			d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
				if text, ok := d.Scalar(value, path, s.text); ok {
					add(key, path, name+"="+text)
				}
			})
		default:
			text, ok := d.Scalar(n, path, s.text)
			if !ok {
				return
			}
			add(n, path, text)
		}
		if d.loading.count() > before {
			return
		}
		d.loading.set(d.policy, s, Fault{Source: d.loading.name, Line: n.Line, Key: path}, &input{
			items: items, base: d.loading.base, home: d.loading.home,
			fail: func(i int, err error) {
				if i < 0 {
					d.Fail(n, path, err)
				} else {
					d.Fail(nodes[i], paths[i], err)
				}
			},
		})
	}, func() Node {
		return s.schemaWithDefault()
	})
}
