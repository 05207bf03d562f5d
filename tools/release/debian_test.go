package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTime bounds how long the installed program has for its first message.
const startTime = 2 * time.Minute

func TestThePackageSaysWhatItIsAndKeepsTheConfigurationOfTheOperator(t *testing.T) {
	path := debianPackage(t)
	for field, want := range map[string]string{
		"Package": "abide", "Version": "1.2.3", "Architecture": runtime.GOARCH, "Section": "net",
		"Depends": "ca-certificates, systemd | systemd-standalone-sysusers | systemd-sysusers",
	} {
		if got := strings.TrimSpace(tool(t, "dpkg-deb", "--field", path, field)); got != want {
			t.Errorf("%s is %q, not %q", field, got, want)
		}
	}
	if got := tool(t, "dpkg-deb", "--info", path, "conffiles"); got != "/etc/abide/abide.yaml\n" {
		t.Errorf("the configuration files are %q", got)
	}
	contents := tool(t, "dpkg-deb", "--contents", path)
	for _, want := range []string{
		`-rwxr-xr-x root/root +\d+ 2026-11-22 10:41 \./usr/bin/abide`,
		`-rw-r--r-- root/root +\d+ 2026-11-22 10:41 \./etc/abide/abide\.yaml`,
		`-rw-r--r-- root/root +\d+ 2026-11-22 10:41 \./usr/share/man/man1/abide\.1`,
		`-rw-r--r-- root/root +\d+ 2026-11-22 10:41 \./usr/share/man/man1/abide-ca-export\.1`,
		`-rw-r--r-- root/root +\d+ 2026-11-22 10:41 \./usr/lib/systemd/system/abide\.service`,
		`-rw-r--r-- root/root +\d+ 2026-11-22 10:41 \./usr/share/doc/abide/copyright`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(contents) {
			t.Errorf("the package has no %s:\n%s", want, contents)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text := tool(t, "dpkg-deb", "--info", path, script)
		check := exec.Command("sh", "-n")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		if regexp.MustCompile(`(systemctl|deb-systemd-invoke).*\b(enable|start|restart)\b`).MatchString(strings.ReplaceAll(withoutComments(text), "try-restart", "")) {
			t.Errorf("%s starts the service without being asked:\n%s", script, text)
		}
	}
}

func withoutComments(script string) string {
	return regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(script, "")
}

// TestTheInstalledServiceRuns installs the package below a directory, runs what its
// unit runs, with the configuration that it brings, and removes it.
func TestTheInstalledServiceRuns(t *testing.T) {
	root := t.TempDir()
	dpkg := func(args ...string) {
		t.Helper()
		asRoot(t, append([]string{"dpkg", "--root=" + root, "--force-script-chrootless", "--force-depends", "--log=" + filepath.Join(root, "log")}, args...)...)
	}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("--install", debianPackage(t))
	if users := read(t, root, "etc/passwd"); !strings.Contains(users, "abide:x:") || !strings.Contains(users, ":/var/lib/abide:") {
		t.Errorf("the package made no user: %q", users)
	}

	unit := read(t, root, "usr/lib/systemd/system/abide.service")
	copyTargets(t, root)
	tool(t, "systemd-analyze", "--root="+root, "--man=no", "verify", "abide.service")
	// 0 is what can do nothing, 10 what can do everything; 1.5 is "OK" and far from
	// the 9.6 of a unit without settings.
	tool(t, "systemd-analyze", "--root="+root, "--offline=yes", "--threshold=15", "security", "abide.service")

	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(root, "run/notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := os.MkdirAll(filepath.Join(root, "var/lib/abide"), 0o700); err != nil { // StateDirectory
		t.Fatal(err)
	}
	started := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	if started == nil {
		t.Fatalf("the unit starts nothing:\n%s", unit)
	}
	reloads := regexp.MustCompile(`(?m)^ExecReload=(.*)$`).FindAllStringSubmatch(unit, -1)
	if len(reloads) != 1 {
		t.Fatalf("the unit does not reload by one command, of which the status is that of the reload:\n%s", unit)
	}
	if !strings.Contains(unit, "\nLogsDirectory=abide\n") {
		t.Error("the access log of docs/operating.md cannot be written")
	}
	var log bytes.Buffer
	run := inside(root, strings.Fields(started[1])...)
	var environ []string
	for _, set := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(unit, -1) {
		environ = append(environ, set[1])
	}
	run.Env = append(run.Env, environ...)
	// Other ports than the usual ones, which another process of this machine may have.
	run.Env = append(run.Env, "NOTIFY_SOCKET=/run/notify", "ABIDE_LISTEN=127.0.0.1:0", "ABIDE_ADMIN=127.0.0.1:0")
	out := t.Output()
	run.Stdout, run.Stderr = out, io.MultiWriter(out, &log)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	defer run.Process.Kill()
	if err := socket.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		t.Fatal(err)
	}
	told := func() string {
		buffer := make([]byte, 4096)
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatalf("systemd was told nothing: %v", err)
		}
		return string(buffer[:n])
	}
	if message := told(); !strings.HasPrefix(message, "READY=1\n") {
		t.Errorf("systemd was told %q", message)
	}
	reload := func() (string, error) {
		command := inside(root, strings.Fields(reloads[0][1])...)
		command.Env = append(command.Env, environ...)
		said, err := command.CombinedOutput()
		if message := told(); !strings.HasPrefix(message, "RELOADING=1\n") {
			t.Errorf("systemd was told %q", message)
		}
		told() // READY=1
		return string(said), err
	}
	if said, err := reload(); err != nil {
		t.Fatalf("%s: %v\n%s", reloads[0][1], err, said)
	}
	config := filepath.Join(root, "etc/abide/abide.yaml")
	whole := read(t, root, "etc/abide/abide.yaml")
	if err := os.WriteFile(config, []byte(whole+"\ntimeouts: {idle: 7s}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	told() // the file has changed: RELOADING=1
	told() // READY=1
	if said, err := reload(); err == nil || !strings.Contains(said, "it changes timeouts.idle, which takes a restart") {
		t.Errorf("a reload that abide refuses: %v\n%s", err, said)
	}
	if err := os.WriteFile(config, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	told() // the file has changed: RELOADING=1
	told() // READY=1
	if entries, err := os.ReadDir(filepath.Join(root, "var/lib/abide")); err != nil || len(entries) < 2 {
		t.Errorf("its state is not in /var/lib/abide: %v, %v", entries, err)
	}
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if message := told(); !strings.HasPrefix(message, "STOPPING=1\n") {
		t.Errorf("systemd was told %q", message)
	}
	if err := <-ended; err != nil {
		t.Errorf("abide ended with %v", err)
	}

	dpkg("--remove", "abide")
	if got := read(t, root, "etc/abide/abide.yaml"); !strings.Contains(got, "listen:") {
		t.Errorf("removing the package took the configuration: %q", got)
	}
	dpkg("--purge", "abide")
	for _, gone := range []string{"etc/abide", "var/lib/abide", "usr/bin/abide"} {
		if _, err := os.Stat(filepath.Join(root, gone)); !os.IsNotExist(err) {
			t.Errorf("/%s is there after a purge (%v)", gone, err)
		}
	}
}

// copyTargets puts this machine's targets below root, which units refer to.
func copyTargets(t *testing.T, root string) {
	t.Helper()
	const dir = "lib/systemd/system"
	targets, err := filepath.Glob("/" + dir + "/*.target")
	if err != nil || len(targets) == 0 {
		t.Fatalf("/%s has no targets (%v); `make test` installs systemd", dir, err)
	}
	if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range targets {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, path), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestVersionsOfDebianAreOrderedAsTheirCommitsAre(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 22, hour, 0, 0, 0, time.UTC) }
	ordered := []struct {
		version string
		hour    int
		want    string
	}{
		{"ab7e04e", 9, "0~20261122090000.ab7e04e"},
		{"1234567-dirty", 10, "0~20261122100000.1234567.dirty"},
		{"devel", 11, "0~20261122110000.devel"},
		{"v0.9.0", 12, "0.9.0"},
		{"v1.0.0-rc.1", 12, "1.0.0~rc.1"},
		{"v1.0.0-rc.1-4-g0123abc", 12, "1.0.0~rc.1+4.g0123abc"},
		{"v1.0.0-rc.2", 12, "1.0.0~rc.2"},
		{"v1.0.0", 12, "1.0.0"},
		{"v1.0.0-dirty", 12, "1.0.0+dirty"},
		{"v1.0.1", 12, "1.0.1"},
		{"v1.0.1-4-g0123abc", 12, "1.0.1+4.g0123abc"},
		{"v1.0.1-12-g0123abc-dirty", 12, "1.0.1+12.g0123abc+dirty"},
	}
	for i, one := range ordered {
		got := debianVersion(one.version, at(one.hour))
		if got != one.want {
			t.Errorf("%s is %s, not %s", one.version, got, one.want)
		}
		if i > 0 {
			before := debianVersion(ordered[i-1].version, at(ordered[i-1].hour))
			tool(t, "dpkg", "--compare-versions", before, "lt", got)
		}
	}
}

// debianPackage is the path of the package of the release.
func debianPackage(t *testing.T) string {
	t.Helper()
	dir, err := released()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, packageName())
}

// tool runs a command, which must not fail.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &errs)
	}
	return string(out)
}

// asRoot runs a command that changes owners. Who is not root is root of a user
// namespace for it.
func asRoot(t *testing.T, command ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		command = append([]string{"unshare", "--map-root-user"}, command...)
	}
	tool(t, command[0], command[1:]...)
}

// inside is a command that sees nothing but what is below root.
func inside(root string, command ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		command = append([]string{"chroot", root}, command...)
	} else {
		command = append([]string{"unshare", "--map-root-user", "--root=" + root}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
