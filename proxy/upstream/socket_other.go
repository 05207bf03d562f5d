//go:build !unix

package upstream

import (
	"net"
	"syscall"
)

// arrival reports nothing on this system.
type arrival struct{}

func newArrival(net.Conn) arrival { return arrival{} }

// RawConn is nil: without Unix a socket cannot be examined without reading from it.
func RawConn(net.Conn) syscall.RawConn { return nil }

// Readable is never asked.
func Readable(uintptr) bool { return true }

func (arrival) wait() (have int, known bool, err error) { return 0, false, nil }

// limitReceive does nothing: sizeReceiveBuffer sets the size after the connect.
func limitReceive(syscall.RawConn, int) {}

// peeker cannot look at idle connections on this system; they are taken to be alive.
type peeker struct{}

func newPeeker(net.Conn) peeker { return peeker{} }

func (peeker) alive() bool { return true }

func (peeker) readAvailable([]byte) int { return 0 }
