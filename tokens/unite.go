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
	p.join(now, x, y)
	p.publish(nil)
	return true
}

// join makes one account of two. It has the lesser name, so that it has the same one
// wherever it is found out.
func (p *Pool) join(now time.Time, x, y *account) {
	if y.stable < x.stable {
		x, y = y, x
	}
	x.join(now, y)
	for _, s := range p.states {
		if s.account.Load() == y {
			s.account.Store(x)
		}
	}
	p.version.Add(1)
}
