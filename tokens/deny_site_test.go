package tokens

import (
	"testing"
	"time"
)

// A token that one site denies stays in use at others, until a second site denies it.
func TestATokenThatOneSiteDeniesIsPutAwayThereAlone(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	deny := func(site string) Decision {
		w.now = w.now.Add(time.Second)
		return w.pool.Deny(w.now, w.token("a"), Answer{Status: 401, Sent: w.now, Site: site}, nil)
	}
	at := func(site string) State { return w.pool.Availability(w.now, w.token("a"), site).State }
	deny("one.test")
	if at("one.test") != Quarantined || at("one.test GET /x") != Quarantined || at("two.test GET /x") != Ready {
		t.Fatalf("one site has denied it: %v there, %v at another", at("one.test"), at("two.test"))
	}
	if until := w.pool.Begin(w.now, w.token("a"), "two.test"); !until.IsZero() {
		t.Errorf("it may not go to another site until %v", until)
	}
	w.now = w.now.Add(time.Second)
	w.pool.Success(w.now, w.token("a"), Answer{Status: 200, Sent: w.now, Site: "two.test"}, nil)
	if at("one.test") != Quarantined {
		t.Error("a success elsewhere ends the quarantine")
	}
	saved := w.pool.SavedStates(w.now)
	if len(saved) != 1 || saved[0].Site != "one.test" {
		t.Errorf("%+v is kept", saved)
	}
	other := newWorld(t, "a=s1", "b=s2")
	other.pool.Restore(other.now, saved)
	if s := other.pool.Availability(other.now, other.token("a"), "two.test").State; s != Ready {
		t.Errorf("after a restart it is %v at another site", s)
	}
	w.now = w.now.Add(time.Second)
	w.pool.Deny(w.now, w.token("a"), Answer{Status: 403, Sent: w.now, Site: "two.test"}, nil)
	if at("three.test") != Ready {
		t.Error("a forbidden page puts it away everywhere")
	}
	deny("two.test")
	if at("one.test") != Quarantined || at("two.test") != Quarantined || at("three.test") != Quarantined {
		t.Errorf("two sites have denied it: %v, %v, %v", at("one.test"), at("two.test"), at("three.test"))
	}
}
