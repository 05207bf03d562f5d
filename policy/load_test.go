package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// environ is an environment of names and values in turn.
func environ(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// load reads a text that must be right.
func load(t *testing.T, text string, env ...string) *Policy {
	t.Helper()
	p, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text), Lookup: environ(env...)})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// refuse reads a text that must be wrong, and wants every one of the words in
// the faults.
func refuse(t *testing.T, text string, words ...string) Faults {
	t.Helper()
	p, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text)})
	var faults Faults
	if !errors.As(err, &faults) || p != nil || len(faults) == 0 {
		t.Fatalf("%q loaded: %v", short(text), err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q: no %q in\n%v", short(text), word, err)
		}
	}
	return faults
}

func short(s string) string { return s[:min(len(s), 200)] }

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "\ufeff", "{}"} {
		p := load(t, text)
		if p.Listen != "127.0.0.1:3128" || p.Data != "none" || len(p.Defaults.Limits) != 1 || p.Defaults.Limits[0].Amount != 32 {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if _, err := loadSource(t, Source{}); err != nil {
		t.Error(err)
	}
}

func TestEveryFaultIsReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	faults := refuse(t, "sites:\n  - host: a.test\n    group: hots\nlisten: 3128\ntimeouts: {idle: 90}\nlgo: {}\n")
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	if len(lines) != 4 || lines[0] != 3 || lines[1] != 4 || lines[2] != 5 || lines[3] != 6 {
		t.Errorf("lines %v of\n%v", lines, faults)
	}
	if got := faults[2].Error(); got != `abide.yaml:5: timeouts.idle: "90" needs a unit, such as 90s or 90m` {
		t.Error(got)
	}
}

func TestAFileThatIsNoConfigurationHasABoundedReport(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		b.WriteString("key" + strings.Repeat("x", i%40) + string(rune('a'+i%26)) + strings.Repeat("y", i/26%50) + ": 1\n")
	}
	start := time.Now()
	faults := refuse(t, b.String(), "more faults")
	if len(faults) > mostFaults+1 || time.Since(start) > time.Minute {
		t.Errorf("%d faults in %s", len(faults), time.Since(start))
	}
}

func TestAFlagBeatsTheEnvironmentWhichBeatsTheFile(t *testing.T) {
	src := Source{
		Data:    []byte("listen: 127.0.0.1:1\nadmin: 127.0.0.1:2\nlog: {level: warn}\n"),
		Environ: []string{"ABIDE_LISTEN=127.0.0.1:11", "ABIDE_ADMIN=127.0.0.1:12", "ABIDE_EGRESS_PORTS=80, 8080", "ABIDE_EGRESS_RESOLVE=A.test:443=127.0.0.1:9443,b.test:80=[::1]:1"},
		Flags:   map[string]string{"listen": "127.0.0.1:21"},
	}
	p, err := loadSource(t, src)
	if err != nil {
		t.Fatal(err)
	}
	if p.Listen != "127.0.0.1:21" || p.Admin.Listen != "127.0.0.1:12" || p.Log.Level != "warn" {
		t.Errorf("%+v", p)
	}
	if len(p.Egress.Ports.List) != 2 || p.Egress.Resolve["a.test:443"] != "127.0.0.1:9443" || p.Egress.Resolve["b.test:80"] != "[::1]:1" {
		t.Errorf("%+v", p.Egress)
	}
	src.Flags = map[string]string{"admin": "off"}
	if p, err = loadSource(t, src); err != nil || p.Admin.Listen != "" {
		t.Errorf("%v, %v", p, err)
	}
}

func TestEveryKeyHasAVariableAndTakesItsOwnDefault(t *testing.T) {
	for _, key := range Keys() {
		if key.Doc == "" || key.Kind == "" || key.Env != "ABIDE_"+strings.ToUpper(strings.ReplaceAll(key.Name, ".", "_")) {
			t.Errorf("%+v", key)
		}
		if key.Default == "" || key.Name == "shard.of" {
			continue
		}
		_, err := loadSource(t, Source{Environ: []string{"HOME=/home/somebody", key.Env + "=" + key.Default, "ABIDE_SHARD_INDEX=0", "ABIDE_SHARD_OF=1"}})
		if err != nil {
			t.Errorf("%s=%s: %v", key.Env, key.Default, err)
		}
	}
}

func TestAVariableThatNothingReadsIsRefused(t *testing.T) {
	for _, one := range []struct{ name, hint string }{
		{"ABIDE_LISTN", `did you mean "ABIDE_LISTEN"`},
		{"ABIDE_LOGLEVEL", `did you mean "ABIDE_LOG_LEVEL"`},
		{"ABIDE_WHATEVER_THIS_IS", "does not know"},
	} {
		_, err := loadSource(t, Source{Environ: []string{one.name + "=canary"}})
		if err == nil || !strings.Contains(err.Error(), one.hint) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	// What the command reads, what the file refers to, and what Kubernetes adds
	// beside a service called abide.
	_, err := loadSource(t, Source{
		Data: []byte("access: {clients: [{name: a, secret: ${ABIDE_MINE}}]}"),
		Environ: []string{
			"ABIDE_CONFIG=x.yaml", "ABIDE_MINE=s", "ABIDE_SERVICE_HOST=10.0.0.1", "ABIDE_SERVICE_PORT_HTTP=1", "ABIDE_PORT=tcp://10.0.0.1:1",
			"ABIDE_PORT_3128_TCP=tcp://10.0.0.1:1", "ABIDE_PORT_3128_TCP_ADDR=10.0.0.1", "ABIDE_ADMIN_PORT=tcp://10.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1",
		},
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := loadSource(t, Source{Environ: []string{"ABIDE_ADMIN=off", "ABIDE_ADMIN_LISTEN=127.0.0.1:1"}}); err == nil {
		t.Error("two variables that disagree were taken")
	}
	if _, err := loadSource(t, Source{Flags: map[string]string{"listne": "x"}}); err == nil || !strings.Contains(err.Error(), `did you mean "listen"`) {
		t.Error(err)
	}
}

// The proxy's own HTTP_PROXY and the like mean nothing to it.
func TestOwnEnvironmentIsIgnored(t *testing.T) {
	p := load(t, "", "HTTP_PROXY", "http://127.0.0.1:1", "HTTPS_PROXY", "http://127.0.0.1:1", "ALL_PROXY", "http://127.0.0.1:1")
	if p.Egress.Proxy != nil {
		t.Error(p.Egress.Proxy)
	}
}

func TestPathsStartAtHomeOrAtTheFile(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	file := filepath.Join(dir, "abide.yaml")
	if err := os.WriteFile(file, []byte("data: ~/state\negress: {roots: ca/../roots.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := loadSource(t, Source{Path: file, Environ: []string{"HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Data != filepath.Join(home, "state") || p.Egress.Roots != filepath.Join(dir, "roots.pem") || p.File != file {
		t.Errorf("%q, %q, %q", p.Data, p.Egress.Roots, p.File)
	}
	if p := load(t, "data: none"); p.Data != "none" {
		t.Error(p.Data)
	}
	refuse(t, "data: ~/x", "$HOME")
	refuse(t, "data: ~other/x", "another user")
	refuse(t, "data: ${HOME}/x", "in secrets only")
	_, err = loadSource(t, Source{Path: filepath.Join(dir, "none.yaml")})
	if err == nil || !strings.Contains(err.Error(), "none.yaml: cannot be read") {
		t.Error(err)
	}
	if _, err := loadSource(t, Source{Path: dir}); err == nil {
		t.Error("a directory was read")
	}
}
