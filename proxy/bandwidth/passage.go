package bandwidth

import (
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
)

// atOnce is the number of bytes of a body in virtual time that are asked for at once.
const atOnce = 64 << 10

// passage is a body that passes a budget in virtual time.
type passage struct {
	budget *SiteBudget
	clock  clock.Clock
	left   int64 // bytes
	done   func(whole bool)
	number int             // of times that bytes were asked for
	wait   *queue.ByteWait // nil: no bytes are waited for
	stall  clock.Timer     // ends the wait
}

// Pass has the n bytes of a body pass in virtual time, without a goroutine. It calls done at
// once or later, in the goroutine that steps the clock. whole is false for a body that has
// paused for longer than the stall of its limits. A paused body gets no trickle.
func (b *SiteBudget) Pass(c clock.Clock, n int64, done func(whole bool)) {
	p := &passage{budget: b, clock: c, left: n, done: done}
	p.goOn()
}

// goOn takes what there is.
func (p *passage) goOn() {
	for p.left > 0 && p.budget.Budgeted() {
		p.number++
		granted, wait, err := p.budget.limits.Enter(min(p.left, atOnce), max(p.budget.minimum.Load(), 1), p.wakeFrom(p.number))
		switch {
		case err != nil:
			p.done(false)
			return
		case wait != nil:
			p.wait = wait
			p.stall = p.clock.AfterFunc(time.Duration(p.budget.stall.Load()), p.stalled)
			return
		}
		p.left -= granted
	}
	p.done(true)
}

// wakeFrom ends the wait with a number. It is called under the lock of the site.
func (p *passage) wakeFrom(number int) func() {
	return func() { p.clock.AfterFunc(0, func() { p.woken(number) }) }
}

// woken continues after the wait with a number.
func (p *passage) woken(number int) {
	if p.wait == nil || p.number != number {
		return // its stall was over at the same moment
	}
	granted, err := p.end()
	if err != nil {
		p.done(false)
		return
	}
	p.left -= granted
	p.goOn()
}

// stalled ends a body that has paused for too long.
func (p *passage) stalled() {
	if granted, err := p.end(); err == nil { // it was woken at the same moment
		p.left -= granted
		p.goOn()
		return
	}
	p.done(false)
}

// end ends the wait.
func (p *passage) end() (granted int64, err error) {
	p.stall.Stop()
	granted, err = p.wait.End()
	p.wait = nil
	return granted, err
}
