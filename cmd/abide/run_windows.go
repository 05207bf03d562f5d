package main

import (
	"os"
	"syscall"
)

// passed are the signals that are kept from ending abide before its command. A
// console gives them to the command itself.
var passed = []os.Signal{os.Interrupt, syscall.SIGTERM}

func fromTerminal(os.Signal) bool { return true }
