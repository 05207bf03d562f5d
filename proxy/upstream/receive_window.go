package upstream

// receiveWindow calculates how many bytes may still arrive on a connection before it is
// read, and how many of them are paid for. Pure; the caller synchronises.
//
// In one time window no more bytes arrive than were paid for in it. The exception is a
// connection that has waited for its peer since an earlier window: its bytes are paid for
// when they are seen.
type receiveWindow struct {
	size   int           // size of the receive buffer, the most that can arrive unread
	paid   int           // credit of this window minus the bytes that arrived in it; below 0: owed
	unread int           // unread bytes at the last update
	number int64         // of the time window that paid belongs to
	state  exchangePhase // phase of the exchange with the peer
}

// exchangePhase tells whether the peer has a reason to send something.
type exchangePhase uint8

const (
	beforeRequest  exchangePhase = iota // the next write requests something
	awaitingAnswer                      // something was requested
	answerComplete                      // the answer is complete, and writes request nothing
)

// update takes the number of the time window and that of the unread bytes. In a new window nothing is paid: bytes that were
// unread before belong to the old window, together with the bytes directly behind them,
// since the sender only waited for buffer space. Bytes on a connection that was completely
// read belong to the new window.
func (r *receiveWindow) update(number int64, have int) {
	if r.number != number {
		r.number, r.paid = number, 0
		if r.unread > 0 {
			r.unread = have
		}
	}
	r.paid -= max(have-r.unread, 0)
	r.unread = have
}

// capacity returns the number of bytes that may still arrive without a read.
func (r *receiveWindow) capacity() int { return max(r.size-r.unread, 0) }

// toWrite is the credit needed for the answer before something is written.
func (r *receiveWindow) toWrite() int {
	if r.state != beforeRequest {
		return 0
	}
	return max(r.capacity()-r.paid, 0)
}

// splitGrant divides a grant between a write of n bytes, which requests something, and the
// answer. The write gets between 1 and n bytes: the answer may need less than when the
// credit was requested.
func (r *receiveWindow) splitGrant(granted, n int) (write int) {
	part := max(min(max(granted-1, 0), r.toWrite()), granted-n)
	r.paid += part
	r.state = awaitingAnswer
	return granted - part
}

// toRead is the credit needed before n bytes are read, because as many more may arrive as
// there is space for.
func (r *receiveWindow) toRead(n int) int { return max(r.capacity()+n-r.paid, 0) }

// readable returns the number of bytes, of n, that may be read with the paid credit.
func (r *receiveWindow) readable(n int) int { return max(min(n, r.paid-r.capacity()), 0) }

// borrow takes up to n bytes of the paid credit for another use, if nothing has arrived
// yet.
func (r *receiveWindow) borrow(n int) int {
	if r.unread > 0 {
		return 0
	}
	n = max(min(n, r.paid), 0)
	r.paid -= n
	return n
}

// countUnread ends the account of a connection that is closed. It returns how many arrived
// and paid bytes remain unread. What is owed for other bytes is not paid any more.
func (r *receiveWindow) countUnread() (n int) {
	n = max(r.unread-max(-r.paid, 0), 0)
	r.unread, r.paid = 0, max(r.paid, 0)
	return n
}

// surplus takes back credit for bytes that cannot arrive before the next read, because the
// peer's announced window is only promised bytes. The next read pays for them again.
func (r *receiveWindow) surplus(promised int) (back int) {
	back = max(r.paid-max(promised, 0), 0)
	r.paid -= back
	return back
}

// endExchange sets the next phase: nothing more arrives until something is requested. It
// returns the credit to refund.
func (r *receiveWindow) endExchange(next exchangePhase) (back int) {
	r.state = next
	back = max(r.paid, 0)
	r.paid -= back
	return back
}
