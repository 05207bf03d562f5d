package upstream

// room is what the system may still take for a connection before anybody reads it, and
// what of that is paid for. Its methods are pure: whoever has it has a lock.
//
// What comes in a window is at most what was paid for in it, but for what comes on a
// connection that has waited for its peer since an earlier one: that is paid for when
// it is seen.
type room struct {
	size   int        // of the buffer, which is the most that the system takes
	paid   int        // credit of this window, less what has come in it; below 0 it is owed
	unread int        // what had come and was not read, when it was looked at last
	window int64      // the number of the window that paid is about
	state  exchanging // with the peer
}

// exchanging is whether the peer has a reason to send something.
type exchanging uint8

const (
	toAsk       exchanging = iota // what is written next asks for something
	hasAsked                      // something was asked for
	asksNothing                   // all has come, and what is written asks for nothing
)

// look hears what has come. In a new window nothing is paid: what was unread before is
// of an old window, with what has come right behind it, for its sender waited for
// nothing but room. What comes on a connection of which all was read is of this one.
func (r *room) look(window int64, have int) {
	if r.window != window {
		r.window, r.paid = window, 0
		if r.unread > 0 {
			r.unread = have
		}
	}
	r.paid -= max(have-r.unread, 0)
	r.unread = have
}

// free is what may still come when nothing is read.
func (r *room) free() int { return max(r.size-r.unread, 0) }

// toWrite is what has to be paid before something is written, beside what that costs.
func (r *room) toWrite() int {
	if r.state != toAsk {
		return 0
	}
	return max(r.free()-r.paid, 0)
}

// asks divides what was granted between a write of n bytes, which asks for something, and
// what may come then. The write gets a byte at least and no more than n: less may be needed
// for the rest than when the credit was asked for.
func (r *room) asks(granted, n int) (write int) {
	part := max(min(max(granted-1, 0), r.toWrite()), granted-n)
	r.paid += part
	r.state = hasAsked
	return granted - part
}

// toRead is what has to be paid before n bytes are read, since then as many more may
// come as there is room for.
func (r *room) toRead(n int) int { return max(r.free()+n-r.paid, 0) }

// readable is how many of n bytes may be read for what is paid.
func (r *room) readable(n int) int { return max(min(n, r.paid-r.free()), 0) }

// borrow is as much as n bytes of what is paid for, for something else, if nothing has
// come yet.
func (r *room) borrow(n int) int {
	if r.unread > 0 {
		return 0
	}
	n = max(min(n, r.paid), 0)
	r.paid -= n
	return n
}

// surplus is what is paid for and cannot come before something is read, as the peer was
// promised room for so many bytes. The next read pays for that again.
func (r *room) surplus(promised int) (back int) {
	back = max(r.paid-max(promised, 0), 0)
	r.paid -= back
	return back
}

// rest says that nothing more will come until something is asked for, in a state.
func (r *room) rest(next exchanging) (back int) {
	r.state = next
	back = max(r.paid, 0)
	r.paid -= back
	return back
}
