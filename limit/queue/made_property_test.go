package queue

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// budgetAudit keeps its own books of what a server has said.
type budgetAudit struct {
	whole, left int64
	reset       time.Time
	window      time.Duration
	alone       bool
}

func (a *budgetAudit) granted(t *rapid.T, now time.Time, flying, n int64) {
	if !now.Before(a.reset) {
		a.reset = now.Add(a.window)
		a.left = a.whole
	}
	if a.left -= n; a.left < 0 {
		t.Fatalf("%d more than the server allows", -a.left)
	}
	if a.alone && flying > 0 {
		t.Fatalf("it does not go alone: %d are in flight", flying)
	}
}

// drawMade adds a resource whose meter a function made.
func (m *model) drawMade(t *rapid.T, i int) {
	whole := rapid.Int64Range(1, 12).Draw(t, "whole")
	window := time.Duration(rapid.IntRange(1, 90).Draw(t, "window")) * time.Second
	b := newBudget(whole, window)
	b.alone = rapid.Bool().Draw(t, "alone")
	res := m.s.newResource(fmt.Sprint("made ", i), b, nil)
	m.slots = append(m.slots, res)
	m.audits[res] = &audit{
		slot: res, spec: limit.Spec{Amount: whole},
		made: &budgetAudit{whole: whole, left: whole, window: window, alone: b.alone},
	}
}

// drawTelling lets a server say something.
func (m *model) drawTelling(t *rapid.T) {
	a := m.audits[rapid.SampledFrom(m.slots).Draw(t, "slot")]
	if a.made == nil {
		return
	}
	a.made.left = rapid.Int64Range(0, a.made.whole).Draw(t, "left")
	a.made.reset = m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "reset")) * time.Second)
	a.made.alone = rapid.IntRange(0, 3).Draw(t, "alone") == 0
	a.slot.updateMeter(m.now, func(_ time.Time, meter limit.Meter) {
		b := meter.(*budget)
		b.left, b.reset, b.alone = a.made.left, a.made.reset, a.made.alone
	})
}

// wantExhausted checks that a limit with Refuse blocks each alternative of a hold that was
// refused.
func (m *model) wantExhausted(h *hold) {
	for _, needs := range h.needs {
		kept := false
		for _, n := range needs {
			kept = kept || n.refuse && n.resource.when(m.now, n.n).After(m.now)
		}
		if !kept {
			m.t.Fatalf("it is refused for limits that have enough, or for which it would wait")
		}
	}
}
