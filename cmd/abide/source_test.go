package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestUsualFilesAreThoseOfTheDirectoryTheUserAndTheMachine(t *testing.T) {
	for name, one := range map[string]struct{ xdg, home, want string }{
		"XDG_CONFIG_HOME":           {"/xdg", "/home/u", "abide.yaml /xdg/abide/abide.yaml /etc/abide/abide.yaml"},
		"HOME":                      {"", "/home/u", "abide.yaml /home/u/.config/abide/abide.yaml /etc/abide/abide.yaml"},
		"a relative one is ignored": {"xdg", "/home/u", "abide.yaml /home/u/.config/abide/abide.yaml /etc/abide/abide.yaml"},
		"neither":                   {"", "", "abide.yaml /etc/abide/abide.yaml"},
	} {
		got := usualFiles(func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": one.xdg, "HOME": one.home}[name]
		})
		if want := strings.Fields(one.want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// A document that cannot be read again stays at a reload, which reads secrets of files again.
func TestAReloadWithoutAFileReadsSecretsAgain(t *testing.T) {
	for _, way := range []string{"variable", "standard input"} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			secret := filepath.Join(dir, "token")
			write(t, secret, "one\n")
			const text = "listen: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\ndata: data\nsites: [{host: a.test, priority: 2}]\n"
			write(t, filepath.Join(dir, "written"), text)
			env, line := []string{"ABIDE_ADMIN_TOKEN_FILE=" + secret}, "exec abide serve --config - < written"
			if way == "variable" {
				env, line = append(env, "ABIDE_CONFIG_YAML="+text), "exec abide serve"
			}
			d := newDaemon(t, dir, "sh", env, "-c", line)
			d.out.await(t, "proxy +http://")
			write(t, secret, "two\n")
			d.signal(syscall.SIGHUP)
			d.log.await(t, "the configuration was reloaded: admin.token changed")
			if err := os.Remove(secret); err != nil {
				t.Fatal(err)
			}
			d.signal(syscall.SIGHUP)
			d.log.await(t, "ABIDE_ADMIN_TOKEN_FILE names a file that cannot be read")
		})
	}
}

func TestAFaultInTheFileOfTheMachineSaysHowToDoWithout(t *testing.T) {
	s := &source{path: systemFile, found: true}
	if err := s.explained(errors.New("permission denied")); !strings.Contains(err.Error(), "--config /dev/null") {
		t.Error(err)
	}
	s.found = false
	if err := s.explained(errors.New("permission denied")); strings.Contains(err.Error(), "--config") {
		t.Error(err)
	}
}
