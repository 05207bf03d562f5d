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

// TestTheFirstBanShowsTheWindow: 40 requests that took 1.3 s may have used up a window of 5 s, and each wrong rate is a ban.
func TestTheFirstBanShowsTheWindow(t *testing.T) {
	for took, most := range map[time.Duration]float64{900 * time.Millisecond: 20, 1300 * time.Millisecond: 8, 2600 * time.Millisecond: 4} {
		p, v := NewHiddenRate(History{Accepted: 40, Lasted: took}), seconds(10)
		for range 3 {
			p.Take(v, 1)
			p.Refused(v.Add(20*time.Millisecond), Refusal{Sent: v, Block: true})
			p.Done(v.Add(20*time.Millisecond), v, 1, limit.Refused)
			v, _ = p.When(v.Add(20*time.Millisecond), 1)
		}
		if p.Rate() > most || p.Rate() < most*0.9 {
			t.Errorf("%.2f a second after a ban of 40 requests in %v", p.Rate(), took)
		}
	}
}

// TestABanIsOverWhenItEnds: a ban of a minute was asked for after 5, 31 and 122 s, so that its end was seen a minute late. One that
// each request prolongs ends, too.
func TestABanIsOverWhenItEnds(t *testing.T) {
	t.Parallel()
	for ban, most := range map[time.Duration]time.Duration{20 * time.Second: 33 * time.Second, time.Minute: 63 * time.Second, 2 * time.Minute: 125 * time.Second} {
		for _, prolonged := range []bool{false, true} {
			p, began := NewHiddenRate(History{Accepted: 50, Lasted: 10 * time.Second}), seconds(100)
			now, until := began, began.Add(ban)
			for n := 0; ; n++ {
				now, _ = p.When(now, 1)
				p.Take(now, 1)
				if !now.Before(until) {
					break
				}
				if prolonged {
					until = now.Add(ban)
				}
				p.Refused(now, Refusal{Sent: now, Block: true})
				p.Done(now, now, 1, limit.Refused)
				if n > 20 {
					t.Fatalf("a ban of %v never ends", ban)
				}
			}
			if took := now.Sub(began); !prolonged && took > most || took > 6*ban {
				t.Errorf("a ban of %v, prolonged %t, was over for abide after %v", ban, prolonged, took)
			}
		}
	}
}
