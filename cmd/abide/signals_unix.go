//go:build unix

package main

import (
	"os"
	"syscall"
)

// reopenSignals are the signals that open the access log again.
var reopenSignals = []os.Signal{syscall.SIGUSR1}
