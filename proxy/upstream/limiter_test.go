package upstream

import (
	"errors"
	"sync"
	"testing"
	"time"
)

var errStill = errors.New("no credit within the stall")

// testBudget is a ByteLimiter whose credit comes in steps. Connections hold nothing of it.
type testBudget struct {
	tally
	mu      sync.Mutex
	credit  int
	free    bool // no limit now
	broke   bool // who waits has waited too long
	shut    bool // all wait, whatever the credit
	waiting int
	least   int // that the last of them waits for
	asked   int
	granted int64 // less what was given back
	change  chan struct{}
}

func newTestBudget(credit int) *testBudget {
	return &testBudget{credit: credit, change: make(chan struct{})}
}

// tell lets everybody look again. The lock is held.
func (p *testBudget) tell() {
	close(p.change)
	p.change = make(chan struct{})
}

func (p *testBudget) Budgeted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.free
}

func (p *testBudget) Credit(done <-chan struct{}, _ *time.Time, n int, _ func() (unread, spare int64)) (int, error) {
	return p.take(done, n, 1)
}

func (p *testBudget) Open(done <-chan struct{}, _ *time.Time, _, n int) (granted, held int, err error) {
	granted, err = p.take(done, n, 1)
	return granted, 0, err
}

func (p *testBudget) Release(int, int)  {}
func (p *testBudget) Crowded() bool     { return false }
func (p *testBudget) Buffer() int       { return 2 * defaultReceiveBuffer }
func (p *testBudget) CountedOnly() bool { return false }
func (p *testBudget) Pay(int)           {}

// take waits for at least so much.
func (p *testBudget) take(done <-chan struct{}, n, least int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	p.waiting++
	defer func() { p.waiting-- }()
	for p.credit < least || p.shut {
		if p.broke {
			return 0, errStill
		}
		select {
		case <-done:
			return 0, errors.New("done")
		default:
		}
		change := p.change
		p.least = least
		p.mu.Unlock()
		select {
		case <-change:
		case <-done:
		}
		p.mu.Lock()
	}
	n = min(n, p.credit)
	p.credit -= n
	p.granted += int64(n)
	return n, nil
}

func (p *testBudget) Refund(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credit += n
	p.granted -= int64(n)
	p.tell()
}

// grant adds n to the credit.
func (p *testBudget) grant(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credit += n
	p.tell()
}

func (p *testBudget) set(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	p.tell()
}

func (p *testBudget) look() (granted int64, asked, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted, p.asked, p.waiting
}

// empty tells whether somebody waits although all the credit has been used.
func (p *testBudget) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.credit < max(p.least, 1) && p.waiting > 0
}

// held waits until that is so.
func (p *testBudget) held(t *testing.T) {
	t.Helper()
	soon(t, "waiting for credit", p.empty)
}

// balanced is for when all is over: nothing was kept and nothing passed by.
func (p *testBudget) balanced(t *testing.T) {
	t.Helper()
	soon(t, "using what was granted, and no more", func() bool {
		granted, _, waiting := p.look()
		return granted == p.in.Load()+p.out.Load() && waiting == 0
	})
}
