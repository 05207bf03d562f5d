package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"
)

// bom is a CycloneDX 1.5 document, as far as it is used here. It has no serial
// number and no time, which are optional and would differ between two builds.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Licences   []any      `json:"licenses,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// bill lists the modules that are linked into a program, from what the linker
// recorded in it.
func bill(p *program, version string) ([]byte, error) {
	abide := component{
		Type: "application", Name: p.info.Main.Path, Version: version,
		PURL:     "pkg:golang/" + p.info.Main.Path + "@" + version,
		Licences: []any{map[string]any{"license": map[string]string{"id": "Apache-2.0"}}},
	}
	abide.Ref = abide.PURL
	for _, setting := range p.info.Settings {
		if strings.HasPrefix(setting.Key, "GO") || strings.HasPrefix(setting.Key, "CGO") {
			abide.Properties = append(abide.Properties, property{Name: "go:" + setting.Key, Value: setting.Value})
		}
	}
	std := moduleComponent(&debug.Module{Path: "std", Version: strings.TrimPrefix(p.info.GoVersion, "go")})
	std.PURL = "pkg:golang/stdlib@" + std.Version
	std.Ref = std.PURL
	document := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{abide}, Components: []component{std}}
	on := []string{std.Ref}
	for _, module := range p.info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		library := moduleComponent(module)
		document.Components = append(document.Components, library)
		on = append(on, library.Ref)
	}
	document.Dependencies = []dependency{{Ref: abide.Ref, On: on}}
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}

func moduleComponent(module *debug.Module) component {
	library := component{Type: "library", Name: module.Path, Version: module.Version, PURL: "pkg:golang/" + module.Path + "@" + module.Version}
	library.Ref = library.PURL
	// h1: is the base64 of a SHA-256 over the module's files.
	if sum, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			library.Hashes = []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(raw)}}
		}
	}
	return library
}
