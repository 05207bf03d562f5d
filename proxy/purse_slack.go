package proxy

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

// Slack is upstream.Generous's: a fleet has it together.
func (p *purse) Slack() int64 { return p.slack.Load() / int64(p.server.instances()) }

// Stretch is upstream.Generous's.
func (p *purse) Stretch(sizes ...int64) (n int64, back func()) {
	slack := p.tap.Slack(p.server.instances(), sizes...)
	if slack == nil {
		return 0, nil
	}
	return slack.Bytes(), slack.End
}

// Buffer is upstream.Windowed's.
func (p *purse) Buffer() int { return int(p.buffer.Load()) }

// Window is upstream.Windowed's: that of the shortest limit, for what was paid for in
// one of those may come in the next.
func (p *purse) Window() int64 {
	if length := p.window.Load(); length > 0 {
		return time.Now().UnixNano() / length
	}
	return 0
}

// Open is upstream.Windowed's. What the queue keeps for a request that was sent is for
// that.
func (p *purse) Open(done <-chan struct{}, n, least int) (int, error) {
	p.tap.TakeLent()
	return p.draw(done, n, least, false, 0)
}

// Refill is upstream.Windowed's.
func (p *purse) Refill(done <-chan struct{}, n, least int, patience time.Duration) (int, error) {
	return p.draw(done, n, least, true, patience)
}

// windowOf is the shortest window of some limits; 0 is longer than anything takes.
func windowOf(limits []queue.Limit) int64 {
	least := int64(0)
	for i := range limits {
		if s := limits[i].Spec; s != nil && s.Window > 0 && (least == 0 || int64(s.Window) < least) {
			least = int64(s.Window)
		}
	}
	return least
}

// instances is how many keep the same limits.
func (s *Server) instances() int {
	if s.desk == nil || !s.desk.shared {
		return 1
	}
	return s.desk.size()
}

// grainTime is for how long what comes evenly is let come together. Byte by byte it
// would be more work than it is worth.
const grainTime = 2 * time.Millisecond

// grainOf is the least that is drawn at once: of the slowest bucket, what comes in that
// time. Other limits have all at once, or nothing for long.
func grainOf(limits []queue.Limit) int64 {
	least := int64(math.MaxInt64)
	for i := range limits {
		if s := limits[i].Spec; s != nil && s.As == limit.Bucket && s.Window > 0 {
			least = min(least, int64(float64(s.Amount)/float64(s.Window)*float64(grainTime)))
		}
	}
	if least == math.MaxInt64 {
		return 1
	}
	return max(least, 1)
}
