package sites

import (
	"time"

	"github.com/abide-proxy/abide/status"
)

// pace measures a hidden limit of which it is not known whether it is that of one route or of all. If it is that of all, nothing is left at each
// of its refusals, so what all routes have had accepted until the next success tells its rate. The zero value has seen no refusal.
type pace struct {
	of    string    // the template of the route that it has refused alone; "": all
	began time.Time // when requests began
	saved float64   // accepted until its first refusal
	total float64   // accepted until its last refusal
	at    time.Time // its last refusal

	resumed time.Time // when the first request was sent that it accepted after that; zero: none
	since   float64   // requests of all accepted after the last refusal
	own     float64   // of these, those that it has accepted since resumed
	latest  time.Time // when the last of these was sent
	over    float64   // of the others, those that are more than a limit of all lets pass
	leaked  time.Time // until when the rate has been taken from over
}

// rate is the rate of a limit of all, or that at which the limit has accepted requests since its last refusal. Until it accepts one, that is
// what it has accepted in a second at least: few limits have shorter windows.
func (p *pace) rate() float64 {
	if p.resumed.IsZero() {
		return p.total / max(p.at.Sub(p.began).Seconds(), 1)
	}
	return max(p.total/max(p.resumed.Sub(p.began).Seconds(), 1e-3), p.own/max(p.latest.Sub(p.resumed).Seconds(), 1))
}

// accept counts a success of a request of a route that was sent at a time.
func (p *pace) accept(sent time.Time, route string) {
	p.since++
	if p.at.IsZero() || !sent.After(p.at) {
		return
	}
	of := p.of == "" || route == p.of
	if of && p.resumed.IsZero() {
		p.resumed, p.latest = sent, sent
	}
	p.over = max(p.over-p.rate()*max(sent.Sub(p.leaked).Seconds(), 0), 0)
	p.leaked = status.Later(p.leaked, sent)
	if of {
		p.own, p.latest = p.own+1, status.Later(p.latest, sent)
	} else {
		p.over++
	}
}

// refuse notes a refusal by the limit, that of a route or ("") of all.
func (p *pace) refuse(now time.Time, route string, all *use) {
	if p.at.IsZero() && len(all.starts) > 0 {
		p.began, p.since = all.starts[0].At, float64(all.accepted)
	}
	total := p.total + p.since
	if p.at.IsZero() || p.of != route {
		p.saved = total
	}
	*p = pace{of: route, began: p.began, saved: p.saved, total: total, at: now, leaked: now}
}

// outruns reports whether the others have had much more accepted than a limit of all lets pass, so that the limit is the route's.
func (p *pace) outruns() bool { return p.of != "" && p.over > 2*p.saved+fewAccepted }

// closed reports whether a limit of all has accepted nothing since it refused, so that it refuses any route.
func (p *pace) closed() bool { return p.of == "" && !p.at.IsZero() && p.resumed.IsZero() }

// short reports whether much less has been accepted since the last refusal than the limit lets pass, so that another one refuses now.
func (p *pace) short(now time.Time) bool {
	return !p.resumed.IsZero() && p.since+1 < min(p.saved, p.rate()*now.Sub(p.at).Seconds())/2
}
