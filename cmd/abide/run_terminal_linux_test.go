package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal is a pseudo-terminal of 60 columns: what is written to its slave can be
// read from its master.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// heldRun is an "abide run" in dir whose command makes two requests at once, of which
// the second is held until the origin lets the first go.
func heldRun(dir string, o *origin, args ...string) *exec.Cmd {
	args = append([]string{"run"}, args...)
	cmd := exec.Command("abide", append(args, "--", "sh", "-c", "fetch http://api.test/held & fetch http://api.test/held & wait")...)
	cmd.Dir = dir
	cmd.Env = append(environ(dir), o.named())
	return cmd
}

func TestATerminalShowsAHoldWhileItLastsAndASummaryAtTheEnd(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), heldConfig)
	master, slave := openTerminal(t)
	cmd := heldRun(dir, o)
	cmd.Stderr = slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	shown, read := newTranscript(ended), make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(shown, master) // it ends with an error when the slave is closed
	}()
	o.wait(t, 1)
	shown.await(t, "^abide holds 1 request to api\\.test until another request is…")
	o.letGo()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	slave.Close()
	<-read
	close(ended)
	_, rest, erased := strings.Cut(shown.String(), "\r\x1b[K")
	if !erased || !strings.HasPrefix(rest, "abide  2 requests to 1 site in ") || !strings.Contains(rest, "\nheld   ") {
		t.Errorf("the terminal shows %q", shown.String())
	}
}

func TestWithoutATerminalAHoldHasALineInTheLog(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), heldConfig)
	cmd := heldRun(dir, o)
	ended := make(chan struct{})
	shown := newTranscript(ended)
	cmd.Stderr = shown
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.wait(t, 1)
	shown.await(t, `level=warning msg="abide holds 1 request to api\.test until another request is finished, limit: 1 in flight, written in .*abide.yaml"\n`)
	o.letGo()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	close(ended)
	if strings.Contains(shown.String(), "\r") || !strings.Contains(shown.String(), "\nabide  2 requests to 1 site in ") {
		t.Errorf("standard error is %q", shown.String())
	}
}
