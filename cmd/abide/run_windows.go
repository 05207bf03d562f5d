package main

import (
	"os"
	"os/exec"
	"syscall"
)

// passed are the signals that are kept from ending abide before its command. A
// console gives them to the command itself.
var passed = []os.Signal{os.Interrupt, syscall.SIGTERM}

// childGroup is the process group of a command, of which Windows has none.
type childGroup struct{}

func groupFor(*exec.Cmd) childGroup            { return childGroup{} }
func (childGroup) jobSignals() []os.Signal     { return nil }
func (childGroup) take(*os.Process, os.Signal) {}
