//go:build unix && !linux

package main

import (
	"syscall"
	"time"
)

// endWithParent does nothing: the command outlives an abide that is killed.
func endWithParent(*syscall.SysProcAttr) {}

// monotonic is 0: systemd runs on Linux only.
func monotonic() time.Duration { return 0 }
