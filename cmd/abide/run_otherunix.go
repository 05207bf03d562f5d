//go:build unix && !linux

package main

import "syscall"

// canHandOver: abide would not notice that a command is stopped at the terminal, so it
// shares its process group with the command there.
const canHandOver = false

// endWithParent does nothing: the command outlives an abide that is killed.
func endWithParent(*syscall.SysProcAttr) {}

func stopped(int) bool { return false }
