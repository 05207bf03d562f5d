//go:build linux

package deploy

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// container is the image with what is given to one container of it: a network,
// directories that are mounted, and variables.
type container struct {
	t       *testing.T
	image   *image
	network *namespace
	mounts  [][2]string // a directory of this machine, and where it is in the container
	env     []string
}

// contained runs the image: "$0" is its directory, then there are the uid:gid, pairs
// of a directory and where it is mounted, "--", and the command.
const contained = `set -e
root=$0 user=$1
shift
mount --bind "$root" "$root"
mkdir -p "$root/proc"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
shift
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"`

// command is a program in the container: the image as a read-only root, and its user
// without rights.
func (c *container) command(arguments ...string) *exec.Cmd {
	c.t.Helper()
	args := []string{"netns", "exec", c.network.name, "unshare", "--mount", "sh", "-c", contained, c.image.root, c.image.user}
	for _, one := range c.mounts {
		args = append(args, one[0], one[1])
	}
	command := program(c.t, "ip", append(append(args, "--"), arguments...)...)
	command.Env = append(append(command.Env, c.image.env...), c.env...)
	return command
}

// serve starts abide with these arguments and waits until it has printed where it is.
// The channel has its end.
func (c *container) serve(arguments ...string) (abide *exec.Cmd, ended <-chan error) {
	c.t.Helper()
	abide = c.command(arguments...)
	out, err := abide.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	abide.Stderr = c.t.Output()
	if err := abide.Start(); err != nil {
		c.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	up := false
	for !up && lines.Scan() {
		up = strings.Contains(lines.Text(), "dashboard")
	}
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, out)
		done <- abide.Wait()
	}()
	c.t.Cleanup(func() {
		_ = abide.Process.Kill()
		<-over
	})
	if !up {
		c.t.Fatalf("abide ended without serving: %v", <-done)
	}
	return abide, done
}

// crawl runs curl beside the container, with a directory in the place of /trust, and
// these variables but for that place.
func crawl(t *testing.T, network *namespace, trust string, env []string, arguments ...string) *exec.Cmd {
	const script = `set -e
mount --bind "$0" /mnt
mount -o remount,bind,ro /mnt
exec setpriv --reuid=1000 --regid=1000 --clear-groups curl "$@"`
	command := program(t, "ip", append([]string{"netns", "exec", network.name, "unshare", "--mount", "sh", "-c", script, trust}, arguments...)...)
	for _, one := range env {
		command.Env = append(command.Env, strings.ReplaceAll(one, "/trust/", "/mnt/"))
	}
	return command
}

// program has nothing of this test's environment but where programs are.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, name, args...)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	return command
}

func output(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command.Args, err, out)
	}
	return string(out)
}

// site is https://example.com/, which only abide reaches. /held answers once release
// is closed, and tells asked before.
type site struct {
	*httptest.Server
	asked, release chan struct{}
	served         atomic.Int64
}

// newSite is in a network of its own. Its certificate is written into a directory.
func newSite(t *testing.T, network *namespace, dir string) *site {
	t.Helper()
	s := &site{asked: make(chan struct{}), release: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		if r.URL.Path == "/held" {
			close(s.asked)
			<-s.release
		}
		fmt.Fprint(w, "from the site")
	}))
	s.Listener.Close()
	s.Listener = network.listen(siteAddress + ":443")
	s.StartTLS() // its certificate is for example.com
	t.Cleanup(s.Close)
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "site.pem"), roots, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}
