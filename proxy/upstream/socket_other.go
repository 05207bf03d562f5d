//go:build !unix

package upstream

import (
	"net"
	"syscall"
)

// socket reports nothing on this system: idle connections are taken to be alive.
type socket struct{}

func newSocket(net.Conn) socket { return socket{} }

// RawConn is nil: without Unix a socket cannot be examined without reading from it.
func RawConn(net.Conn) syscall.RawConn { return nil }

// Readable is never asked.
func Readable(uintptr) bool { return true }

func (socket) wait() (have int, known bool, err error) { return 0, false, nil }

// limitReceive does nothing: sizeReceiveBuffer sets the size after the connect.
func limitReceive(syscall.RawConn, int) {}

func (socket) alive() bool { return true }

func (socket) readAvailable([]byte) int { return 0 }
