package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this test binary the program too: a command "abide" in a script
// or in exec.Command is what main runs.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, commands)
}

// commands are the programs that tests find in their PATH.
var commands = map[string]func(){"abide": main, "fetch": fetchAll}

// quickRace has a program with the race detector end at once, where it waits for a second otherwise.
const quickRace = "GORACE=atexit_sleep_ms=0"

// environ is the environment of a program whose home is a directory.
func environ(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"), quickRace}
}

// leakless fails a run that leaves goroutines behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("ROOT", root(t))
			name, value, _ := strings.Cut(quickRace, "=")
			env.Setenv(name, value)
			origin := scriptOrigin(env.Defer)
			env.Setenv("ABIDE_EGRESS_RESOLVE", "api.test:80="+origin+",b.test:80="+origin)
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": exits},
	})
}

// exits is the script command "status N COMMAND…": the command must end with the status N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARGUMENT...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		var ended interface{ ExitCode() int }
		if !errors.As(err, &ended) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = fmt.Sprint(ended.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, want %s", args[1], got, args[0])
	}
}

// fetchAll is the command "fetch URL…": a program that uses the proxy of the environment
// for one request after the other, and ends with 1 if there is no answer.
func fetchAll() {
	for _, at := range os.Args[1:] {
		answer, err := http.Get(at)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
}

// scriptOrigin is the site http://api.test/ of a script: it answers each path that ends
// with refused-once with 429 at first, unpaid with 402, silent with the beginning of an answer, and everything
// else with 200.
func scriptOrigin(end func(func())) (address string) {
	var refused sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := refused.LoadOrStore(r.URL.Path, true); !again && strings.HasSuffix(r.URL.Path, "refused-once") {
			w.Header().Set("Retry-After", "3") // a summary names holds of a second or more
			w.WriteHeader(http.StatusTooManyRequests)
		}
		if strings.HasSuffix(r.URL.Path, "unpaid") {
			w.WriteHeader(http.StatusPaymentRequired)
		}
		if strings.HasSuffix(r.URL.Path, "silent") {
			fmt.Fprintln(w, "data: 1")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	end(s.Close)
	return s.Listener.Addr().String()
}

// root is the directory of the repository.
func root(t *testing.T) string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
