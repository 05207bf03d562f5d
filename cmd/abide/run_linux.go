package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// canHandOver tells that abide notices when a command is stopped at the terminal.
const canHandOver = true

// endWithParent has the kernel end the command when abide is killed, since without its
// proxy it could do nothing useful. That counts for the thread that starts the command,
// so the thread must last as long as the command.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }

// stopped tells whether a child was stopped since stopped was asked last.
func stopped(pid int) bool {
	var info unix.Siginfo
	const childStopped = 5 // CLD_STOPPED
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	return err == nil && info.Signo == int32(syscall.SIGCHLD) && info.Code == childStopped
}
