package policy

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// keysIn are the keys of a schema with their paths.
func keysIn(path string, v any, all map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			keysIn(path, one, all)
		}
	case map[string]any:
		for key, one := range v {
			if key != "properties" {
				keysIn(path, one, all)
				continue
			}
			for name, inner := range one.(map[string]any) {
				at := strings.TrimPrefix(path+"."+name, ".")
				all[at] = true
				keysIn(at, inner, all)
			}
		}
	}
}

func TestTheSchemaOfJobsHasTheKeysOfTheGuide(t *testing.T) {
	var schema any
	if err := json.Unmarshal(JobSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	keysIn("", schema, known)
	if len(known) < 40 {
		t.Fatalf("only %d keys", len(known))
	}
	page, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Every key")
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if !known[row[1]] {
			t.Errorf("the schema does not have %s", row[1])
		}
	}
}
