package policy

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// table is the settings that are read.
func (d *Decoder) table() []setting {
	return slices.DeleteFunc(settings(d), func(s setting) bool { return d.loading.only != nil && !slices.Contains(d.loading.only, s.Name) })
}

// section is the keys right below a prefix, such as "log.": those of the table,
// and those with a structure of their own.
func section(d *Decoder, prefix string) []Field {
	var fields []Field
	seen := map[string]bool{}
	for _, s := range d.table() {
		rest, ok := strings.CutPrefix(s.Name, prefix)
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, ".")
		switch {
		case !nested:
			fields = append(fields, Optional(name, strings.ToUpper(s.Doc[:1])+s.Doc[1:]+".", NewValue(s.Read, s.schemaWithDefault)))
		case !seen[name]:
			seen[name] = true
			fields = append(fields, Optional(name, sectionDocs[prefix+name], nestedSection(d, prefix+name)))
		}
	}
	switch prefix {
	case "":
		fields = append(fields,
			Optional("pools", "Tokens that abide puts into requests, by the names of their pools.", NewValue(
				func(n *yaml.Node, path string) { readPools(d, n, path) }, func() Node {
					pool := ObjectNode(poolFields(nil, &Pool{}))
					pool["oneOf"] = lists.Map(sourceFields(nil, &Pool{}), func(f Field) Node { return Node{"required": []string{f.name}} })
					return MapNode(wordForm.String(), pool)
				},
			)),
			Optional("sites", "Rules, of which the first that matches counts.", NewValue(
				func(n *yaml.Node, path string) { readSites(d, n, path) },
				func() Node { return SequenceNode(ObjectNode((&siteReading{d: d, site: &Site{}}).fields()), 0) },
			)),
		)
	case "access.":
		fields = append(fields, Optional("clients", "The clients that may connect. With any client listed, all need Proxy-Authorization.", d.noted("", clientsValue(d))))
	case "defaults.":
		fields = append(fields, Optional("limits", "The limits of sites without a rule.", d.noted("", limitsValue(d, &d.policy.Defaults.Limits, ofRule))))
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
			lists.Find(d.table(), func(s *setting) bool { return s.Name == "admin.listen" }).Read(n, path)
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
