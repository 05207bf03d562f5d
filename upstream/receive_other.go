//go:build !unix

package upstream

import "syscall"

// limitReceive leaves it to narrow, which comes when the socket is connected.
func limitReceive(syscall.RawConn, int) {}

// receiveSizes are the receive buffers that a connection may have: the system's own.
func receiveSizes() []int64 { return []int64{8 << 20} }
