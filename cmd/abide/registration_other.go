//go:build !unix

package main

import "os"

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
