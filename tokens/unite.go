package tokens

import "time"

// Unite says that two tokens are of one account: what one may not do, the other may
// not either. It answers whether that is news. Their Budget is the same from then
// on, so requests that wait should be given other alternatives.
func (p *Pool) Unite(now time.Time, a, b *Token) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, y := a.state.account.Load(), b.state.account.Load()
	if x == y {
		return false
	}
	if y.key < x.key { // whichever way round they are named
		x, y = y, x
	}
	x.join(now, y)
	for _, s := range p.states {
		if s.account.Load() == y {
			s.account.Store(x)
		}
	}
	p.publish(nil)
	return true
}
