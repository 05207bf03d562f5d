package queue

import "time"

// ByteWait is a wait for bytes without a goroutine that waits: see ByteSource.Enter.
type ByteWait struct {
	source *ByteSource
	wait   *byteRequest
}

// Enter is Take without a goroutine that waits. If the ByteWait is not nil, the bytes are
// waited for, and woken is called when the wait is over; then ByteWait.End has its result,
// once. woken is called under the lock of the site, so it only notes the call.
func (t *ByteSource) Enter(n, least int64, woken func()) (granted int64, w *ByteWait, err error) {
	granted, b, err := t.begin(n, least, time.Time{}, wakeFunc(woken))
	if b == nil {
		return granted, nil, err
	}
	return 0, &ByteWait{t, b}, nil
}

// End is the result of the wait. A wait that is not over ends without bytes, with ErrGone.
func (w *ByteWait) End() (granted int64, err error) { return w.source.end(w.wait, ErrGone) }
