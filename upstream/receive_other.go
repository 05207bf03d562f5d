//go:build !unix

package upstream

import "syscall"

// limitReceive leaves it to narrow, which comes when the socket is connected.
func limitReceive(syscall.RawConn, int) {}
