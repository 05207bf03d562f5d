package proxy

import (
	"fmt"
	"testing"
	"time"
)

var (
	day0   = time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	aHost  = refusedKey{client: "127.0.0.1", host: "api.test"}
	others = []refusedKey{{client: "127.0.0.2", host: "api.test"}, {client: "127.0.0.1", host: "other.test"}, {client: "127.0.0.1", host: "api.test", program: "curl-1"}}
)

// refuseAll has a client refuse the last connection of a row, and returns for how long https is tunnelled.
func refuseAll(h *refusedHosts, now time.Time, key refusedKey) time.Duration {
	row, _ := h.trials.Peek(key)
	row.failed, row.alert, row.first = refusalsInRow-1, true, now.Add(-comesBack)
	h.trials.Add(key, row)
	return h.rejected(now, now, key, true)
}

func TestACertainRefusalCountsForThatClientAndHostAloneWhenItComesBackLate(t *testing.T) {
	h := newRefusedHosts()
	if passesAt(h, day0, aHost) {
		t.Error("a host passes unread that nobody refused")
	}
	h.rejected(day0, day0, aHost, true)
	if h.stayedAway(day0.Add(comesBack-1), aHost) > 0 || h.stayedAway(day0.Add(comesBack), aHost) == 0 || !passesAt(h, day0.Add(comesBack), aHost) {
		t.Error("a client that has accepted nothing meanwhile is not believed")
	}
	for _, key := range others {
		if h.stayedAway(day0.Add(time.Hour), key) > 0 || passesAt(h, day0, key) {
			t.Errorf("%v is closed by another one's refusal", key)
		}
	}
	if h.rejected(day0.Add(comesBack), day0, aHost, true) != 0 {
		t.Error("the refusal of a connection that was opened before is news")
	}
}

func TestAClientThatRefusesOneAfterTheOtherIsBelievedAfterSomeSeconds(t *testing.T) {
	h, now := newRefusedHosts(), day0
	for h.rejected(now, now, aHost, true) == 0 {
		if now = now.Add(100 * time.Millisecond); now.After(day0.Add(comesBack)) {
			t.Fatal("it is not believed")
		}
	}
	if now.Before(day0.Add(comesBack)) {
		t.Errorf("it is believed after %v", now.Sub(day0))
	}
}

// TestConnectionsOpenedAtOnceAreOneRefusal: a browser that ignores certificates refuses each of its first
// connections once, and comes back at once.
func TestConnectionsOpenedAtOnceAreOneRefusal(t *testing.T) {
	h := newRefusedHosts()
	for i := range 6 {
		if h.rejected(day0.Add(time.Duration(i)*time.Millisecond), day0.Add(-time.Second), aHost, true) > 0 {
			t.Fatalf("connection %d closes the host", i+1)
		}
	}
	h.accepted(day0, aHost)
	for n := range 50 { // more connections, each refused once
		now := day0.Add(time.Duration(n) * time.Minute)
		if h.rejected(now, now, aHost, true) > 0 {
			t.Fatal("the host is closed although requests come through")
		}
		h.accepted(now, aHost)
	}
}

func TestSilentClosesCountAfterThreeInARow(t *testing.T) {
	h := newRefusedHosts()
	for i := range refusalsInRow {
		if got, want := h.rejected(day0, day0, aHost, false) > 0, i == refusalsInRow-1; got != want {
			t.Errorf("close %d: %v", i+1, got)
		}
	}
}

func TestConnectionsThatAClientDidNotNeedAreNoRefusals(t *testing.T) {
	h := newRefusedHosts()
	h.rejected(day0, day0, aHost, false)
	h.accepted(day0, aHost)
	for range 10 * refusalsInRow {
		if h.rejected(day0, day0, aHost, false) > 0 {
			t.Fatal("a client whose requests come through is taken for one that refuses")
		}
	}
}

func TestAProgramWithoutTheCADoesNotCloseAHostForOneThatWorksBesideIt(t *testing.T) {
	h := newRefusedHosts()
	for range 100 {
		h.accepted(day0, aHost)
		if h.rejected(day0, day0, aHost, true)+h.rejected(day0, day0, aHost, true) > 0 {
			t.Fatal("the host is closed although requests come through between the refusals")
		}
	}
	if late := day0.Add(comesBack); h.stayedAway(late, aHost) > 0 || h.rejected(late, late, aHost, true) == 0 {
		t.Error("three refusals in a row do not count")
	}
}

