package abide_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/abide-proxy/abide/"

// allowed is which packages of ours each one may import. A package that is not
// here is a new direction of import, which somebody has to decide on.
var allowed = map[string][]string{
	"cmd/abide": {"proxy", "admin", "policy", "ca", "metrics", "learn", "tokens", "shard", "store"},
	"proxy":     {"policy", "upstream", "ca", "metrics", "queue", "limit", "learn", "ledger", "tokens", "shard", "lease", "store", "redact", "throttle"},
	"lease":     {"limit", "store"},
	"store":     {},
	"shard":     {"policy"},

	"lease/fleet":     {"lease", "limit", "store"},
	"store/redistest": {},
	"bench/fleet":     {"bench/process", "lease", "lease/fleet", "limit", "store", "store/redistest"},
	"queue":           {"limit"},
	"ledger":          {"learn", "limit"},
	"learn":           {"limit"},
	"limit":           {},
	"admin":           {"policy", "ca", "metrics", "throttle"},
	"throttle":        {},
	"upstream":        {},
	"policy":          {"learn"},
	"tokens":          {"policy", "redact"},
	"redact":          {},
	"ca":              {},
	"metrics":         {},
	"bench":           {"bench/process"},
	"bench/process":   {},
	"bench/hosts":     {"bench/process"},
	"clients":         {},
	"deploy":          {}, // runs what the examples say
	"release":         {},
}

// only is who may import what, tests included.
var only = map[string][]string{
	"github.com/elazarl/goproxy":                              {"proxy", "bench"},
	"github.com/spf13/cobra":                                  {"cmd/abide"},
	"github.com/fsnotify/fsnotify":                            {"cmd/abide"},
	"gopkg.in/yaml.v3":                                        {"policy", ".", "deploy"},
	"github.com/prometheus/client_golang/prometheus":          {"metrics"},
	"github.com/rogpeppe/go-internal/testscript":              {"cmd/abide"},
	"github.com/sirupsen/logrus":                              {"cmd/abide", "proxy", "admin", "clients"},
	"golang.org/x/oauth2":                                     {"tokens"},
	"github.com/redis/go-redis/v9":                            {"store", "store/redistest", "bench/fleet"},
	"modernc.org/sqlite":                                      {"store", "cmd/abide"}, // whose tests look into the file
	"github.com/summerwind/h2spec":                            {},
	"github.com/abide-proxy/abide/tools":                      {},
	"net/http/httputil":                                       {},
	"net/http/pprof":                                          {},
	"github.com/prometheus/client_golang/prometheus/promauto": {}, // registers from init
}

// never is what a package may not import, directly or through others of ours:
// those that decide do no I/O of their own.
var never = map[string][]string{
	"policy": {"net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"queue":  {"net", "net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"learn":  {"net", "net/http", "os", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"ledger": {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"lease":  {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"store":  {"net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"redact": {"net", "net/http", "os", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"limit":  {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
}

func TestImportsRunOneWay(t *testing.T) {
	packages := imports(t, false)
	for name, list := range packages {
		if name == "." {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("%s is not among the packages of imports_test.go", name)
		}
		for _, one := range list {
			if ours, ok := strings.CutPrefix(one, module); ok && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s", name, ours)
			}
			if slices.Contains(never[name], one) {
				t.Errorf("%s imports %s", name, one)
			}
		}
	}
	for name := range allowed {
		if packages[name] == nil && name != "bench" && name != "clients" {
			t.Errorf("there is no package %s", name)
		}
	}
}

func TestWhatOnlySomePackagesImport(t *testing.T) {
	for name, list := range imports(t, true) {
		for _, one := range list {
			if may, kept := only[one]; kept && !slices.Contains(may, name) {
				t.Errorf("%s imports %s", name, one)
			}
		}
	}
}

// imports are the packages of this module, by path below it, and what each
// imports.
func imports(t *testing.T, tests bool) map[string][]string {
	t.Helper()
	format := `{{.ImportPath}}: {{join .Imports " "}}`
	if tests {
		format += ` {{join .TestImports " "}} {{join .XTestImports " "}}`
	}
	list := exec.Command("go", "list", "-f", format, "./...")
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, rest, _ := strings.Cut(line, ": ")
		name, ours := strings.CutPrefix(path, module)
		if !ours {
			name = "."
		}
		found[name] = append([]string{}, strings.Fields(rest)...)
	}
	return found
}
