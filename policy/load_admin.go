package policy

import (
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"
)

// AdminKeys are the settings that LoadAdmin reads.
var AdminKeys = []string{"admin.listen", "admin.token", "data"}

// LoadAdmin reads AdminKeys and leaves everything else at its default, so that a command
// finds a running abide although its configuration file has faults elsewhere. A flag
// beats the environment, which beats the file. The faults are those of these settings,
// and that of a file which is not YAML; what can be read is in the answer all the same.
func LoadAdmin(src Source) (*Policy, Faults) {
	l := newLoading(src)
	l.table = slices.DeleteFunc(l.table, func(s setting) bool { return !slices.Contains(AdminKeys, s.Name) })
	p := defaults(l.lookup)
	root, fault := parseDocument(src.Data)
	switch {
	case fault != nil:
		fault.Source = l.name
		l.fail(*fault)
	case root != nil:
		if src.Path != "" {
			l.base = filepath.Dir(src.Path)
		}
		d := &decoder{loading: l, policy: p, source: l.name}
		d.mapping(onlyKeys(root, "admin", "data"), "", section(d, "")...)
		l.base = ""
	}
	l.environment(p, nil)
	l.flags(p, src.Flags)
	return p, l.faults
}

// onlyKeys is a mapping with some keys of another mapping, each once.
func onlyKeys(from *yaml.Node, names ...string) *yaml.Node {
	only := *from
	only.Kind, only.Content = yaml.MappingNode, nil
	if from.Kind != yaml.MappingNode {
		return &only
	}
	for i := 0; i+1 < len(from.Content); i += 2 {
		if at := slices.Index(names, from.Content[i].Value); at >= 0 {
			only.Content = append(only.Content, from.Content[i:i+2]...)
			names = slices.Delete(slices.Clone(names), at, at+1)
		}
	}
	return &only
}

// HasNoKeys tells whether a configuration file sets nothing: it is empty, or all of it
// is comments. A file that is not YAML is not empty.
func HasNoKeys(data []byte) bool {
	root, fault := parseDocument(data)
	return fault == nil && (root == nil || root.Kind == yaml.MappingNode && len(root.Content) == 0)
}
