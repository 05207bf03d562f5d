//go:build !unix

package upstream

import "net"

// arrival reports nothing on this system.
type arrival struct{}

func newArrival(net.Conn) arrival { return arrival{} }

func (arrival) wait() (have int, known bool, err error) { return 0, false, nil }

// reportsUnread tells whether this system reports the number of unread bytes.
const reportsUnread = false

func (arrival) unread() int { return 0 }

func (arrival) peerWindow() int { return 0 }

func (arrival) receiveBuffer() int { return 0 }

// maxSystemReceiveBuffer is the size in bytes up to which the system grows a receive buffer
// whose size was not set.
func maxSystemReceiveBuffer() int64 { return 8 << 20 }
