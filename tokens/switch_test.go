package tokens

import (
	"testing"
	"time"
)

// TestTheLatestSwitchHoldsInAllProcesses: whoever was told last, whatever the clocks say.
func TestTheLatestSwitchHoldsInAllProcesses(t *testing.T) {
	a, b := many(t, 2).pool, many(t, 2).pool
	label := a.all[0].shown
	tell := func(from, to *Pool) (changed bool) {
		for _, one := range from.Switches() {
			token, _ := to.ApplySwitch(time.Now(), one)
			changed = changed || token != nil
		}
		return changed
	}
	disabled := func(want bool) {
		t.Helper()
		for name, p := range map[string]*Pool{"a": a, "b": b} {
			if got := p.Find(label).state.disabled != ""; got != want || len(p.Set().Tokens()) != len(p.all)-map[bool]int{true: 1}[want] {
				t.Errorf("%s: disabled %v, %d tokens are used", name, got, len(p.Set().Tokens()))
			}
		}
	}
	if _, err := a.Switch(label, "by the operator"); err != nil || !tell(a, b) {
		t.Fatal("it is no news", err)
	}
	disabled(true)
	if tell(a, b) || tell(b, a) {
		t.Error("it is news twice")
	}
	// The clock of a is ahead.
	ahead := a.Switches()[0]
	ahead.Given = time.Now().Add(time.Hour)
	a.all[0].state.switchedAt = ahead.Given
	tell(a, b)
	if _, err := b.Switch(label, ""); err != nil || !tell(b, a) {
		t.Error("what a clock that is behind says is lost", err)
	}
	disabled(false)
	if tell(a, b) || len(a.Switches()) != 0 || len(b.Switches()) != 1 {
		t.Error("what is older is still told")
	}
	// Nothing of these changes anything.
	for _, one := range []Switch{
		{},
		{Token: "none", Disabled: "x", Given: time.Now().Add(2 * time.Hour)},
		{Token: ahead.Token, Disabled: "x", Given: ahead.Given},
		{Token: ahead.Token, Disabled: "x", Given: time.Now().Add(1000 * time.Hour)},
	} {
		token, later := a.ApplySwitch(time.Now(), one)
		if token != nil {
			t.Errorf("%+v is obeyed", one)
		}
		if old := one.Token == ahead.Token && one.Given.Equal(ahead.Given); old != (later != nil) || old && (later.Disabled != "" || !later.Given.After(one.Given)) {
			t.Errorf("later than %+v is %+v", one, later)
		}
	}
}
