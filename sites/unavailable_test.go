package sites

import (
	"testing"
	"time"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestAnAnswer503IsARefusalBetweenSuccesses, and a failure of a site that has answered nothing
// else.
func TestAnAnswer503IsARefusalBetweenSuccesses(t *testing.T) {
	t.Parallel()
	var u unavailable
	if refuses := u.refuses(noon, noon.Add(-time.Second)); refuses {
		t.Error("a site without a success refuses")
	}
	u.latest = noon.Add(-time.Minute)
	if refuses := u.refuses(noon, noon.Add(-time.Second)); !refuses {
		t.Error("a site that has just answered fails")
	}
	u = unavailable{latest: noon.Add(-longestAnswering - time.Second)}
	if refuses := u.refuses(noon, noon.Add(-time.Second)); refuses {
		t.Error("a site that has not answered for long refuses")
	}
	u = unavailable{latest: noon}
	u.failed(noon)
	if refuses := u.refuses(noon.Add(time.Second), noon); refuses {
		t.Error("a site that fails otherwise refuses")
	}
}

// TestAWindowOfFiveMinutesIsNoOutage: single requests are sent ever later, and the first that
// is refused after five minutes shows an outage.
func TestAWindowOfFiveMinutesIsNoOutage(t *testing.T) {
	t.Parallel()
	u := unavailable{latest: noon}
	for _, after := range []time.Duration{0, 1, 2, 4, 8, 15, 30, 60, 120, 240, 480} {
		now := noon.Add(after * time.Second)
		refuses := u.refuses(now, now.Add(-50*time.Millisecond))
		if outage := after > 300; refuses == outage {
			t.Errorf("after %d s it is a refusal: %v", after, refuses)
		}
	}
	u.succeeded(noon.Add(500*time.Second), noon.Add(500*time.Second))
	if refuses := u.refuses(noon.Add(502*time.Second), noon.Add(501*time.Second)); !refuses {
		t.Error("after a success the site still fails")
	}
}

// TestRequestsSentTogetherAreRefusedOnce: all are answered 503, before any could be delayed.
func TestRequestsSentTogetherAreRefusedOnce(t *testing.T) {
	t.Parallel()
	u := unavailable{latest: noon}
	for i := range 64 {
		if refuses := u.refuses(noon.Add(time.Duration(i)*time.Millisecond), noon.Add(-time.Second)); !refuses {
			t.Fatalf("number %d is taken for an outage", i)
		}
	}
}

// TestSuccessesOfAnotherOriginSayNothing: they make the answers 503 of one no refusals, and its failures make
// those of another no failures.
func TestSuccessesOfAnotherOriginSayNothing(t *testing.T) {
	t.Parallel()
	var a answers
	const steps = 10
	for i := range 3 * steps {
		now := noon.Add(time.Duration(i) * longestUnavailable / steps)
		a.add(now, now, "", "", "well")
		if i < steps {
			a.add(now, now, "", "", "broke")
		}
		if of(&a.origins, "never").refuses(now, now) {
			t.Fatalf("%d: an origin that has answered nothing else refuses", i)
		}
		if refuses := of(&a.origins, "broke").refuses(now, now.Add(time.Millisecond)); i > 2*steps && refuses {
			t.Fatalf("%d: an origin that broke refuses", i)
		}
		of(&a.origins, "fails").failed(now)
		if !of(&a.origins, "well").refuses(now, now) {
			t.Fatalf("%d: an origin fails because another does", i)
		}
	}
}
