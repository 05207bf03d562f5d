//go:build !linux

package upstream

// On other systems net's own copy is no cheaper than pump.
const canSplice = false

// splice copies through a buffer.
func (r *relay) splice(to, from *side) error { return r.pump(to, from) }

// acknowledged is not reported on this system.
func (s *side) acknowledged() uint64 { return 0 }

// reportsUnread tells whether this system reports the number of unread bytes.
const reportsUnread = false

func (socket) unread() int { return 0 }

func (socket) peerWindow() int { return 0 }

func (socket) receiveBuffer() int { return 0 }

// maxSystemReceiveBuffer is the size in bytes up to which the system grows a receive buffer
// whose size was not set.
func maxSystemReceiveBuffer() int64 { return 8 << 20 }
