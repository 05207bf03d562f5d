//go:build !unix

package upstream

import "net"

// arrival cannot tell here what has come on a connection.
type arrival struct{}

func newArrival(net.Conn) arrival { return arrival{} }

func (arrival) wait() (have int, known bool, err error) { return 0, false, nil }

// tellsRoom tells whether it is known here what a connection has received.
const tellsRoom = false

func (arrival) have() int { return 0 }

func (arrival) promised() int { return 0 }
