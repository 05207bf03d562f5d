package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestTheSchemaRefusesWhatIsRefusedButForTheListedKindsOfFaults(t *testing.T) {
	schema, err := configurationSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range inexpressibleKinds {
		_, err := Load(Source{Data: []byte(one.example), Lookup: environ("B", "x")})
		var faults Faults
		if !errors.As(err, &faults) || !slices.ContainsFunc(faults, one.has) {
			t.Errorf("%s has no fault %s: %v", one.example, one.fault, err)
		}
		v, err := instance([]byte(one.example))
		if err != nil || schema.Validate(v) != nil {
			t.Errorf("the schema refuses %s, so %s is not inexpressible: %v, %v", one.example, one.fault, err, schema.Validate(v))
		}
	}
}

func TestEveryTestOfThisPackageLoadsByLoadSourceWhichAsksTheSchemaToo(t *testing.T) {
	files, _ := filepath.Glob("*_test.go")
	direct := regexp.MustCompile(`[^A-Za-z.]Load\((Source|src|data)`)
	keys := []string{"schema_given_test.go", "schema_test.go", "fuzz_test.go"}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if direct.Match(data) && !slices.Contains(keys, file) {
			t.Errorf("%s calls Load; call loadSource", file)
		}
	}
}

func TestEveryConfigurationInTheGuidesIsValidByTheSchema(t *testing.T) {
	pages, _ := filepath.Glob("../docs/*.md")
	names := section(&Decoder{loading: newLoading(Source{}), policy: &Policy{}}, "")
	found := 0
	for _, page := range append(pages, "../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlOf(data) {
			var keys map[string]any
			if yaml.Unmarshal(block, &keys) != nil || !slices.ContainsFunc(names, func(f Field) bool { return keys[f.name] != nil }) {
				continue // a job, or a file of another program
			}
			if keys["name"] != nil && keys["request"] != nil {
				continue
			}
			found++
			if _, err := loadSource(t, Source{Path: page, Data: block, Lookup: anyVariable}); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d configurations", found)
	}
	for _, path := range []string{examplePath, "../deploy/debian/abide.yaml", "../cmd/abide/init.yaml", "testdata/full.yaml"} {
		if _, err := loadSource(t, Source{Path: path, Lookup: anyVariable}); err != nil {
			t.Error(err)
		}
	}
}

// anyVariable is an environment in which every variable of an example is set.
func anyVariable(name string) (string, bool) {
	return "/home/somebody", !strings.HasPrefix(name, "ABIDE_") && !strings.HasSuffix(name, fileSuffix) || name == "ABIDE_ADMIN_TOKEN"
}

// schemaObject is a mapping with named keys of a schema, and where it stands in a file.
type schemaObject struct {
	path string
	keys map[string]any
	wrap string // the file, with %s for the mapping
}

// objectsIn are all mappings with named keys of a schema.
func objectsIn(definitions map[string]any, path string, part map[string]any, wrap string) (all []schemaObject) {
	if ref, ok := part["$ref"].(string); ok {
		part = definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	if keys, ok := part["properties"].(map[string]any); ok {
		all = append(all, schemaObject{path, keys, wrap})
		for name, inner := range keys {
			at := strings.TrimPrefix(path+"."+name, ".")
			all = append(all, objectsIn(definitions, at, inner.(map[string]any), fmt.Sprintf(wrap, "{"+name+": %s}"))...)
		}
	}
	if items, ok := part["items"].(map[string]any); ok {
		all = append(all, objectsIn(definitions, path+"[]", items, fmt.Sprintf(wrap, "[%s]"))...)
	}
	if of, ok := part["additionalProperties"].(map[string]any); ok {
		all = append(all, objectsIn(definitions, path+".x", of, fmt.Sprintf(wrap, "{x: %s}"))...)
	}
	if either, ok := part["anyOf"].([]any); ok {
		for _, one := range either {
			all = append(all, objectsIn(definitions, path, one.(map[string]any), wrap)...)
		}
	}
	return all
}

// decoded is a schema as JSON has it.
func decoded(t *testing.T, schema []byte) (root, definitions map[string]any) {
	t.Helper()
	if err := json.Unmarshal(schema, &root); err != nil {
		t.Fatal(err)
	}
	definitions, _ = root["definitions"].(map[string]any)
	return root, definitions
}

// unknownKey finds the faults of a key that nothing reads.
var unknownKey = regexp.MustCompile(`is not a key|has a key that is none of`)

// checkKeys compares the keys of a schema with those that are read: each key that the schema
// has at a place is read there, and each other key of the schema is not.
func checkKeys(t *testing.T, schema []byte, read func(text string) error, least int) {
	t.Helper()
	root, definitions := decoded(t, schema)
	objects := objectsIn(definitions, "", root, "%s")
	names := map[string]bool{}
	for _, o := range objects {
		for name := range o.keys {
			names[name] = true
		}
	}
	if len(objects) < least {
		t.Errorf("only %d mappings", len(objects))
	}
	for _, o := range objects {
		for name := range names {
			_, has := o.keys[name]
			err := read(fmt.Sprintf(o.wrap, "{"+name+": []}"))
			if unknown := err != nil && unknownKey.MatchString(err.Error()); unknown == has {
				t.Errorf("%s: the schema has %s: %v; reading it: %v", o.path, name, has, err)
			}
		}
	}
}

func TestTheSchemaHasEveryKeyThatIsReadAndNoOther(t *testing.T) {
	checkKeys(t, Schema(), func(text string) error {
		_, err := Load(Source{Data: []byte(text)})
		return err
	}, 25)
}

func TestEveryKeyOfTheSchemaHasADescriptionAndValidDefaultsAndExamples(t *testing.T) {
	checkAnnotations(t, Schema())
	root, definitions := decoded(t, Schema())
	for _, o := range objectsIn(definitions, "", root, "%s") {
		for key, one := range o.keys {
			if text, _ := one.(map[string]any)["description"].(string); !strings.HasSuffix(text, ".") {
				t.Errorf("%s.%s: %q is not a sentence", o.path, key, text)
			}
		}
	}
}

// checkAnnotations checks that the defaults and the examples of a schema are valid.
func checkAnnotations(t *testing.T, schema []byte) {
	t.Helper()
	root, _ := decoded(t, schema)
	checkAnnotationsOf(t, schema, "", root)
}

// checkAnnotationsOf checks a part of a schema.
func checkAnnotationsOf(t *testing.T, schema []byte, path string, part any) {
	t.Helper()
	switch part := part.(type) {
	case []any:
		for i, one := range part {
			checkAnnotationsOf(t, schema, fmt.Sprintf("%s/%d", path, i), one)
		}
	case map[string]any:
		values, _ := part["examples"].([]any)
		if value, ok := part["default"]; ok && !strings.HasSuffix(path, "/properties") {
			values = append(values, value)
		}
		if len(values) > 0 {
			compiled, err := compiled(schema, path)
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range values {
				if err := compiled.Validate(value); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
		for key, one := range part {
			checkAnnotationsOf(t, schema, path+"/"+key, one)
		}
	}
}
