//go:build linux

package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The other tests run the files that these lines name. Their names and the secret are what
// this test is about.
func TestTheQuickStartsOfContainersNameWhatTheOtherTestsRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	var secrets []string
	for _, one := range pod(t)["abide"].Env {
		if name := one.From.Secret.Name; name != "" {
			secrets = append(secrets, "kubectl create secret generic "+name+" --from-literal="+one.From.Secret.Key+"=$(openssl rand -hex 16)")
		}
	}
	for _, line := range []struct{ section, ending string }{
		{"Docker", "export ABIDE_ADMIN_TOKEN=$(openssl rand -hex 16)\ndocker compose -f deploy/compose.yaml up\n"},
		{"Kubernetes", strings.Join(secrets, "\n") + "\nkubectl apply -f deploy/kubernetes-sidecar.yaml\nkubectl logs deployment/crawler -c abide\n"},
	} {
		section := regexp.MustCompile(`(?s)\n## ` + line.section + `\n.*?(?:\n## |$)`).Find(page)
		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(section, -1)
		if len(blocks) == 0 || string(blocks[len(blocks)-1][1]) != line.ending {
			t.Errorf("the last commands of %s are not\n%s", line.section, line.ending)
		}
	}
}
