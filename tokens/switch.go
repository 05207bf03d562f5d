package tokens

import (
	"slices"
	"strings"
	"time"
)

// Switch is an operator's last command to enable or disable a token. It is broadcast to
// other instances as JSON.
type Switch struct {
	Token    string    `json:"token"`              // its stable name
	Disabled string    `json:"disabled,omitempty"` // reason; "" enables
	Given    time.Time `json:"given"`
}

// command returns the last command about a token.
func (s *state) command() Switch {
	return Switch{Token: s.stable, Disabled: s.disabled, Given: s.switchedAt}
}

// Switches returns the commands given at this process, sorted by stable name. Commands
// received from other instances are not included.
func (p *Pool) Switches() []Switch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Switch
	for _, s := range p.states {
		if s.switchedHere {
			list = append(list, s.command())
		}
	}
	slices.SortFunc(list, func(a, b Switch) int { return strings.Compare(a.Token, b.Token) })
	return list
}

// ApplySwitch applies a command given at another instance, if it is the latest. changed is
// the token whose state it changed. later is the command that this process has instead, if
// that is later.
func (p *Pool) ApplySwitch(now time.Time, o Switch) (changed *Token, later *Switch) {
	const maxSwitchAhead = 24 * time.Hour // clocks differ
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.byStable[o.Token]
	switch {
	case s == nil, o.Given.Equal(s.switchedAt), o.Given.After(now.Add(maxSwitchAhead)):
		return nil, nil
	case o.Given.Before(s.switchedAt):
		return nil, new(s.command())
	}
	s.switchedAt, s.switchedHere = o.Given, false
	why := printable(o.Disabled)
	if (why == "") == (s.disabled == "") {
		return nil, nil
	}
	p.setDisabled(s, why)
	return p.tokenOf(s), nil
}

// tokenOf returns the token with a state, nil if it has left the pool.
func (p *Pool) tokenOf(s *state) *Token {
	return p.first(func(t *Token) bool { return t.state == s })
}

// setDisabled disables a token with a reason, or enables it with "".
func (p *Pool) setDisabled(s *state, disabled string) {
	s.disabled = disabled
	if disabled == "" {
		s.reject(rejection{})
		s.trialSince = time.Time{}
	}
	p.version.Add(1)
	p.publish(nil)
}
