package policy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// compiled is a schema as a validator has it, or a part of it.
func compiled(schema []byte, part string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		return nil, err
	}
	return c.Compile("schema.json#" + part)
}

var configurationSchema = sync.OnceValues(func() (*jsonschema.Schema, error) { return compiled(Schema(), "") })

// mostNodes bounds what an alias may expand to in a test.
const mostNodes = 20_000

var errNoInstance = errors.New("is no document that an editor reads")

// instance is a configuration as an editor sees it.
func instance(data []byte) (any, error) {
	root, fault := parseDocument(data)
	switch {
	case fault != nil:
		return nil, errNoInstance
	case root == nil:
		return map[string]any{}, nil
	}
	left := mostNodes
	return instanceOf(root, &left)
}

func instanceOf(n *yaml.Node, left *int) (any, error) {
	if *left--; *left < 0 || n.Style&yaml.TaggedStyle != 0 {
		return nil, errNoInstance
	}
	switch n.Kind {
	case yaml.AliasNode:
		return instanceOf(n.Alias, left)
	case yaml.SequenceNode:
		all := []any{}
		for _, one := range n.Content {
			v, err := instanceOf(one, left)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case yaml.MappingNode:
		return mappingOf(n, left)
	}
	var v any
	if err := n.Decode(&v); err != nil || n.Tag == "!!timestamp" || n.Tag == "!!binary" {
		v = n.Value
	}
	if text, ok := v.(string); ok {
		v = unbrace.Replace(text)
	}
	if number, ok := v.(uint64); ok {
		v = float64(number)
	}
	return v, nil
}

func mappingOf(n *yaml.Node, left *int) (any, error) {
	all := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name := unbrace.Replace(key.Value)
		if _, twice := all[name]; twice || key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0 {
			return nil, errNoInstance
		}
		v, err := instanceOf(n.Content[i+1], left)
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	return all, nil
}

// quoted finds what a fault repeats of a configuration.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// has tells whether a fault is of this kind.
func (i inexpressible) has(f Fault) bool {
	return i.fault.MatchString(quoted.ReplaceAllString(f.Text, `""`)) || i.fault.MatchString(f.Text)
}

// loadSource is Load. It compares what Load says of a file with what the schema says of it,
// so that the tests of this package test the schema too.
func loadSource(t testing.TB, src Source) (*Policy, error) {
	t.Helper()
	p, err := Load(src)
	data := src.Data
	if data == nil && src.Path != "" {
		data, _ = os.ReadFile(src.Path) // a file that is missing has no instance, nor faults of its keys
	}
	if complaint := disagreement(data, err, configurationSchema); complaint != "" {
		t.Errorf("%s\n%s", complaint, short(string(data)))
	}
	return p, err
}

// disagreement is what Load and the schema say differently of a file, "" if nothing.
func disagreement(data []byte, err error, schema func() (*jsonschema.Schema, error)) string {
	v, fault := instance(data)
	if fault != nil {
		return ""
	}
	s, broken := schema()
	if broken != nil {
		return broken.Error()
	}
	refusal := s.Validate(v)
	var faults Faults
	switch {
	case err == nil && refusal != nil:
		return fmt.Sprintf("the schema refuses what is read: %v", refusal)
	case err == nil || refusal != nil || !errors.As(err, &faults):
		return ""
	}
	for _, f := range faults {
		if strings.HasPrefix(f.Source, "ABIDE_") || f.Source == "flag" || f.Line == 0 {
			continue // not of the file
		}
		if !slices.ContainsFunc(inexpressibleKinds, func(item inexpressible) bool { return item.has(f) }) {
			return fmt.Sprintf("the schema accepts what is refused: %s", f.Error())
		}
	}
	return ""
}
