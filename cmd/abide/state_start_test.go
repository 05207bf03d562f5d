//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // to make files that abide did not
)

// stateOf is the state file of a daemon in dir.
func stateOf(dir string) string { return filepath.Join(dir, "data", stateFile) }

// stateConfig is a configuration with its data in dir, and one limit.
func stateConfig(t *testing.T, dir string, o *origin) {
	t.Helper()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
egress: {resolve: {"api.test:80": %q}}
sites: [{host: api.test, learn: false, limits: [{requests: 50, per: day, timezone: %s}]}]
`, strings.TrimPrefix(o.url, "http://"), midday()))
}

// usedDir is where an abide has served one request and was stopped.
func usedDir(t *testing.T) string {
	t.Helper()
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	d := serveIn(t, dir, nil)
	d.get("http://api.test/")
	d.signal(syscall.SIGTERM)
	d.status()
	return dir
}

// refusesToStart launches abide and answers what it said: it has to end with a status
// that is not 0.
func refusesToStart(t *testing.T, dir string, args ...string) string {
	t.Helper()
	d := launch(t, dir, nil, args...)
	if status := d.status(); status == 0 {
		t.Errorf("%v ended with 0", args)
	}
	return d.out.String() + d.log.String()
}

var serveArgs = []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}

func says(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, one := range wanted {
		if !strings.Contains(text, one) {
			t.Errorf("it does not say %q: %s", one, text)
		}
	}
}

// TestADirectoryThatCannotBeUsedIsSaid: a clear error, and what to do.
func TestADirectoryThatCannotBeUsedIsSaid(t *testing.T) {
	o := newOrigin(t)
	for name, one := range map[string]struct {
		make func(data string) error
		says []string
	}{
		"a file":            {func(data string) error { return os.WriteFile(data, nil, 0o600) }, []string{"data"}},
		"a link to nowhere": {func(data string) error { return os.Symlink("nowhere", data) }, []string{"data"}},
		"the file is a link": {func(data string) error {
			if err := os.MkdirAll(data, 0o700); err != nil {
				return err
			}
			return os.Symlink("elsewhere", filepath.Join(data, stateFile))
		}, []string{stateFile, "symbolic link to elsewhere"}},
		"a loop": {func(data string) error { return os.Symlink("data", data) }, []string{"data"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stateConfig(t, dir, o)
			if err := one.make(filepath.Join(dir, "data")); err != nil {
				t.Fatal(err)
			}
			text := refusesToStart(t, dir, serveArgs...)
			says(t, text, one.says...)
			if strings.Contains(text, "panic") || strings.Count(text, "\n") > 5 {
				t.Errorf("%s", text)
			}
		})
	}
}

// A directory that is somebody else's, and one that may only be read.
func TestADirectoryOfSomebodyElseIsSaid(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	data := filepath.Join(dir, "data")
	d := serveIn(t, dir, nil)
	d.signal(syscall.SIGTERM)
	d.status()
	program, err := exec.LookPath("abide")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, serveArgs...)
	cmd.Dir, cmd.Env = dir, environ(dir)
	if os.Geteuid() == 0 { // who may do everything is no test
		for at := program; at != "/"; at = filepath.Dir(at) {
			openTo(t, at)
		}
		for at := dir; at != "/"; at = filepath.Dir(at) {
			openTo(t, at)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if err := os.Chmod(data, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(data, 0o700)
	text, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("it starts")
	}
	says(t, string(text), data, "--data")
}

// openTo lets everybody pass.
func openTo(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o005 != 0o005 {
		err = os.Chmod(path, info.Mode().Perm()|0o055)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAFileOfANewerReleaseIsLeftAlone: it is refused, and not touched.
func TestAFileOfANewerReleaseIsLeftAlone(t *testing.T) {
	dir := usedDir(t)
	change(t, stateOf(dir), "PRAGMA user_version = 99; UPDATE meta SET value = 99 WHERE name = 'version'")
	before, err := os.ReadFile(stateOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{serveArgs, {"run", "--", "true"}} {
		says(t, refusesToStart(t, dir, args...), stateFile, "newer release", "version 99", "move the file away")
	}
	if after, err := os.ReadFile(stateOf(dir)); err != nil || string(after) != string(before) {
		t.Errorf("it was changed: %v", err)
	}
}

// A file that says of itself that it is older than the first release is none of ours.
// There was no other version before this one: how older files are brought up to date
// is looked at in the package store.
func TestAFileWithoutAVersionIsSetAside(t *testing.T) {
	dir := usedDir(t)
	change(t, stateOf(dir), "PRAGMA user_version = 0")
	before, err := os.ReadFile(stateOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	says(t, refusesToStart(t, dir, append(serveArgs, "--strict-state")...), stateFile, "it says version 0", "move it away")
	d := serveIn(t, dir, nil)
	if status, _ := d.get("http://api.test/"); status != 200 {
		t.Error(status)
	}
	bad, _ := filepath.Glob(stateOf(dir) + ".bad-*")
	if len(bad) != 1 {
		t.Fatal(bad)
	}
	if kept, err := os.ReadFile(bad[0]); err != nil || string(kept) != string(before) {
		t.Errorf("what was set aside is not what was there: %v", err)
	}
	says(t, d.log.String(), "it says version 0", filepath.Base(bad[0]))
}

// Fields that a release does not know are no reason to refuse a file of its version, and
// stay.
func TestUnknownFieldsAreLeftAlone(t *testing.T) {
	dir := usedDir(t)
	change(t, stateOf(dir), "INSERT INTO meta VALUES ('colour', 'red'); CREATE TABLE more (a); INSERT INTO documents (kind, key, at, until, value) VALUES ('unheard of', 'k', 0, 0, 'v')")
	d := serveIn(t, dir, nil, "--strict-state")
	if status, _ := d.get("http://api.test/"); status != 200 {
		t.Error(status)
	}
	if counted := 50 - left(t, d, "api.test"); counted != 2 {
		t.Errorf("%d requests are counted", counted)
	}
	d.signal(syscall.SIGTERM)
	d.status()
	change(t, stateOf(dir), "DROP TABLE more; UPDATE documents SET value = 'w' WHERE kind = 'unheard of'")
}

func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// A file that cannot be used is set aside and said, and the service goes on; with
// strict_state it is refused and left.
func TestAFileThatCannotBeUsedIsSetAside(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	const junk = "dear diary, this is no SQLite file"
	write(t, stateOf(dir), junk)
	says(t, refusesToStart(t, dir, append(serveArgs, "--strict-state")...), stateFile, "it cannot be used", "move it away")
	if text, err := os.ReadFile(stateOf(dir)); err != nil || string(text) != junk {
		t.Errorf("%q, %v", text, err)
	}
	d := serveIn(t, dir, nil)
	if status, _ := d.get("http://api.test/"); status != 200 {
		t.Error(status)
	}
	bad, _ := filepath.Glob(stateOf(dir) + ".bad-*")
	if len(bad) != 1 {
		t.Fatal(bad)
	}
	if text, err := os.ReadFile(bad[0]); err != nil || string(text) != junk {
		t.Errorf("%q, %v", text, err)
	}
	says(t, d.log.String(), filepath.Base(bad[0]), "what it kept is forgotten")
}

// A process that finds the data directory locked by another program says so, and ends.
func TestWhoFindsALockedDirectorySaysSo(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{serveArgs, {"run", "--", "touch", "ran"}} {
		says(t, refusesToStart(t, dir, args...), "the data directory is in use", data, "--data none")
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command was run")
	}
	held.Close()
	serveIn(t, dir, nil)
}

// TestSignalsAtAnyMomentNeitherHangNorCrash: SIGHUP while it starts and stops,
// SIGTERM twice, SIGPIPE.
func TestSignalsAtAnyMomentNeitherHangNorCrash(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	for round := range 6 {
		d := launch(t, dir, nil, serveArgs...)
		if round%2 == 0 { // while it starts; before it listens for signals they are the system's
			d.out.await(t, `proxy +http://(\S+)`)
		}
		if round%2 == 1 {
			d.proxy = d.out.await(t, `proxy +http://(\S+)`)[1]
			d.get("http://api.test/")
		}
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
			if d.cmd.Process.Signal(sig) != nil {
				break // it has ended
			}
		}
		if round >= 4 {
			_ = d.cmd.Process.Signal(syscall.SIGTERM)
		}
		status := d.status()
		if status != 0 && (round < 4 || status != 128+int(syscall.SIGTERM)) {
			t.Errorf("round %d: it ended with %d", round, status)
		}
		if strings.Contains(d.log.String(), "panic") || strings.Contains(d.log.String(), "goroutine ") {
			t.Errorf("round %d: %s", round, d.log)
		}
	}
}
