//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that a command gets from whoever sends them to abide.
var passed = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// childGroup is the process group of a command that abide runs. A signal that somebody
// sends to all of abide's group, such as timeout(1) and "kill %1" do, must reach the
// command once. So the command has a group of its own, which the kernel sends such a
// signal to no longer, and abide passes the signal on.
//
// In the foreground of a terminal that group is put into the foreground instead of
// abide's, so that Ctrl-C, Ctrl-Z and reading from the terminal work for the command.
// Where abide is a part of a pipeline there, the command stays in abide's group, which is
// that of the pager beside it.
type childGroup struct {
	own bool     // the command is in a group of its own
	tty *os.File // of which that is in the foreground; nil for none
}

// groupFor decides which group a command gets.
func groupFor(child *exec.Cmd) childGroup {
	child.SysProcAttr = &syscall.SysProcAttr{}
	endWithParent(child.SysProcAttr)
	tty := terminal()
	switch {
	case tty == nil:
		child.SysProcAttr.Setpgid = true
		return childGroup{own: true}
	case canHandOver && isTerminal(child.Stdin) && isTerminal(child.Stdout) && isTerminal(child.Stderr):
		child.SysProcAttr.Foreground, child.SysProcAttr.Ctty = true, int(tty.Fd())
		return childGroup{own: true, tty: tty}
	}
	tty.Close()
	return childGroup{}
}

// terminal is the terminal in whose foreground abide is, nil for none.
func terminal() *os.File {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	if group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		tty.Close()
		return nil
	}
	return tty
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// jobSignals are those by which a shell stops and continues abide, which the command must
// follow where it has a group of its own. SIGCHLD tells that the command has stopped.
func (g childGroup) jobSignals() []os.Signal {
	if !g.own {
		return nil
	}
	if g.tty != nil {
		// Setting the terminal's foreground from outside of it must not stop abide.
		signal.Ignore(syscall.SIGTTOU)
	}
	return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGCHLD}
}

// take does for the command what a signal to abide asks for.
func (g childGroup) take(child *os.Process, sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	switch {
	case !ok, n == syscall.SIGPIPE:
	case !g.own:
		// A terminal gives SIGINT and SIGQUIT to every process in its foreground, to the
		// command too. Nobody says who sent a signal, so being in the foreground has to do.
		if n == syscall.SIGINT || n == syscall.SIGQUIT {
			if tty := terminal(); tty != nil {
				tty.Close()
				return
			}
		}
		_ = child.Signal(n) // it may have ended
	case n == syscall.SIGCHLD:
		if g.tty != nil && stopped(child.Pid) {
			g.stop()
		}
	case n == syscall.SIGTSTP:
		g.send(child, n)
		if g.tty == nil { // otherwise SIGCHLD tells when the command has stopped
			g.stop()
		}
	case n == syscall.SIGCONT:
		if g.tty != nil && g.foreground() == unix.Getpgrp() {
			g.setForeground(child.Pid)
		}
		g.send(child, n)
	default:
		g.send(child, n)
	}
}

// send sends a signal to the whole group of the command, if that has not ended.
func (g childGroup) send(child *os.Process, sig syscall.Signal) {
	if child.Signal(syscall.Signal(0)) == nil {
		_ = syscall.Kill(-child.Pid, sig)
	}
}

// stop gives the terminal back and stops abide, so that the shell takes over, until
// somebody continues it.
func (g childGroup) stop() {
	g.restore()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// restore gives the foreground of the terminal back to abide's group.
func (g childGroup) restore() {
	if g.tty != nil {
		g.setForeground(unix.Getpgrp())
	}
}

func (g childGroup) foreground() int {
	group, err := unix.IoctlGetInt(int(g.tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

func (g childGroup) setForeground(group int) {
	_ = unix.IoctlSetPointerInt(int(g.tty.Fd()), unix.TIOCSPGRP, group) // a terminal that has gone needs none
}

// close gives everything back once the command has ended.
func (g childGroup) close() {
	if g.tty != nil {
		g.restore()
		g.tty.Close()
	}
}
