package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var yamlExample = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestEveryJobInTheGuideLoads(t *testing.T) {
	page, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := yamlExample.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 10 {
		t.Fatalf("only %d examples were found", len(examples))
	}
	for _, one := range examples {
		if _, err := LoadJob(Source{Path: "job.yaml", Data: []byte(one[1]), Environ: []string{"API_TOKEN=x", "PGPASSWORD=y"}}); err != nil {
			t.Errorf("%s\n%v", one[1], err)
		}
		if complaint := disagreement([]byte(one[1]), nil, jobSchema); complaint != "" {
			t.Errorf("%s\n%s", one[1], complaint)
		}
	}
	for style := range pageKeys {
		if !strings.Contains(string(page), "| `"+style+"` |") {
			t.Errorf("the guide does not have the style %s", style)
		}
	}
}
