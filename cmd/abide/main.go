// Command abide is an HTTP forward proxy for crawlers. See the README.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	_ "time/tzdata" // the container image has no time zones
)

func main() {
	var floor []byte // never written, so it takes address space and no memory; GOMEMLIMIT counts it
	if os.Getenv("GOGC") == "" && debug.SetMemoryLimit(-1) >= 8*heapFloor {
		debug.SetGCPercent(gcPercent)
		floor = make([]byte, heapFloor)
	}
	code := execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	runtime.KeepAlive(floor)
	os.Exit(code)
}

// heapFloor is a number of bytes that are always live, and gcPercent the growth of the heap over
// the live bytes, in percent, at which the garbage collector runs. A proxy's live heap is a few
// megabytes, and a few hundred requests make as much garbage. Without the floor the collector
// runs all the time, which makes a small request a quarter slower. With thousands of held
// requests the live heap is hundreds of megabytes, and the default of 100 percent would double
// that. Where GOGC is set, or GOMEMLIMIT is below eight floors, nothing changes.
const (
	heapFloor = 64 << 20
	gcPercent = 50
)
