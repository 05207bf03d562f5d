package proxy

import (
	"fmt"
	"testing"
	"time"
)

var (
	day0   = time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	aHost  = refusedKey{"127.0.0.1", "api.test"}
	others = []refusedKey{{"127.0.0.2", "api.test"}, {"127.0.0.1", "other.test"}}
)

func TestACertainRefusalCountsAtOnceForThatClientAndHostAlone(t *testing.T) {
	h := newRefusedHosts()
	if h.passes(day0, aHost) {
		t.Error("a host passes unread that nobody refused")
	}
	if !h.rejected(day0, aHost, true) || !h.passes(day0, aHost) {
		t.Error("a certain refusal does not count at once")
	}
	for _, key := range others {
		if h.passes(day0, key) {
			t.Errorf("%v is closed by another one's refusal", key)
		}
	}
	if h.rejected(day0, aHost, true) {
		t.Error("the refusal of a connection that was opened before is news")
	}
}

func TestSilentClosesCountAfterThreeInARow(t *testing.T) {
	h := newRefusedHosts()
	for i := range refusalsInRow {
		if got, want := h.rejected(day0, aHost, false), i == refusalsInRow-1; got != want {
			t.Errorf("close %d: %v", i+1, got)
		}
	}
}

func TestConnectionsThatAClientDidNotNeedAreNoRefusals(t *testing.T) {
	h := newRefusedHosts()
	h.rejected(day0, aHost, false)
	h.accepted(aHost)
	for range 10 * refusalsInRow {
		if h.rejected(day0, aHost, false) {
			t.Fatal("a client whose requests come through is taken for one that refuses")
		}
	}
}

func TestAProgramWithoutTheCADoesNotCloseAHostForOneThatWorksBesideIt(t *testing.T) {
	h := newRefusedHosts()
	for range 100 {
		h.accepted(aHost)
		if h.rejected(day0, aHost, true) || h.rejected(day0, aHost, true) {
			t.Fatal("the host is closed although requests come through between the refusals")
		}
	}
	if !h.rejected(day0, aHost, true) {
		t.Error("three refusals in a row do not count")
	}
}

func TestAJobOfEveryDayIsRefusedOnceInThirtyDays(t *testing.T) {
	h, refused := newRefusedHosts(), 0
	for day := range 60 {
		now := day0.Add(time.Duration(day)*24*time.Hour + time.Duration(day%7)*time.Minute)
		if !h.passes(now, aHost) {
			h.rejected(now, aHost, true)
			refused++
		}
		// Each run is a process of its own.
		next := newRefusedHosts()
		for _, one := range h.all(now) {
			next.restore(now, one)
		}
		h = next
	}
	if refused != 2 {
		t.Errorf("it was refused %d times in 60 days", refused)
	}
}

func TestARefusalIsForgottenWhenTheClientStaysAway(t *testing.T) {
	h := newRefusedHosts()
	h.rejected(day0, aHost, true)
	if !h.passes(day0.Add(refusedFor-time.Second), aHost) {
		t.Error("forgotten too early")
	}
	if h.passes(day0.Add(3*refusedFor), aHost) || len(h.all(day0.Add(3*refusedFor))) > 0 {
		t.Error("never forgotten")
	}
	h.rejected(day0, aHost, true)
	h.forget()
	if h.passes(day0, aHost) {
		t.Error("not forgotten when it was asked for")
	}
}

func TestRefusalsFromTheFutureEndInTime(t *testing.T) {
	h := newRefusedHosts()
	h.restore(day0, refusedHost{Client: aHost.client, Host: aHost.host, Since: day0.AddDate(5, 0, 0), Until: day0.AddDate(5, 0, 2)})
	if !h.passes(day0, aHost) || h.passes(day0.Add(3*refusedFor), aHost) {
		t.Error("a clock that was set back makes a refusal last for years")
	}
}

func TestRefusedHostsAreBounded(t *testing.T) {
	h := newRefusedHosts()
	for i := range 3 * maxRefusedHosts {
		h.rejected(day0, refusedKey{"127.0.0.1", fmt.Sprint(i)}, i%2 == 0)
		h.accepted(refusedKey{"127.0.0.1", fmt.Sprint("ok", i)})
	}
	if n := len(h.all(day0)); n > maxRefusedHosts || h.trials.Len() > maxRefusedHosts {
		t.Errorf("%d are kept", n)
	}
	if last := fmt.Sprint(3*maxRefusedHosts - 2); !h.passes(day0, refusedKey{"127.0.0.1", last}) {
		t.Error("the newest one had to leave")
	}
}
