package bandwidth

import "time"

// Buffer implements upstream.Windowed.
func (b *SiteBudget) Buffer() int { return int(b.buffer.Load()) }

// Window implements upstream.Windowed: the number of the shortest limit's window. Bytes
// paid for in one window may arrive in the next.
func (b *SiteBudget) Window() int64 {
	if length := b.window.Load(); length > 0 {
		return time.Now().UnixNano() / length
	}
	return 0
}

// Open implements upstream.Windowed. It may use what the queue has reserved for a sent
// request.
func (b *SiteBudget) Open(done <-chan struct{}, n, least int) (int, error) {
	b.limits.UnreserveOffered()
	return b.take(done, n, least, false, 0)
}

// Refill implements upstream.Windowed.
func (b *SiteBudget) Refill(done <-chan struct{}, n, least int, patience time.Duration) (int, error) {
	return b.take(done, n, least, true, patience)
}
