package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// TestASecondBanShowsTheWindow: a site that bans for 20 s after more than an amount in any 5 s accepts as many before each
// ban, so that a window of a usual length is tried after it.
func TestASecondBanShowsTheWindow(t *testing.T) {
	t.Parallel()
	const amount, window, latency = 20, 5 * time.Second, 20 * time.Millisecond
	p, began := NewHiddenRate(History{}), seconds(1)
	now, banned, bans := began, began, 0
	var accepted []time.Time
	for range 20 * amount {
		now, _ = p.When(now, 1)
		p.Take(now, 1)
		sent, n := now, len(accepted)
		if over := n >= amount && now.Sub(accepted[n-amount]) < window; over && !now.Before(banned) {
			banned = now.Add(20 * time.Second)
			bans++
		}
		now = now.Add(latency)
		if sent.Before(banned) {
			p.Refused(now, Refusal{Sent: sent, Block: true})
			p.Done(now, sent, 1, limit.Refused)
			continue
		}
		accepted = append(accepted, sent)
		p.Done(now, sent, 1, limit.Success)
	}
	rate := float64(len(accepted)) / now.Sub(began).Seconds()
	if bans != 2 || rate < 2.5 {
		t.Errorf("%d bans, and %.1f a second where 4 are allowed", bans, rate)
	}
	if f := p.Found(now); f.Limit == 0 || !f.SoFar {
		t.Errorf("%+v: a higher rate was never tried", f)
	}
}
