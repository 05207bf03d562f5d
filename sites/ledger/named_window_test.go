package ledger

import (
	"fmt"
	"math"
	"testing"
)

// phased is an origin whose clock is ahead.
type phased struct {
	origin
	phase float64
}

func (o phased) arrive(at float64) reply { return o.origin.arrive(at + o.phase) }

// TestAWindowThatRefusalsNameIsKnownAfterARestart: the second crawl is refused once at most, takes no longer than if a window
// was used up before, and the length that is told is not too short.
func TestAWindowThatRefusalsNameIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	const latency = 0.05
	for _, n := range []float64{10, 30} {
		for _, per := range []float64{6, 7, 12} {
			for _, kind := range []string{"first", "clock", "rolling"} {
				for phase := 0.0; phase < per; phase += per / 11 {
					for _, clients := range []int{1, 16} {
						fixed, rolls := &fixedOrigin{limit: n, window: per, aligned: kind == "clock"}, &rolling{limit: n, window: per}
						s := search{origin: phased{fixed, phase}, clients: clients, latency: latency, count: int(7 * n)}
						s.named = func(at float64) float64 { return at + math.Ceil(fixed.start-phase+per-at+latency/2) }
						if kind == "rolling" {
							s.origin = rolls
							s.named = func(at float64) float64 { return at + math.Ceil(rolls.times[0]+per-at+latency/2) }
						}
						name := fmt.Sprintf("%s, %v in %v s, from %.1f s, %d clients", kind, n, per, phase, clients)
						first := s.do()
						s.begin += first.took + 2
						s.known = NewHiddenRate(History{})
						if err := s.known.Restore(seconds(s.begin), first.found.State()); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						second := s.do()
						// The end of a window of the clock may be named late twice, and its beginning is found anew.
						most := 1
						if kind == "clock" {
							most = 2
						}
						if found := second.found.Found(seconds(s.begin + second.took)); second.refused > most || second.took > 7.2*per || found.Window.Seconds() < per || found.Limit != int64(n) {
							t.Errorf("%s: %.1f s, and then %.1f s with %d refused: %+v", name, first.took, second.took, second.refused, found)
						}
					}
				}
			}
		}
	}
}

// TestATrialThatEndsLateDoesNotWait: a trial of more than the limit, of which the last requests are late, ends with its window.
func TestATrialThatEndsLateDoesNotWait(t *testing.T) {
	t.Parallel()
	const began = 100 * second
	w := hiddenWindow{windowKnown: windowKnown{Limit: 10, Length: 20 * second, Start: began, Held: 1}, trial: trying}
	w.recent.begin(w.Length)
	for range trialFactor*w.Limit - 1 {
		w.Taken++
		w.answered(began+w.Taken*w.Length/(trialFactor*w.Limit), false)
	}
	late := began + w.Length + second/10
	if at, ok := w.next(late, late-second, 0, w.Limit); !ok || at > late {
		t.Errorf("after the end of the window, the next request waits for another %.1f s", secondsOf(at-late))
	}
}

// TestANamedTimeThatIsTooLongIsNotBelieved: a site that lets 10 in 2 s pass names 20 s.
func TestANamedTimeThatIsTooLongIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 16} {
		s := search{origin: &fixedOrigin{limit: 10, window: 2}, clients: clients, latency: 0.02, count: 800}
		s.named = func(at float64) float64 { return at + 20 }
		// The trial ends after three windows. What is then left takes 150 s.
		if found := s.do(); found.took > 60+150*1.35 || found.refused > 20 {
			t.Errorf("%d clients: %.0f s, %d refused", clients, found.took, found.refused)
		}
	}
}
