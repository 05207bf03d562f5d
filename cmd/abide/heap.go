package main

import (
	"os"
	"runtime"
)

// heapFloor is what the garbage collector takes for live before it counts what
// is. A proxy's live heap is a few megabytes and its garbage as much in a few
// hundred requests, so without a floor the collector runs all the time: with
// this one, a small request costs a quarter less.
const heapFloor = 32 << 20

// floorHeap lays the floor and answers how to take it away. It is address space
// that nobody touches, so it takes no memory; what may take more is the garbage
// above it, up to as much again. Who sets GOGC or GOMEMLIMIT knows better.
func floorHeap() (lift func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
