package tokens

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/policy"
)

// saved is what a file would have of the pool.
func (w *world) saved() []SavedState {
	w.t.Helper()
	text, err := json.Marshal(w.pool.SavedStates(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	var list []SavedState
	if err := json.Unmarshal(text, &list); err != nil {
		w.t.Fatal(err)
	}
	return list
}

// restarted is another process with other tokens, some time later by its clock.
func (w *world) restarted(after time.Duration, list ...string) *world {
	w.t.Helper()
	n := newWorld(w.t, list...)
	n.now = w.now.Add(after)
	n.pool.Restore(n.now, w.saved())
	return n
}

func TestATokensStableNameIsThatOfItsSecretInItsPool(t *testing.T) {
	w, n := newWorld(t, "a=s1", "b=s2"), newWorld(t, "=s2", "x=s1")
	if a := w.token("a").Stable(); a != n.token("x").Stable() || a == w.token("b").Stable() || len(a) != 32 {
		t.Fatal(a)
	}
	if w.token("b").Stable() != n.token("1").Stable() {
		t.Fatal("a label is in the name")
	}
	p, err := New(start, policy.Pool{Name: "q", Put: bearer()}, loaded("a=s1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Find("a").Stable() == w.token("a").Stable() {
		t.Fatal("two pools share budgets")
	}
	// It is written down, so it never changes.
	if got, want := w.token("a").Stable(), "287b4be6871d933bcb0136c9113f3501"; got != want {
		t.Fatal(got)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", w.token("a"), w.pool, w.pool.Set()), fmt.Sprintf("%+v", w.pool.Status(w.now))} {
		if strings.Contains(text, w.token("a").Stable()) {
			t.Fatal("it is shown:", text)
		}
	}
}

func TestARestartForgetsNothingOfTokens(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2", "c@x=s3", "d@x=s4", "e=s5")
	if got := w.pool.SavedStates(w.now); len(got) != 0 {
		t.Fatal(got)
	}
	_, _ = w.pool.Switch("a", "stolen")
	w.deny("b", 401, nil)
	w.pass(10 * time.Minute)
	w.deny("b", 401, nil)
	if got := w.saved(); len(got) != 2 {
		t.Fatal(got)
	}
	n := w.restarted(time.Minute, "a=s1", "b2=s2", "@x=s3", "d@x=s4", "e=s5")
	if s := n.pool.Availability(n.now, n.token("a"), ""); s != (availability{State: Disabled, Why: "stolen"}) || len(n.pool.Set().Tokens()) != 4 {
		t.Fatal(s)
	}
	n.is("b2", "", Quarantined, 19*time.Minute)
	if s := n.pool.Availability(n.now, n.token("b2"), ""); s.Why != "401" {
		t.Fatal(s)
	}
	c, d, e := n.token("3"), n.token("d"), n.token("e")
	if c.Budget() != d.Budget() || c.Budget() == e.Budget() || n.pool.Stable(c.Budget()) != w.pool.Stable(w.token("c").Budget()) {
		t.Fatal(c.Budget(), d.Budget(), e.Budget())
	}
	if got := n.saved(); !reflect.DeepEqual(got, w.saved()) {
		t.Fatalf("%+v\n%+v", got, w.saved())
	}
	// The next quarantine is the third.
	n.pass(19 * time.Minute)
	if at := n.pool.Begin(n.now, n.token("b2"), ""); !at.IsZero() {
		t.Fatal(at)
	}
	n.deny("b2", 401, nil)
	n.is("b2", "", Quarantined, 40*time.Minute)
}

func TestWhatIsRememberedOfATokenWaitsForIt(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2", "c=s3")
	_, _ = w.pool.Switch("a", "by the operator")
	n := w.restarted(time.Minute, "x=s9")
	if got := n.saved(); len(got) != 1 || got[0].Left.IsZero() {
		t.Fatal(got)
	}
	again := n.restarted(time.Minute, "x=s9", "b=s2")
	again.reload("x=s9", "b=s2", "a=s1", "c=s3")
	again.is("a", "", Disabled, 0)
	n.pass(retention + time.Hour)
	n.reload("x=s9")
	if got := n.pool.SavedStates(n.now); len(got) != 0 {
		t.Fatal("for ever:", got)
	}
}

// The clock may be an hour behind or a day, and then the memory is from the future.
func TestAQuarantineFromTheFutureIsNoLongerThanItWas(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, -24 * time.Hour, -1000 * time.Hour} {
		w := newWorld(t, "a=s1", "b=s2")
		w.deny("a", 401, nil)
		n := w.restarted(by, "a=s1", "b=s2")
		if by < 0 {
			n.is("a", "", Quarantined, 10*time.Minute)
			n.pass(10 * time.Minute)
		}
		n.is("a", "", Ready, 0)
		n.deny("a", 401, nil)
		n.is("a", "", Quarantined, 20*time.Minute)
	}
}

func TestTheVersionGrowsWithWhatIsRemembered(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2", "c=s3")
	at := w.pool.Version()
	changes := func(what string, does bool) {
		t.Helper()
		if now := w.pool.Version(); (now > at) != does || now < at {
			t.Errorf("%s: %d after %d", what, now, at)
		}
		at = w.pool.Version()
	}
	w.success("a")
	w.pass(time.Second)
	w.pool.Begin(w.now, w.token("a"), "")
	w.pool.Cool(w.now, w.token("a"), "", w.now.Add(time.Second), "")
	w.deny("b", 403, nil)
	w.success("b")
	changes("what is not remembered", false)
	w.pass(time.Second)
	w.deny("a", 401, nil)
	changes("a quarantine", true)
	w.pass(time.Hour)
	w.success("a")
	changes("its end", true)
	_, _ = w.pool.Switch("a", "by the operator")
	changes("disabling", true)
	_, _ = w.pool.Switch("a", "")
	changes("enabling", true)
	w.reload("a=s1")
	changes("a reload", true)
	if w.pool.ApplyQuarantine(w.now, SavedState{Token: w.token("a").Stable(), Quarantined: w.now.Add(time.Minute), Times: 1}) == nil {
		t.Error("it is no news")
	}
	changes("what was heard", true)
	w.pool.Restore(w.now, w.saved())
	changes("what is known", false)
}

func TestAQuarantineThatAnotherInstanceMetIsHeardOnce(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a := w.token("a")
	m := SavedState{Token: a.Stable(), Quarantined: w.now.Add(20 * time.Minute), Times: 2, Why: "401", Disabled: "not shared"}
	if got := w.pool.ApplyQuarantine(w.now, m); got != a {
		t.Fatal(got)
	}
	w.is("a", "", Quarantined, 20*time.Minute)
	shorter := m
	shorter.Quarantined = w.now.Add(time.Minute)
	again := m
	again.Quarantined = again.Quarantined.Add(time.Second) // by another clock
	for _, one := range []SavedState{m, shorter, again, {Token: "nobody"}, {Token: strings.Repeat("00", 16), Quarantined: m.Quarantined}} {
		if got := w.pool.ApplyQuarantine(w.now, one); got != nil {
			t.Fatal(one)
		}
	}
	w.is("a", "", Quarantined, 20*time.Minute)
	w.pool.Success(w.now, a, Answer{Sent: w.now.Add(-time.Second)}, nil) // which was under way
	w.is("a", "", Quarantined, 20*time.Minute)
	w.pass(time.Second)
	w.success("a") // sent after it was known, as by a site that asked for it
	w.is("a", "", Ready, 0)
	w.pool.ApplyQuarantine(w.now, m)
	w.is("a", "", Ready, 0)
	w.pass(time.Second)
	w.deny("a", 401, nil)
	w.is("a", "", Quarantined, 10*time.Minute)
}

// Whatever a file says, nothing becomes shorter by it, and no quarantine is longer than
// the longest.
func TestAnyMemoryOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(start, policy.Pool{Name: "p", Put: bearer()}, loaded("a=s1", "b=s2", "c=s3"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		now := start
		names := []string{"", "zz", strings.Repeat("00", 16), strings.Repeat("ff", 16)}
		for _, one := range p.Set().Tokens() {
			names = append(names, one.Stable())
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "pause")) * time.Second)
			m := SavedState{
				Token: rapid.SampledFrom(names).Draw(t, "token"), Disabled: rapid.SampledFrom([]string{"", "", "why", "\xff\x00"}).Draw(t, "disabled"),
				Times:       rapid.IntRange(-1, 100).Draw(t, "times"),
				Quarantined: now.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "hours")) * time.Hour),
				Left:        now.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, "left")) * time.Hour),
			}
			before := map[string]availability{}
			for _, s := range p.all {
				before[s.shown] = s.state.availability(now, "")
			}
			if rapid.Bool().Draw(t, "hear") {
				p.ApplyQuarantine(now, m)
			} else {
				p.Restore(now, []SavedState{m})
				version := p.Version()
				p.Restore(now, []SavedState{m})
				if p.Version() != version {
					t.Fatal("the same is news again")
				}
			}
			for _, token := range p.all {
				was, s := before[token.shown], token.state.availability(now, "")
				if s.State < was.State || s.State == Quarantined && (s.Until.Before(was.Until) || s.Until.Sub(now) > longestQuarantine) {
					t.Fatalf("%s was %+v and is %+v", token, was, s)
				}
			}
			for _, one := range p.all {
				if p.Stable(one.Budget()) != one.state.account.Load().stable || p.Stable(one.Budget()) > one.Stable() {
					t.Fatal("a budget has no name")
				}
			}
		}
	})
}

func TestTokensInQuarantineAreTriedWhereNoOtherCanBeUsed(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, labels := range [][]string{{"a"}, {"a", "b"}} {
		config := policy.Pool{Name: "x", Put: policy.Placement{Where: "header", Name: "Authorization"}}
		for _, label := range labels {
			config.Tokens = append(config.Tokens, policy.Token{Label: label, Secret: policy.NewSecret("canary-" + label)})
		}
		loaded, err := Load(t.Context(), config, Surroundings{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(now, config, loaded, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		a := p.Find("a")
		p.Restore(now, []SavedState{{Token: a.Stable(), Quarantined: now.Add(10 * time.Minute), Times: 1, Why: "402"}})
		p.TryAgain(now)
		if waits := !p.Begin(now, a, "").IsZero(); waits != (len(labels) > 1) {
			t.Errorf("of %q, a waits: %v", labels, waits)
		}
		if p.Begin(now, a, "").IsZero() {
			t.Errorf("of %q, a second request goes before the first is answered", labels)
		}
	}
}
