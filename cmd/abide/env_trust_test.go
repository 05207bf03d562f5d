//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

// TestEnvTrustsTheCAOfAServiceOnlyWhenAsked runs an abide, as a service does, whose
// data directory another user cannot read.
func TestEnvTrustsTheCAOfAServiceOnlyWhenAsked(t *testing.T) {
	d := serveIn(t, t.TempDir(), nil)
	_, certificate := d.ask("/ca.pem")
	env := func(args ...string) (lines, said string, bundle []byte) {
		t.Helper()
		home := t.TempDir()
		cmd := exec.Command("abide", append([]string{"env", "--admin", d.admin}, args...)...)
		cmd.Dir = home
		cmd.Env = environ(home)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, &errs)
		}
		file := regexp.MustCompile(`export SSL_CERT_FILE=(.*)`).FindStringSubmatch(string(out))
		if file == nil {
			t.Fatalf("abide env names no bundle:\n%s", out)
		}
		if bundle, err = os.ReadFile(file[1]); err != nil {
			t.Fatal(err)
		}
		return string(out), errs.String(), bundle
	}

	_, said, bundle := env()
	if strings.Contains(string(bundle), certificate) || !strings.Contains(said, "--trust") {
		t.Errorf("without --trust the CA of another user is trusted, or nothing says how to: %q", said)
	}
	lines, said, bundle := env("--trust")
	if !strings.Contains(string(bundle), certificate) || said != "" {
		t.Errorf("with --trust the bundle has no certificate of the running abide, and abide said %q", said)
	}
	open := d.out.await(t, `open +http://(\S+)`)[1]
	if !strings.Contains(lines, "export HTTPS_PROXY=http://"+open+"\n") {
		t.Errorf("the lines do not name %s:\n%s", open, lines)
	}
}

// TestEnvSaysThatNoConfigurationIsHere: the lines of another directory would name an address where no abide is.
func TestEnvSaysThatNoConfigurationIsHere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	for _, want := range []string{"no configuration is here (looked for abide.yaml, ", ""} {
		if want == "" {
			write(t, "abide.yaml", "data: data\n")
		}
		cmd, _, err := rootCommand().Find([]string{"env"})
		if err != nil {
			t.Fatal(err)
		}
		noted := 0
		err = noteNotRunning(cmd, policy.Defaults(), func(string, ...any) { noted++ })
		if got := fmt.Sprint(err); want != "" && (!strings.Contains(got, want) || noted > 0) || want == "" && (err != nil || noted != 1) {
			t.Errorf("want %q: %d notes, %s", want, noted, got)
		}
	}
}
