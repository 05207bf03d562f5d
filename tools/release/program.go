package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// target is a system and architecture, as Go names them.
type target struct{ system, arch string }

// program is the binary of a target.
type program struct {
	target
	binary   []byte
	info     *buildinfo.BuildInfo
	licences []licence // of everything that is linked into it
}

// licence is the licence of a module, or of Go itself.
type licence struct {
	module string // path and version
	texts  []string
}

// build compiles abide for a target. The environment of whoever builds has no
// influence: only where Go keeps its files is taken from it.
func (r *release) build(t target, path string) (*program, error) {
	_, err := r.command(t, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", path, "./cmd/abide")
	if err != nil {
		return nil, err
	}
	p := &program{target: t}
	if p.binary, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if p.info, err = buildinfo.Read(bytes.NewReader(p.binary)); err != nil {
		return nil, err
	}
	p.licences, err = r.licences(p)
	return p, err
}

// command runs go for a target and returns what it prints.
func (r *release) command(t target, args ...string) ([]byte, error) {
	run := exec.Command("go", args...)
	run.Dir = r.source
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO") ||
			slices.Contains([]string{"GOTOOLCHAIN", "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOMODCACHE", "GOCACHE", "GOPATH", "GOROOT", "GOENV"}, name) {
			run.Env = append(run.Env, variable)
		}
	}
	run.Env = append(run.Env, "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off",
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
	var said bytes.Buffer
	run.Stderr = &said
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &said)
	}
	return out, nil
}

// licenceName matches the files of a module that have to go with its binary form.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licences reads those of Go and of every module in the program.
func (r *release) licences(p *program) ([]licence, error) {
	root, err := r.command(p.target, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	texts, err := licenceTexts(strings.TrimSpace(string(root)))
	if err != nil {
		return nil, err
	}
	all := []licence{{"The Go programming language " + p.info.GoVersion, texts}}
	for _, module := range p.info.Deps {
		out, err := r.command(p.target, "list", "-m", "-json", module.Path)
		if err != nil {
			return nil, err
		}
		var found struct{ Dir string }
		if err := json.Unmarshal(out, &found); err != nil || found.Dir == "" {
			return nil, fmt.Errorf("%s is in the program and not in the module cache (%v)", module.Path, err)
		}
		if texts, err = licenceTexts(found.Dir); err != nil {
			return nil, err
		}
		all = append(all, licence{module.Path + " " + module.Version, texts})
	}
	return all, nil
}

// licenceTexts reads the licences in a directory, of which there is at least one.
func licenceTexts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceName.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("there is no licence in %s", dir)
	}
	return texts, nil
}

// documents are the files beside the binary in an archive, and in a package's
// /usr/share/doc/abide.
func (r *release) documents(p *program) ([]file, error) {
	var files []file
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md", "config.example.yaml", "docs"} {
		found, err := filesIn(r.source, name)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return append(files, file{name: "THIRD_PARTY_LICENSES", mode: 0o644, content: thirdParty(p.licences)}), nil
}

// filesIn reads a file, or all files of a directory. Their names are relative to root.
func filesIn(root, name string) (files []file, err error) {
	err = fs.WalkDir(os.DirFS(root), name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		files = append(files, file{name: path, mode: 0o644, content: content})
		return err
	})
	return files, err
}

// manPages writes the man pages of all commands into a directory and returns them.
func (r *release) manPages(dir string) ([]file, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	here := target{system: runtime.GOOS, arch: runtime.GOARCH}
	if _, err := r.command(here, "run", "-tags", "man", "-trimpath", "-buildvcs=false", "./cmd/abide", dir); err != nil {
		return nil, err
	}
	return filesIn(dir, ".")
}

// thirdParty is the licences in one text.
func thirdParty(all []licence) []byte {
	var text bytes.Buffer
	text.WriteString("abide contains the following, each under the licence below it.\n")
	line := strings.Repeat("=", 80)
	for _, one := range all {
		fmt.Fprintf(&text, "\n%[1]s\n%s\n%[1]s\n\n%[3]s\n", line, one.module, strings.Join(one.texts, "\n\n"))
	}
	return text.Bytes()
}

// bill lists the modules that are linked into a program, from what the linker
// recorded in it. It has no serial number and no time, which would differ between two builds.
func bill(p *program, version string) ([]byte, error) {
	abide := componentOf(cyclonedx.ComponentTypeApplication, p.info.Main.Path, version, "")
	abide.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	var properties []cyclonedx.Property
	for _, setting := range p.info.Settings {
		if strings.HasPrefix(setting.Key, "GO") || strings.HasPrefix(setting.Key, "CGO") {
			properties = append(properties, cyclonedx.Property{Name: "go:" + setting.Key, Value: setting.Value})
		}
	}
	abide.Properties = &properties
	std := componentOf(cyclonedx.ComponentTypeLibrary, "stdlib", strings.TrimPrefix(p.info.GoVersion, "go"), "")
	std.Name = "std"
	libraries, on := []cyclonedx.Component{std}, []string{std.BOMRef}
	for _, module := range p.info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		library := componentOf(cyclonedx.ComponentTypeLibrary, module.Path, module.Version, module.Sum)
		libraries, on = append(libraries, library), append(on, library.BOMRef)
	}
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{Component: &abide}
	document.Components, document.Dependencies = &libraries, &[]cyclonedx.Dependency{{Ref: abide.BOMRef, Dependencies: &on}}
	var text bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(document, cyclonedx.SpecVersion1_5)
	return text.Bytes(), err
}

// componentOf describes a module, with the hash that go.sum has.
func componentOf(kind cyclonedx.ComponentType, path, version, sum string) cyclonedx.Component {
	c := cyclonedx.Component{Type: kind, Name: path, Version: version, PackageURL: "pkg:golang/" + path + "@" + version}
	c.BOMRef = c.PackageURL
	// h1: is the base64 of a SHA-256 over the module's files.
	if text, ok := strings.CutPrefix(sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
	}
	return c
}