func TestEachRefusalInARowHasTheHostPassUnreadForLonger(t *testing.T) {
	for _, restart := range []bool{false, true} {
		h, now := newRefusedHosts(), day0
		for i, want := range []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour, 36 * time.Hour, 36 * time.Hour} {
			if got := refuseAll(h, now, aHost); got != want {
				t.Fatalf("refusal %d: %v, want %v", i+1, got, want)
			}
			if restart {
				h = restoredHosts(h, now)
			}
			if !passesAt(h, now.Add(want-time.Second), aHost) {
				t.Errorf("refusal %d: it is tried again too early", i+1)
			}
			if now = now.Add(want); passesAt(h, now, aHost) {
				t.Errorf("refusal %d: it is not tried again", i+1)
			}
			now = now.Add(24 * time.Hour) // the next connection may come much later
			if restart {
				h = restoredHosts(h, now)
			}
		}
	}
}

func TestAnAcceptedConnectionHasRefusalsCountedFromTheBeginning(t *testing.T) {
	h, now := newRefusedHosts(), day0
	for range 5 {
		now = now.Add(refuseAll(h, now, aHost))
	}
	h.accepted(now, aHost)
	h = restoredHosts(h, now)
	if got := refuseAll(h, now, aHost); got != unreadPeriods[0] {
		t.Errorf("after an accepted connection: %v", got)
	}
	// A connection that was opened before the refusal does not end the period.
	if h.accepted(now, aHost); !passesAt(h, now, aHost) {
		t.Error("the period ended early")
	}
}

func TestRefusalsAreForgottenAfterThirtyDays(t *testing.T) {
	h := newRefusedHosts()
	refuseAll(h, day0, aHost)
	if len(h.all(day0.Add(refusalsKept-time.Second))) != 1 {
		t.Error("forgotten too early")
	}
	late := day0.Add(refusalsKept)
	if len(h.all(late)) > 0 {
		t.Error("never forgotten")
	}
	if got := refuseAll(h, late, aHost); got != unreadPeriods[0] {
		t.Errorf("the next refusal counts for %v", got)
	}
	if h.forget(); passesAt(h, late, aHost) {
		t.Error("not forgotten when it was asked for")
	}
}

// passesAt tells whether https passes unread at a time.
func passesAt(h *refusedHosts, now time.Time, key refusedKey) bool {
	_, ok := h.passes(now, key)
	return ok
}

// restoredHosts is h after a restart.
func restoredHosts(h *refusedHosts, now time.Time) *refusedHosts {
	next := newRefusedHosts()
	for _, one := range h.all(now) {
		next.restore(now, one)
	}
	return next
}

func TestRefusalsFromTheFutureEndInTime(t *testing.T) {
	h := newRefusedHosts()
	h.restore(day0, refusedHost{Client: aHost.client, Host: aHost.host, Since: day0.AddDate(5, 0, 0), Until: day0.AddDate(5, 0, 2)})
	if longest := unreadPeriods[len(unreadPeriods)-1]; !passesAt(h, day0, aHost) || passesAt(h, day0.Add(longest), aHost) {
		t.Error("a clock that was set back makes a refusal last for years")
	}
}

func TestRefusedHostsAreBounded(t *testing.T) {
	h := newRefusedHosts()
	for i := range 3 * maxRefusedHosts {
		if key := (refusedKey{client: "127.0.0.1", host: fmt.Sprint(i)}); i%2 == 0 {
			refuseAll(h, day0, key)
		} else {
			h.rejected(day0, day0, key, false)
		}
		h.accepted(day0, refusedKey{client: "127.0.0.1", host: fmt.Sprint("ok", i)})
	}
	if n := len(h.all(day0)); n > maxRefusedHosts || h.trials.Len() > maxRefusedHosts {
		t.Errorf("%d are kept", n)
	}
	if last := fmt.Sprint(3*maxRefusedHosts - 2); !passesAt(h, day0, refusedKey{client: "127.0.0.1", host: last}) {
		t.Error("the newest one had to leave")
	}
}
