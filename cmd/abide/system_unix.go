//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
	"golang.org/x/sys/unix"
)

// forwardedSignals are the signals to abide that are forwarded to its command.
var forwardedSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// childGroup is the process group of a command that abide runs. A signal to all of abide's
// group, as timeout(1) and "kill %1" send it, must reach the command once. So the command has
// a group of its own, to which the kernel does not send that signal, and abide forwards it.
//
// In the foreground of a terminal the command stays in abide's group, so that reading
// from the terminal, Ctrl-C and Ctrl-Z work as without abide.
type childGroup struct {
	own bool // the command has a group of its own
}

// groupFor decides the process group of a command.
func groupFor(child *exec.Cmd) childGroup {
	g := childGroup{own: !inForeground()}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.own}
	return g
}

// endWithAbide starts "abide end-orphan", a process that sends SIGTERM to the command when abide is
// killed: without its proxy the command could do nothing useful. It learns of abide's end by a
// pipe that the kernel closes then. The signal that the kernel itself offers for a parent's death
// comes again with each thread of abide that dies, and Scrapy loses its queue by the second.
// started names the command, and ended ends the process.
func (g childGroup) endWithAbide() (started func(pid int), ended func(), err error) {
	path, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	watcher := exec.Command(path, "end-orphan")
	watcher.Args[0] = "abide"
	watcher.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to abide's group are not for it
	pipe, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	started = func(pid int) {
		if g.own {
			pid = -pid // as kill(2) names a group
		}
		_, _ = fmt.Fprint(pipe, pid)
	}
	ended = func() {
		_, _ = fmt.Fprint(pipe, " has ended")
		pipe.Close()
		_ = watcher.Wait()
	}
	return started, ended, err
}

// endOrphan sends SIGTERM to the process or group that in names, when in ends after the number.
func endOrphan(in io.Reader) {
	signal.Ignore(forwardedSignals...)
	text, _ := io.ReadAll(in)
	if pid, err := strconv.Atoi(string(text)); err == nil {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// inForeground tells whether abide is in the foreground of a terminal.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// jobSignals are the signals by which a shell stops and continues abide. A command with a
// group of its own must get them too.
func (g childGroup) jobSignals() []os.Signal {
	if !g.own {
		return nil
	}
	return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}
}

// forward does for the command what a signal asks abide to do.
func (g childGroup) forward(child *os.Process, sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok, n == syscall.SIGPIPE:
	case g.own:
		if child.Signal(syscall.Signal(0)) == nil { // it has not ended
			_ = syscall.Kill(-child.Pid, n)
		}
		if n == syscall.SIGTSTP {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	case (n == syscall.SIGINT || n == syscall.SIGQUIT) && inForeground():
		// A terminal sends these to every process in its foreground, also to the command.
		// The sender of a signal is unknown, so being in the foreground decides.
	default:
		_ = child.Signal(n) // the command may have ended
	}
}

// lockRegistration locks a file for as long as it is open. A file system without
// locks is no error: registrationLocked goes by the process ID there.
func lockRegistration(f *os.File) error {
	err := alive.Lock(f, alive.Far)
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

// registrationLocked tells whether the process that wrote a registration still runs.
func registrationLocked(f *os.File, pid int) bool {
	switch err := alive.Share(f); {
	case err == nil:
		return false
	case errors.Is(err, alive.ErrLocked):
		return true
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// reopenSignals are the signals that open the access log again.
var reopenSignals = []os.Signal{syscall.SIGUSR1}

// monotonic is the time of CLOCK_MONOTONIC, which systemd compares with its own.
func monotonic() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// isMountPoint tells whether a directory is a file system of its own.
func isMountPoint(dir string, info os.FileInfo) bool {
	above, err := os.Stat(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return false
	}
	device := func(i os.FileInfo) any { return i.Sys().(*syscall.Stat_t).Dev }
	return device(info) != device(above)
}
