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
	"cmd/abide": {"accesslog", "proxy", "dispatch", "history", "chart", "advice", "activity", "knowledge", "admin", "status", "plan", "policy", "ca", "metrics", "learn", "tokens", "samples", "shard", "store", "top", "jobs/backfill", "jobs/collect", "jobs/export", "jobs/output", "jobs/send", "jobs/units"},
	"accesslog": {"redact"},
	"activity":  {"queue", "signal", "status"},
	"forecast":  {"limit"},
	"chart":     {},
	"advice":    {"forecast", "history", "limit", "status", "store"},
	"history":   {"metrics", "queue", "store"},
	"plan":      {"clock", "dispatch", "metrics", "policy", "problem", "status"},
	"knowledge": {"learn", "ledger", "limit", "policy", "queue", "routes", "signal", "store"},
	"proxy":     {"accesslog", "dispatch", "dispatch/permits", "activity", "bandwidth", "ca", "knowledge", "metrics", "policy", "problem", "redact", "store", "throttle", "upstream"},
	"dispatch": {
		"dispatch/backends", "dispatch/background", "dispatch/coalesce", "dispatch/plans", "dispatch/robots",
		"activity", "bandwidth", "budget", "budget/broadcast", "budget/overrides", "clock", "forecast", "knowledge", "learn", "ledger", "limit",
		"metrics", "policy", "problem", "queue", "redact", "routes", "shard", "signal", "status", "store", "tokens", "upstream",
	},
	"budget/lease": {"limit", "store"},
	"store":        {},

	"jobs/output":   {"policy", "redact"},
	"jobs/units":    {"policy", "jobs/output"},
	"jobs/paginate": {"policy", "jobs/records"},
	"jobs/records":  {"policy", "jobs/output"},
	"jobs/export":   {"jobs/output"},
	"jobs/send":     {"dispatch", "policy", "problem", "redact", "upstream"},
	"jobs/backfill": {"policy", "jobs/output", "jobs/paginate", "jobs/records", "jobs/send", "jobs/units", "status"},
	"jobs/collect":  {"policy", "jobs/output", "jobs/records", "jobs/send", "jobs/units", "status"},

	"jobs/jobstest": {"policy"}, // for tests

	"shard": {"policy"},

	"budget/lease/fleet":  {"budget/lease", "limit", "store"},
	"store/redistest":     {},
	"jobs/output/pgtest":  {},
	"store/reference":     {"store"}, // for tests and simulations
	"bench/fleet":         {"bench/process", "budget/lease", "budget/lease/fleet", "limit", "store", "store/redistest", "store/reference"},
	"budget":              {"budget/membership", "budget/storehealth", "signal", "status", "policy", "queue", "budget/lease", "limit", "store"},
	"budget/broadcast":    {"budget", "queue", "ledger", "budget/lease", "limit", "store"},
	"budget/membership":   {"budget/storehealth", "status", "store"},
	"budget/overrides":    {"policy", "signal", "status", "store"},
	"budget/storehealth":  {"budget/lease", "status", "store"},
	"dispatch/backends":   {"policy", "status", "upstream"},
	"dispatch/background": {"redact"},
	"dispatch/plans":      {"dispatch/backends", "bandwidth", "budget", "knowledge", "learn", "ledger", "limit", "policy", "queue", "routes", "status", "tokens"},
	"dispatch/coalesce":   {},
	"dispatch/permits":    {"dispatch", "metrics", "policy", "problem", "status"},
	"dispatch/robots":     {"dispatch/background", "limit", "policy", "queue"},
	"bandwidth":           {"clock", "policy", "queue", "limit", "metrics"},
	"queue":               {"clock", "limit"},
	"clock":               {},
	"ledger":              {"learn", "limit"},
	"routes":              {"learn", "ledger"},
	"learn":               {"limit"},
	"limit":               {},
	"signal":              {},
	"status":              {},
	"admin":               {"admin/openapi", "page", "samples", "status", "policy", "ca", "metrics", "throttle"},
	"page":                {"samples", "status"},
	"samples":             {"metrics", "status"},
	"bench/screenshots":   {"bench/process"},
	"admin/openapi":       {},
	"throttle":            {},
	"top":                 {"status"},
	"upstream":            {},
	"policy":              {"learn", "limit"},
	"tokens":              {"policy", "redact"},
	"redact":              {},
	"ca":                  {},
	"metrics":             {"status"},
	"problem":             {"upstream"},
	"bench":               {"bench/process"},
	"bench/process":       {},
	"bench/hosts":         {"bench/process"},
	"bench/services":      {"clock", "dispatch", "metrics", "policy"},
	"clients":             {},
	"deploy":              {}, // runs what the examples say
	"release":             {},
}

// only is who may import what, tests included.
var only = map[string][]string{
	"github.com/elazarl/goproxy":                              {"proxy", "bench"},
	"github.com/spf13/cobra":                                  {"cmd/abide"},
	"github.com/fsnotify/fsnotify":                            {"cmd/abide"},
	"gopkg.in/yaml.v3":                                        {"policy", ".", "deploy"},
	"github.com/prometheus/client_golang/prometheus":          {"metrics"},
	"github.com/rogpeppe/go-internal/testscript":              {"cmd/abide"},
	"github.com/sirupsen/logrus":                              {"accesslog", "history", "cmd/abide", "activity", "dispatch", "dispatch/background", "dispatch/permits", "dispatch/robots", "jobs/send", "bench/services", "plan", "proxy", "budget", "budget/broadcast", "budget/membership", "budget/overrides", "budget/storehealth", "admin", "clients"},
	"golang.org/x/oauth2":                                     {"tokens"},
	"github.com/redis/go-redis/v9":                            {"store", "store/redistest", "bench/fleet"},
	"modernc.org/sqlite":                                      {"store", "cmd/abide", "jobs/output"}, // the tests of cmd/abide look into the file
	"github.com/jackc/pgx/v5":                                 {"jobs/output"},
	"github.com/parquet-go/parquet-go":                        {"jobs/export"},
	"github.com/santhosh-tekuri/jsonschema/v6":                {"policy", "admin"}, // for tests
	"github.com/rivo/tview":                                   {"top"},
	"github.com/gdamore/tcell/v2":                             {"top"},
	"github.com/rivo/uniseg":                                  {"top"},
	"github.com/chromedp/chromedp":                            {"admin"}, // for tests
	"github.com/summerwind/h2spec":                            {},
	"github.com/abide-proxy/abide/tools":                      {},
	"net/http/httputil":                                       {},
	"net/http/pprof":                                          {},
	"github.com/prometheus/client_golang/prometheus/promauto": {}, // registers from init
}

// never is what a package may not import, directly or through others of ours:
// those that decide do no I/O of their own.
var never = map[string][]string{
	"policy":       {"net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"queue":        {"net", "net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"learn":        {"net", "net/http", "os", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"ledger":       {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"routes":       {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"budget/lease": {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"store":        {"net/http", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"redact":       {"net", "net/http", "os", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"knowledge":    {"net", "net/http", "os", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"page":         {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
	"limit":        {"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"},
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
