package main

import (
	"os"
	"os/exec"
	"syscall"
)

// forwardedSignals are the signals that are kept from ending abide before its command. A
// console gives them to the command itself.
var forwardedSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// childGroup is the process group of a command, of which Windows has none.
type childGroup struct{}

func groupFor(*exec.Cmd) childGroup               { return childGroup{} }
func (childGroup) jobSignals() []os.Signal        { return nil }
func (childGroup) forward(*os.Process, os.Signal) {}
