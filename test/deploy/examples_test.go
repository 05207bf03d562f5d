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

func TestTheCrawlerOfThePodIsGivenTheBundleAndNotTheKey(t *testing.T) {
	all := pod(t)
	crawler, trust, abide := all["crawler"], all["trust"], all["abide"]
	if len(crawler.Mounts) != 1 || crawler.Mounts[0].Name != "trust" || !crawler.Mounts[0].ReadOnly {
		t.Errorf("the crawler has %+v", crawler.Mounts)
	}
	if out := trust.Args[len(trust.Args)-1]; filepath.Dir(out) != crawler.Mounts[0].Path {
		t.Errorf("the bundle is written to %s", out)
	}
	var named, proxies int
	for _, one := range crawler.Env {
		switch {
		case strings.HasSuffix(strings.ToLower(one.Name), "_proxy") && one.Value == "http://127.0.0.1:3129":
			proxies++
		case one.Value == trust.Args[len(trust.Args)-1]:
			named++
		}
	}
	if named < 4 || proxies != 4 {
		t.Errorf("%d variables name the bundle, %d the port that opens https", named, proxies)
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
