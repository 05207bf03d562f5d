//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that a command gets from whoever sends them to abide.
var passed = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// childGroup is the process group of a command that abide runs. A signal that somebody
// sends to all of abide's group, as timeout(1) and "kill %1" do, must reach the command
// once. So the command has a group of its own, to which the kernel does not send such a
// signal, and abide passes it on.
//
// In the foreground of a terminal the command stays in abide's group, so that reading
// from the terminal, Ctrl-C and Ctrl-Z work as without abide.
type childGroup struct {
	own bool // the command is in a group of its own
}

// groupFor decides which group a command gets.
func groupFor(child *exec.Cmd) childGroup {
	g := childGroup{own: !inForeground()}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.own}
	endWithParent(child.SysProcAttr)
	return g
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

// jobSignals are those by which a shell stops and continues abide, which the command must
// follow where it has a group of its own.
func (g childGroup) jobSignals() []os.Signal {
	if !g.own {
		return nil
	}
	return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}
}

// take does for the command what a signal to abide asks for.
func (g childGroup) take(child *os.Process, sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok, n == syscall.SIGPIPE:
	case g.own:
		g.send(child, n)
		if n == syscall.SIGTSTP {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	case (n == syscall.SIGINT || n == syscall.SIGQUIT) && inForeground():
		// A terminal gives these to every process in its foreground, to the command too.
		// Nobody says who sent a signal, so being in the foreground has to do.
	default:
		_ = child.Signal(n) // it may have ended
	}
}

// send sends a signal to the whole group of the command, if that has not ended.
func (g childGroup) send(child *os.Process, sig syscall.Signal) {
	if child.Signal(syscall.Signal(0)) == nil {
		_ = syscall.Kill(-child.Pid, sig)
	}
}
