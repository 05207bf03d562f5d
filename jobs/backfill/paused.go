package backfill

import (
	"context"
	"sync"
)

// pausing lets workers wait while the job is paused. The zero value is not paused.
type pausing struct {
	mu     sync.Mutex
	resume chan struct{} // closed at the end of the pause; nil: not paused
}

// set pauses, or ends the pause.
func (p *pausing) set(pause bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case pause && p.resume == nil:
		p.resume = make(chan struct{})
	case !pause && p.resume != nil:
		close(p.resume)
		p.resume = nil
	}
}

func (p *pausing) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resume != nil
}

// wait waits for the end of a pause.
func (p *pausing) wait(ctx context.Context) error {
	p.mu.Lock()
	resume := p.resume
	p.mu.Unlock()
	if resume == nil {
		return ctx.Err()
	}
	select {
	case <-resume:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
