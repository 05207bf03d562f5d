package samples

import (
	"time"

	"github.com/abide-proxy/abide/status"
)

// TokenKey names a token.
type TokenKey struct{ Pool, Label string }

// State is the state of a token in a step. Of several states in a step the greatest is stored.
type State uint8

const (
	Unknown State = iota // nobody looked
	Ready
	Partly  // put away for some routes
	Used    // requests were sent with it
	Spent   // nothing is left of a limit
	Cooling // a site asked for a pause
	Disabled
	Quarantined
)

// states are those that a status.Token has.
var states = map[string]State{
	"ready": Ready, "spent": Spent, "cooling": Cooling, "disabled": Disabled, "quarantined": Quarantined,
}

// StateOf is the state of a token that is not in use.
func StateOf(t *status.Token) State {
	state := states[t.State]
	if state == Ready && len(t.Routes) > 0 {
		return Partly
	}
	return state
}

// Timeline is the state of a token in each step, oldest first.
type Timeline [Points]State

// timeline has the samples of a token. The zero value is empty.
type timeline struct {
	states [Points]State // :: step modulo Points → its state
	last   int64         // the last step with a state
	uses   uint64
	began  bool
}

// add adds how a token is now.
func (l *timeline) add(now time.Time, t *status.Token) {
	state := StateOf(t)
	if t.State == "ready" && l.began && t.Uses != l.uses {
		state = Used
	}
	step := stepOf(now)
	for next := max(l.last+1, step-Points+1); next <= step; next++ {
		l.states[next%Points] = Unknown
	}
	l.last = max(l.last, step)
	l.states[step%Points] = max(l.states[step%Points], state)
	l.began, l.uses = true, t.Uses
}

// read is the timeline until now.
func (l *timeline) read(now time.Time) (list Timeline) {
	last := stepOf(now)
	for i := range list {
		step := last - Points + 1 + int64(i)
		if step > l.last-Points && step <= l.last {
			list[i] = l.states[step%Points]
		}
	}
	return list
}
