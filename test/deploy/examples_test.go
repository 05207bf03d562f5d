//go:build linux

package deploy

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/proxy/ca"
)

// podContainer is what this test knows of a container of kubernetes-sidecar.yaml.
type podContainer struct {
	Name, Image   string
	Args, Command []string
	Env           []struct {
		Name, Value string
		From        struct {
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Mounts []struct {
		Name     string
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
	Security struct {
		ReadOnly bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Startup  probe `yaml:"startupProbe"`
	Liveness probe `yaml:"livenessProbe"`
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
}

// pod are the containers of the example, by name.
func pod(t *testing.T) map[string]podContainer {
	t.Helper()
	file, err := os.Open("../../deploy/kubernetes-sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := map[string]podContainer{}
	for documents := yaml.NewDecoder(file); ; {
		var document struct {
			Spec struct {
				Template struct {
					Spec struct {
						Init       []podContainer `yaml:"initContainers"`
						Containers []podContainer
					}
				}
			}
		}
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range slices.Concat(document.Spec.Template.Spec.Init, document.Spec.Template.Spec.Containers) {
			all[c.Name] = c
		}
	}
}

// configMap is the configuration of the example.
func configMap(t *testing.T) string {
	t.Helper()
	var first struct{ Data map[string]string }
	readYAML(t, "../../deploy/kubernetes-sidecar.yaml", &first)
	if first.Data["abide.yaml"] == "" {
		t.Fatal("the first document is no ConfigMap with abide.yaml")
	}
	return first.Data["abide.yaml"]
}

func TestTheExamplesNameCommandsAndFlagsThatExist(t *testing.T) {
	i := buildImage(t, "../..")
	understood := func(args []string) error {
		command := exec.Command(filepath.Join(i.root, i.start[0]), append(slices.Clone(args), "--help")...)
		command.Env = []string{"HOME=/nowhere"}
		help, err := command.Output()
		// Help for a command that there is not is that of abide itself.
		words := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
		if words < 0 {
			words = len(args)
		}
		if usage := "abide " + strings.Join(args[:words], " "); err == nil && !strings.Contains(string(help), usage) {
			err = errors.New("the help is not that of " + usage)
		}
		return err
	}
	if understood([]string{"ca", "export", "--no-such-flag"}) == nil || understood([]string{"no-such-command"}) == nil {
		t.Fatal("this test does not tell flags and commands that are wrong")
	}
	commands := [][]string{i.command, i.health[1:]}
	var compose composed
	readYAML(t, "../../deploy/compose.yaml", &compose)
	for _, s := range compose.Services {
		if s.Image == "abide" && len(s.Command) > 0 {
			commands = append(commands, s.Command)
		}
	}
	for _, c := range pod(t) {
		if c.Image == "abide" {
			commands = append(commands, c.Args)
		}
	}
	if len(commands) < 5 {
		t.Errorf("the examples have only %v", commands)
	}
	for _, args := range commands {
		if err := understood(args); err != nil {
			t.Errorf("abide %v: %v", args, err)
		}
	}
}

// The crawlers have the variables that abide run sets, but those of directories.
func TestTheCrawlersHaveTheVariablesOfAllLanguages(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "")
	var compose composed
	readYAML(t, "../../deploy/compose.yaml", &compose)
	inPod := map[string]string{}
	for _, one := range pod(t)["crawler"].Env {
		inPod[one.Name] = one.Value
	}
	for proxy, has := range map[string]map[string]string{
		"http://abide:3129":     compose.Services["crawler"].Environment,
		"http://127.0.0.1:3129": inPod,
	} {
		for _, one := range ca.Env(proxy, "/trust/bundle.pem", "/trust/bundle.pem") {
			name, want, _ := strings.Cut(one, "=")
			switch got := has[name]; {
			case name == "WGETRC", name == "PHP_INI_SCAN_DIR":
			case strings.EqualFold(name, "NO_PROXY") && strings.HasPrefix(got, want):
			case got != want:
				t.Errorf("with %s, %s is %q, not %q", proxy, name, got, want)
			}
		}
	}
}

// What was spent outlives a pod, Go ends below the memory that the container has, and the
// token of the cluster is not given to a crawler.
func TestTheExamplesKeepWhatWasSpentAndTheirMemory(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes-sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kind: PersistentVolumeClaim", "persistentVolumeClaim: {claimName: abide}", "automountServiceAccountToken: false",
		"limits: {memory: 1Gi}", "{name: GOMEMLIMIT, value: 800MiB}", "strategy: {type: Recreate}",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the pod has no %s", want)
		}
	}
	var compose struct {
		Services map[string]struct {
			Memory      string `yaml:"mem_limit"`
			Environment map[string]string
			Volumes     []string
		}
	}
	readYAML(t, "../../deploy/compose.yaml", &compose)
	if abide := compose.Services["abide"]; abide.Memory != "1g" || abide.Environment["GOMEMLIMIT"] != "800MiB" {
		t.Errorf("abide has %q of memory, with GOMEMLIMIT %q", abide.Memory, abide.Environment["GOMEMLIMIT"])
	}
	var prometheus struct {
		Rules []string `yaml:"rule_files"`
	}
	readYAML(t, "../../deploy/prometheus.yaml", &prometheus)
	for _, rules := range prometheus.Rules {
		if mount := "./" + rules + ":/etc/prometheus/" + rules + ":ro"; !slices.Contains(compose.Services["prometheus"].Volumes, mount) {
			t.Errorf("Prometheus reads %s, and Compose does not mount it", rules)
		}
	}
	if len(prometheus.Rules) == 0 {
		t.Error("prometheus.yaml names no alerts")
	}
}

func TestTheCrawlerOfThePodIsGivenTheBundleAndNotTheKey(t *testing.T) {
	all := pod(t)
	crawler, trust, abide := all["crawler"], all["trust"], all["abide"]
	if len(crawler.Mounts) != 1 || crawler.Mounts[0].Name != "trust" || !crawler.Mounts[0].ReadOnly {
		t.Errorf("the crawler has %+v", crawler.Mounts)
	}
	if out := trust.Args[len(trust.Args)-1]; filepath.Dir(out) != crawler.Mounts[0].Path {
		t.Errorf("the bundle is written to %s", out)
	}
	for name, c := range all {
		if !c.Security.ReadOnly {
			t.Errorf("the root of %s can be written", name)
		}
	}
	if abide.Startup.HTTP.Path != "/readyz" || abide.Liveness.HTTP.Path != "/healthz" || abide.Liveness.HTTP.Port != "admin" {
		t.Errorf("the probes are %+v, %+v", abide.Startup, abide.Liveness)
	}
}
