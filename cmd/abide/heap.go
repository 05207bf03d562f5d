package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// The garbage collector runs when the heap has grown by gcPercent over what was
// live, and is made to believe in heapFloor bytes that live for ever. A proxy's
// live heap is a few megabytes and its garbage as much in a few hundred
// requests, so without a floor the collector runs all the time, which costs a
// small request a quarter more. With thousands of requests held the live heap
// is hundreds of megabytes, and the usual 100 percent would be as much again.
const (
	heapFloor = 64 << 20
	gcPercent = 50
)

// floorHeap lays the floor and answers how to take it away. It is address space
// that nobody touches, so it takes no memory of its own. Who sets GOGC or
// GOMEMLIMIT knows better.
func floorHeap() (lift func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	debug.SetGCPercent(gcPercent)
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
