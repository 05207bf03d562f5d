package tree

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/policy"
)

func TestTheBinaryOfTheImageIsStatic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abide")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v1.2.3", "-o", path, "./cmd/abide")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, one := range binary.Progs {
		if one.Type == elf.PT_INTERP || one.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a %v, so it needs files that the image does not have", one.Type)
		}
	}
	if libraries, err := binary.ImportedLibraries(); err == nil && len(libraries) > 0 {
		t.Errorf("it needs %v", libraries)
	}
	// Where anything calls a method by a name that is not constant, as text/template does, the linker keeps every exported
	// method of the program, which is a fifth of it. The linker names such calls with -ldflags=-dumpdep.
	if info, err := os.Stat(path); err != nil || runtime.GOARCH == "amd64" && info.Size() > 40e6 {
		t.Errorf("it has %d bytes, more than 40 MB: %v", info.Size(), err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	// As in the image: nothing of this machine's environment.
	version := exec.Command(path, "version")
	version.Env = []string{"HOME=/nowhere"}
	if out, err := version.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "abide v1.2.3 ") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheImageStartsWithWhatItSets(t *testing.T) {
	dockerfile := string(read(t, "Dockerfile"))
	env := dockerEnv(t, dockerfile)
	p, err := policy.Load(policy.Source{Data: []byte{}, Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	if p.Listen != "0.0.0.0:3128" || p.Admin.Listen != "127.0.0.1:9128" || p.Data != "/data" {
		t.Errorf("it listens on %s, admin on %s, data in %s", p.Listen, p.Admin.Listen, p.Data)
	}
	for _, must := range []string{
		"FROM golang:1.26.11 AS build", "CGO_ENABLED=0", "FROM scratch", "USER 65532:65532", "VOLUME /data",
		"--chown=65532:65532 /out/data /data", "ca-certificates.crt /etc/ssl/certs/", `CMD ["/abide", "healthcheck"]`,
	} {
		if !strings.Contains(dockerfile, must) {
			t.Errorf("the Dockerfile does not have %q", must)
		}
	}
	if !strings.Contains(string(read(t, "go.mod")), "toolchain go1.26.11") {
		t.Error("go.mod and the Dockerfile differ in the toolchain")
	}
}

// dockerEnv are the ENV lines of the last stage.
func dockerEnv(t *testing.T, dockerfile string) []string {
	t.Helper()
	stage := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
	stage = strings.ReplaceAll(stage, "\\\n", " ")
	var env []string
	for _, line := range strings.Split(stage, "\n") {
		if rest, ok := strings.CutPrefix(line, "ENV "); ok {
			env = append(env, strings.Fields(rest)...)
		}
	}
	if len(env) == 0 {
		t.Fatal("the Dockerfile sets nothing")
	}
	return env
}

func TestWhatIsWrittenAboutNamesSettingsThatExist(t *testing.T) {
	known := map[string]bool{
		"ABIDE_CONFIG": true, "ABIDE_CONFIG_YAML": true, "ABIDE_ADMIN": true, "ABIDE_ADMIN_TOKEN_FILE": true,
		"ABIDE_PORT": true, "ABIDE_SERVICE_HOST": true, // Kubernetes sets them
	}
	for _, one := range policy.Keys() {
		known[one.Env] = true
	}
	for _, file := range slices.Concat(tree(t, ".md"), tree(t, ".yaml"), []string{"Dockerfile"}) {
		for _, name := range regexp.MustCompile(`\bABIDE_[A-Z_]+`).FindAllString(string(read(t, file)), -1) {
			if !known[name] {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
}

func TestTheDeploymentsCanBeRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("deploy has %v, %v", files, err)
	}
	for _, file := range files {
		if len(documents(t, file, read(t, file))) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
}

func TestTheSidecarStartsWithItsImageAndConfigMap(t *testing.T) {
	const file = "deploy/kubernetes-sidecar.yaml"
	var config string
	env := dockerEnv(t, string(read(t, "Dockerfile")))
	for _, one := range documents(t, file, read(t, file)) {
		if text, ok := at(one, "data", "abide.yaml").(string); ok {
			config = text
		}
		// Each start would open the CA's key to the group, and abide would refuse the key.
		if security := at(one, "spec", "template", "spec", "securityContext"); security != nil && at(security, "fsGroupChangePolicy") != "OnRootMismatch" {
			t.Errorf("%s: %v", file, security)
		}
		sidecars, _ := at(one, "spec", "template", "spec", "initContainers").([]any)
		for _, sidecar := range sidecars {
			set, _ := at(sidecar, "env").([]any)
			for _, variable := range set {
				name, _ := at(variable, "name").(string)
				value, _ := at(variable, "value").(string)
				if at(variable, "valueFrom", "secretKeyRef") != nil {
					value = "of-the-secret"
				}
				// The pod's beats the image's.
				env = append([]string{name + "=" + value}, env...)
			}
		}
	}
	p, err := policy.Load(policy.Source{Path: file, Data: []byte(config), Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	if p.Listen != "127.0.0.1:3128" || p.Admin.Listen != "0.0.0.0:9128" || p.Admin.Token.Empty() || p.Data != "/data" {
		t.Errorf("it listens on %s, admin on %s, data in %s", p.Listen, p.Admin.Listen, p.Data)
	}
}

// documents are those of a file of several.
func documents(t *testing.T, file string, text []byte) []any {
	t.Helper()
	var all []any
	for from := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document any
		err := from.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, document)
	}
}

// at is what a document has under a path of keys, nil for nothing.
func at(document any, path ...string) any {
	for _, key := range path {
		fields, ok := document.(map[string]any)
		if !ok {
			return nil
		}
		document = fields[key]
	}
	return document
}
