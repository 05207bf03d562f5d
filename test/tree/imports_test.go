package tree

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/abide-proxy/abide/"

// room is a top-level folder and the other ones that it may import.
type room struct {
	name string
	may  []string
}

// rooms lists, for each top-level folder, the other ones whose packages it may import. Rooms that
// stand further down never import those further up. A new entry is a new direction of imports.
var rooms = []room{
	{"cmd", []string{"admin", "jobs", "proxy", "sites", "store", "tokens", "policy", "limit", "metrics", "status", "internal"}},
	{"admin", []string{"proxy", "store", "policy", "limit", "metrics", "status", "internal"}},
	{"jobs", []string{"proxy", "policy", "status", "internal"}},
	{"proxy", []string{"sites", "store", "tokens", "policy", "limit", "metrics", "status", "internal"}},
	{"sites", []string{"store", "policy", "limit", "status", "internal"}},
	{"store", []string{"policy", "limit", "status", "internal"}},
	{"tokens", []string{"policy", "status", "internal"}},
	{"policy", []string{"limit", "internal"}},
	{"limit", []string{"status", "internal"}},
	{"metrics", []string{"status"}},
	{"status", nil},
	{"internal", nil},
	{"test", nil},
}

// inside lists packages of which the room's own packages may be imported only as written here.
var inside = map[string][]string{
	"limit":                   {},
	"limit/learn":             {"limit"},
	"limit/forecast":          {"limit"},
	"limit/queue":             {"limit"},
	"sites/ledger":            {},
	"sites/routes":            {"sites/ledger"},
	"store":                   {},
	"store/budget/lease":      {"store"},
	"proxy/upstream":          {},
	"proxy/dispatch/plans":    {"proxy/dispatch/backends", "proxy/bandwidth"},
	"proxy/dispatch/backends": {"proxy/upstream"},
	"proxy/dispatch/robots":   {},
	"proxy/dispatch/coalesce": {},
	"proxy/ca":                {},
	"jobs/paginate":           {"jobs/records"},
	"jobs/send":               {},
	"admin/page":              {"admin/chart", "admin/history"},
	"admin/top":               {},
	"admin/chart":             {},
}

// only lists who may import a package of others, tests included.
var only = map[string][]string{
	"github.com/elazarl/goproxy":                              {"proxy"},
	"github.com/spf13/cobra":                                  {"cmd/abide"},
	"gopkg.in/yaml.v3":                                        {"policy", "policy/jobfile", "test/tree", "test/deploy"},
	"github.com/prometheus/client_golang/prometheus":          {"metrics"},
	"github.com/rogpeppe/go-internal/testscript":              {"cmd/abide"},
	"github.com/sirupsen/logrus":                              {"cmd/abide", "admin", "admin/history", "admin/plan", "jobs/send", "proxy", "proxy/accesslog", "proxy/sitelog", "proxy/dispatch", "proxy/dispatch/dispatchtest", "proxy/dispatch/permits", "proxy/dispatch/robots", "sites/broadcast", "store/budget", "store/budget/membership", "store/budget/overrides", "store/budget/storehealth", "internal/background", "test/clients", "test/chaos"},
	"golang.org/x/oauth2":                                     {"tokens"},
	"github.com/anishathalye/porcupine":                       {"test/history"},
	"github.com/redis/go-redis/v9":                            {"store", "store/redistest"},
	"modernc.org/sqlite":                                      {"store", "cmd/abide", "jobs/output", "internal/sqlite"}, // the tests of cmd/abide look into the file
	"github.com/jackc/pgx/v5":                                 {"jobs/output"},
	"github.com/parquet-go/parquet-go":                        {"jobs/export"},
	"github.com/santhosh-tekuri/jsonschema/v6":                {"policy", "admin"}, // for tests
	"github.com/rivo/tview":                                   {"admin/top"},
	"github.com/gdamore/tcell/v2":                             {"admin/top"},
	"github.com/rivo/uniseg":                                  {"admin/top"},
	"net/http/httputil":                                       {},
	"net/http/pprof":                                          {},
	"github.com/prometheus/client_golang/prometheus/promauto": {}, // registers from init
}

// pure lists packages that decide and do no I/O of their own, with what they may use all the same.
var pure = map[string][]string{
	"limit": {}, "limit/learn": {"sync"}, "limit/queue": {"sync", "os"}, "limit/forecast": {},
	"sites": {"sync"}, "sites/ledger": {}, "sites/routes": {},
	"store/budget/lease": {}, "admin/page": {}, "internal/redact": {"sync"},
	"policy": {"sync", "os", "net"}, "store": {"sync", "os", "net"},
}

// effects are packages by which code reaches out of itself.
var effects = []string{"net", "net/http", "os", "sync", "github.com/sirupsen/logrus", "github.com/elazarl/goproxy"}

func TestImportsRunOneWay(t *testing.T) {
	known := map[string]int{} // room → its place from above
	for i, r := range rooms {
		known[r.name] = i
		for _, below := range r.may {
			if !slices.ContainsFunc(rooms[i+1:], func(other room) bool { return other.name == below }) {
				t.Errorf("%s may import %s, which does not stand further down", r.name, below)
			}
		}
	}
	packages := imports(t, false)
	for name, list := range packages {
		folder, _, _ := strings.Cut(name, "/")
		place, ok := known[folder]
		if !ok {
			t.Errorf("%s is in no room of imports_test.go", name)
			continue
		}
		for _, path := range list {
			ours, ok := strings.CutPrefix(path, module)
			if !ok {
				if may, decides := pure[name]; decides && slices.Contains(effects, path) && !slices.Contains(may, path) {
					t.Errorf("%s imports %s", name, path)
				}
				continue
			}
			other, _, _ := strings.Cut(ours, "/")
			if other != folder && !slices.Contains(rooms[place].may, other) {
				t.Errorf("%s imports %s", name, ours)
			}
			if may, written := inside[name]; written && other == folder && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s", name, ours)
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(inside)), slices.Collect(maps.Keys(pure))) {
		if packages[name] == nil {
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
	list.Dir, list.Stderr = root, t.Output()
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
