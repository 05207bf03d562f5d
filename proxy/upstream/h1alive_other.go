//go:build !unix

package upstream

import "net"

// peeker cannot look at idle connections on this system; they are taken to be alive.
type peeker struct{}

func newPeeker(net.Conn) peeker { return peeker{} }

func (peeker) alive() bool { return true }

func (peeker) readAvailable([]byte) int { return 0 }
