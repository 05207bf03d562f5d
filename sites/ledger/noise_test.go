package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// random refuses a share of the requests, whatever the rate is, and those that another origin refuses.
type random struct {
	origin
	share float64
	next  func() float64
}

func (o random) arrive(at float64) reply {
	r := silentReply()
	if r.refused = o.next() < o.share; !r.refused && o.origin != nil {
		r.refused = o.origin.arrive(at).refused
	}
	return r
}

// TestRefusalsAtRandomAreToldFromALimit: they slow nothing for long, and a limit beside them is kept.
func TestRefusalsAtRandomAreToldFromALimit(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.01, 0.05, 0.3} {
		for _, limited := range []bool{false, true} {
			served, refused, wrongly := 0, 0, false
			const crawls, length = 4, 1000.
			for seed := range uint64(crawls) {
				dice := dice(3 + seed)
				o := random{share: share, next: dice.Float64}
				if limited {
					o.origin = &drip{limit: 20, rate: 5}
				}
				p := NewHiddenRate(History{})
				s := run{origin: o, meter: p, flying: 8, fastest: .045, slowest: .055, length: length, random: dice}
				s.hear = func(now, sent time.Time, r reply) {
					if r.refused {
						p.Refused(now, Refusal{Sent: sent})
					}
				}
				r := s.do()
				for _, at := range r.times {
					if at > length/2 {
						served++
					}
				}
				refused += r.refused
				wrongly = wrongly || share == 0 && p.Found(seconds(length)).AtRandom > 0
			}
			most := 160 * (1 - share) // eight at once, of which each takes 50 ms
			if limited {
				most = 5
			}
			most *= crawls * length / 2
			t.Logf("%g %% at random, a limit %v: %.2f of what is possible, %d refused", 100*share, limited, float64(served)/most, refused)
			part := 0.5
			if share > 0.1 {
				part = 0.1
			}
			if least := part * most; float64(served) < least {
				t.Errorf("%g %% at random, a limit %v: %d served in the second half, and at least %.0f are expected", 100*share, limited, served, least)
			}
			if wrongly {
				t.Errorf("refusals of a limit, %v, are taken for noise", limited)
			}
		}
	}
}

// TestAnOutageAfterTheFirstAnswerSaysNothingOfARate: robots.txt was answered, and then nothing for 20 s. The rate was found from
// that one answer and the length of the outage.
func TestAnOutageAfterTheFirstAnswerSaysNothingOfARate(t *testing.T) {
	p := NewHiddenRate(History{Accepted: 1, Lasted: 100 * time.Millisecond})
	sent := seconds(0)
	p.Refused(sent, Refusal{Sent: sent, Failure: true})
	for {
		sent, _ = p.When(sent, 1)
		p.Take(sent, 1)
		if sent.After(seconds(20)) {
			break
		}
		p.Refused(sent, Refusal{Sent: sent, Failure: true})
		p.Done(sent, sent, 1, limit.Refused)
	}
	p.Done(sent, sent, 1, limit.Success)
	if rate := p.Rate(); rate > 0 && rate < 5 {
		t.Errorf("%.3f requests a second after an outage", rate)
	}
}

// TestRefusalsBetweenOthersInFlightAreNoRow: two refusals shortly after one another were taken for a limit, although those sent between
// had no answer yet. With 32 in flight, one refusal in a hundred made a crawl 3.6 times slower.
func TestRefusalsBetweenOthersInFlightAreNoRow(t *testing.T) {
	t.Parallel()
	for between, alone := range map[int]bool{0: false, 16: true} {
		p := NewHiddenRate(History{Accepted: 100, Lasted: 2 * time.Second})
		now := seconds(10)
		p.Refused(now, Refusal{Sent: seconds(9.9)})
		for i := range between + 2 {
			p.Take(now.Add(time.Duration(i)*time.Millisecond), 1)
		}
		p.Done(seconds(10.01), now, 1, limit.Success)
		p.Take(seconds(10.02), 1)
		first, last := seconds(10.02), seconds(10.04)
		for i := range between {
			p.Take(first.Add(time.Duration(i+1)*time.Millisecond), 1)
		}
		p.Take(last, 1)
		p.Refused(last, Refusal{Sent: first})
		if _, got := p.Refused(last, Refusal{Sent: last}); got != alone {
			t.Errorf("%d without an answer between two refusals: the second says nothing of others: %t", between, got)
		}
	}
}
