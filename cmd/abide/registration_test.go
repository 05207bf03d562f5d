//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// registeredAt registers this process until the test ends.
func registeredAt(t *testing.T, data string, r registration) {
	t.Helper()
	r.PID, r.Started = os.Getpid(), time.Now()
	end, err := register(data, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
}

func TestARegistrationIsGoneWhenItIsRemoved(t *testing.T) {
	data := t.TempDir()
	end, err := register(data, registration{PID: os.Getpid(), Command: "serve", Admin: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(data, registrationDir, "*.json"))
	if len(files) != 1 {
		t.Fatalf("the files are %v", files)
	}
	registeredAt(t, data, registration{Command: "run scrapy", Admin: "127.0.0.1:2"})
	list := registrations(data)
	if len(list) != 2 || list[0].Command != "serve" || list[1].Admin != "127.0.0.1:2" {
		t.Errorf("registered are %+v", list)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info.Mode(), err)
	}
	end()
	if list := registrations(data); len(list) != 1 {
		t.Errorf("afterwards %+v", list)
	}
}

func TestWhatAProcessLeftBehindIsIgnoredAndRemoved(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, registrationDir)
	write(t, filepath.Join(dir, "1-left.json"), `{"pid": 1, "command": "serve", "admin": "127.0.0.1:9128"}`)
	write(t, filepath.Join(dir, "garbage.json"), `{"pid": `)
	write(t, filepath.Join(dir, "2-began"+unfinishedSuffix), "")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "2-began"+unfinishedSuffix), long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := registrations(data); len(list) != 0 {
		t.Errorf("registered are %+v", list)
	}
	for _, name := range []string{"1-left.json", "2-began" + unfinishedSuffix} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func TestNothingIsRegisteredWithoutADataDirectory(t *testing.T) {
	if list := registrations("none"); list != nil {
		t.Errorf("registered are %+v", list)
	}
	if list := registrations(filepath.Join(t.TempDir(), "not there")); list != nil {
		t.Errorf("registered are %+v", list)
	}
}

// admins are two admin listeners that are registered in a data directory.
func admins(t *testing.T, path, answer string) (config string) {
	t.Helper()
	data := t.TempDir()
	for _, command := range []string{"serve", "run scrapy\x1b[2J"} {
		address := console(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, path) {
				fmt.Fprint(w, "null")
				return
			}
			fmt.Fprint(w, answer)
		})
		registeredAt(t, data, registration{Command: command, Proxy: "127.0.0.1:3", Admin: address})
	}
	return "data: " + data + "\nadmin: 127.0.0.1:1\n"
}

func TestStatusListsAllThatRunAndShowsEach(t *testing.T) {
	config := admins(t, "/status", `{"version": "v9", "uptime_seconds": 1}`)
	code, out, errs := printedStatus(t, config)
	for _, want := range []string{"2 abides are running; --admin ADDRESS asks one of them\n", "\nrun scrapy [2J ", "\n\nabide serve, process ", "\n\nabide run scrapy [2J, process "} {
		if code != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("%d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
	code, out, errs = printedStatus(t, config, "--json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || errs != "" || len(lines) != 2 {
		t.Errorf("--json: %d\n%s%s", code, out, errs)
	}
	code, _, errs = printedStatus(t, config, "--admin", "127.0.0.1:1")
	if code != 1 || !strings.Contains(errs, "no proxy is running at 127.0.0.1:1") {
		t.Errorf("--admin chooses nothing: %d %s", code, errs)
	}
}

func TestExplainAsksAllThatRun(t *testing.T) {
	code, out, errs := explained(t, admins(t, "/explain", liveAnswer), "https://test/")
	if code != 0 || strings.Count(out, "3 requests wait, 2 in flight") != 2 || !strings.Contains(out, "\n\nabide serve, process ") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

// TestANamedDataDirectoryBeatsTheAdminAddress: the abide at that address may have another directory.
func TestANamedDataDirectoryBeatsTheAdminAddress(t *testing.T) {
	other := console(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"version": "v9", "uptime_seconds": 1, "rows": [], "advice": []}`)
	})
	config := filepath.Join(t.TempDir(), "abide.yaml")
	write(t, config, "admin: "+other+"\n")
	for _, command := range []string{"status", "report", "advise"} {
		var out, errs strings.Builder
		code := execute(t.Context(), []string{command, "--config", config, "--data", t.TempDir()}, strings.NewReader(""), &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), "no abide is registered in ") {
			t.Errorf("%s: %d\n%s%s", command, code, &out, &errs)
		}
	}
}
