package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// modes are those of a terminal.
func modes(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	termios, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *termios
}

// topIn starts "abide top" in a terminal, as a shell does. end closes the terminal and
// answers all that was written to it.
func topIn(t *testing.T, d *daemon, admin string) (cmd *exec.Cmd, master, slave *os.File, shown *transcript, end func() string) {
	t.Helper()
	master, slave = openTerminal(t)
	cmd = exec.Command("abide", "top", "--admin", admin)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.cmd.Dir, slave, slave, slave
	cmd.Env = append(d.cmd.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ended, read := make(chan struct{}), make(chan struct{})
	shown = newTranscript(ended)
	go func() {
		defer close(read)
		_, _ = io.Copy(shown, master) // it ends with an error when the slave is closed
	}()
	return cmd, master, slave, shown, func() string {
		slave.Close()
		<-read
		close(ended)
		return shown.String()
	}
}

func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	d := serveIn(t, dir, []string{o.named()})
	d.get("http://api.test/")
	for name, quit := range map[string]func(cmd *exec.Cmd, master *os.File) error{
		"by q":         func(_ *exec.Cmd, master *os.File) error { _, err := master.WriteString("q"); return err },
		"by ctrl-C":    func(_ *exec.Cmd, master *os.File) error { _, err := master.WriteString("\x03"); return err },
		"by a SIGTERM": func(cmd *exec.Cmd, _ *os.File) error { return cmd.Process.Signal(syscall.SIGTERM) },
	} {
		cmd, master, slave, shown, end := topIn(t, d, d.admin)
		before := modes(t, slave)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		shown.await(t, `api\.test`)
		if during := modes(t, slave); during.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
			t.Errorf("%s: the terminal has the modes %x while the table is shown", name, during.Lflag)
		}
		if err := quit(cmd, master); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := modes(t, slave); after != before {
			t.Errorf("%s: the terminal had the modes %x and has %x", name, before, after)
		}
		// The usual screen is shown again, and the cursor.
		text := end()
		if last := text[strings.LastIndex(text, "api.test"):]; !strings.Contains(last, "\x1b[?1049l") || !strings.Contains(last, "\x1b[?25h") {
			t.Errorf("%s: the terminal was left with %q", name, last)
		}
	}
}

// comesAndGoes is an admin listener that answers as another does, or nothing while gone is set.
func comesAndGoes(t *testing.T, admin string, gone *atomic.Bool) (address string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		answer, err := http.Get("http://" + admin + r.URL.RequestURI())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestTopGoesOnWhenItsAbideComesBack(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	d := serveIn(t, dir, []string{o.named()})
	d.get("http://api.test/")
	var gone atomic.Bool
	cmd, master, _, shown, end := topIn(t, d, comesAndGoes(t, d.admin, &gone))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown.await(t, `api\.test`)
	gone.Store(true)
	shown.await(t, "ANSWER,") // words stand alone: the cursor skips the spaces
	d.get("http://api.test:1/refused")
	gone.Store(false)
	shown.await(t, `api\.test:1`)
	if _, err := master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	end()
}
