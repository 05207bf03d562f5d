//go:build !unix

package upstream

import "syscall"

// limitReceive does nothing: sizeReceiveBuffer sets the size after the connect.
func limitReceive(syscall.RawConn, int) {}
