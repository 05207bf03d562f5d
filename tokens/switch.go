package tokens

import (
	"slices"
	"strings"
	"time"
)

// Switch is what an operator has last said of a token: not to use it, or to use it again.
type Switch struct {
	Token    string    `json:"token"`              // Token.Stable
	Disabled string    `json:"disabled,omitempty"` // why; "" is that it may be used
	Given    time.Time `json:"given"`
}

// farthestSwitch is how far ahead the clock of who gave a switch may be.
const farthestSwitch = 24 * time.Hour

// Switches are those that this process was told, by the names of the tokens. Those that
// it has heard of are not among them.
func (p *Pool) Switches() []Switch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Switch
	for _, s := range p.states {
		if s.switchedHere {
			list = append(list, Switch{Token: s.stable, Disabled: s.disabled, Given: s.switched})
		}
	}
	slices.SortFunc(list, func(a, b Switch) int { return strings.Compare(a.Token, b.Token) })
	return list
}

// Obey takes over what another process was told, if it is the latest. It answers
// the token if that changes anything, and what is later if that is not the latest.
func (p *Pool) Obey(now time.Time, o Switch) (changed *Token, later *Switch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.known[o.Token]
	switch {
	case s == nil, o.Given.Equal(s.switched), o.Given.After(now.Add(farthestSwitch)):
		return nil, nil
	case o.Given.Before(s.switched):
		return nil, &Switch{Token: s.stable, Disabled: s.disabled, Given: s.switched}
	}
	s.switched, s.switchedHere = o.Given, false
	why := printable(o.Disabled)
	if (why == "") == (s.disabled == "") {
		return nil, nil
	}
	p.use(s, why)
	for _, t := range p.all {
		if t.state == s {
			return t, nil
		}
	}
	return nil, nil
}

// use takes a token out of use, or back into it.
func (p *Pool) use(s *state, disabled string) {
	s.disabled = disabled
	if disabled == "" {
		s.reject(rejection{})
		s.trial = time.Time{}
	}
	p.version.Add(1)
	p.publish(nil)
}
