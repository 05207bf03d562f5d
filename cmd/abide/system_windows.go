package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// forwardedSignals are the signals that are kept from ending abide before its command. A
// console gives them to the command itself.
var forwardedSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// childGroup is the process group of a command, of which Windows has none.
type childGroup struct{}

func groupFor(*exec.Cmd) childGroup               { return childGroup{} }
func (childGroup) jobSignals() []os.Signal        { return nil }
func (childGroup) forward(*os.Process, os.Signal) {}

// endWithAbide does nothing: the command outlives an abide that is killed.
func (childGroup) endWithAbide() (started func(pid int), ended func(), err error) {
	return func(int) {}, func() {}, nil
}

func endOrphan(io.Reader) {}

// lockRegistration does nothing: a file that is open could not be renamed here.
func lockRegistration(*os.File) error { return nil }

// registrationLocked tells whether the process that wrote a registration still runs.
func registrationLocked(_ *os.File, pid int) bool {
	process, err := os.FindProcess(pid) // on Windows that fails for a process that has ended
	if err != nil {
		return false
	}
	_ = process.Release()
	return true
}

// reopenSignals are the signals that open the access log again.
var reopenSignals []os.Signal

// monotonic is 0: systemd runs on Linux only.
func monotonic() time.Duration { return 0 }

// isMountPoint is not asked for.
func isMountPoint(string, os.FileInfo) bool { return false }
