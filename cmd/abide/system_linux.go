package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endWithParent has the kernel end the command when abide is killed, since without its
// proxy it could do nothing useful. That counts for the thread that starts the command,
// so the thread must last as long as the command.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }

// monotonic is the time of CLOCK_MONOTONIC, which systemd compares with its own.
func monotonic() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
