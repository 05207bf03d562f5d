package tokens

import (
	"testing"
	"time"
)

func (w *world) fail(label string, status int, d *Denials) (denyResult, []*Token) {
	w.pass(time.Second)
	return w.pool.Fail(w.now, w.token(label), Answer{Status: status, Sent: w.now}, d)
}

// TestATokenThatIsNotPaidForIsPutAwayAtOnce: its refusals name the reason, so the request is
// never the cause, even where a second token is refused, too.
func TestATokenThatIsNotPaidForIsPutAwayAtOnce(t *testing.T) {
	w := many(t, 5)
	for _, token := range w.pool.Set().Tokens() {
		w.success(token.Label())
	}
	w.pass(time.Second)
	var d Denials
	for i, label := range []string{"t0", "t1", "t2", "t3", "t4"} {
		result := w.pool.Deny(w.now, w.token(label), Answer{Status: 402, Reason: "no credit", Sent: w.now}, &d)
		if result.Again != (i < 4) || result.Last != (i == 4) || len(result.Released) > 0 {
			t.Errorf("%s: %+v", label, result)
		}
		if i < 4 {
			w.is(label, "", Quarantined, 10*time.Minute)
		}
		if a := w.pool.Availability(w.now, w.token(label), ""); a.Why != "402: no credit" {
			t.Errorf("%s: %s", label, a.Why)
		}
	}
}

// TestTheLastTokenWithoutCreditStaysInUse: its answers tell a client more than a wait would.
func TestTheLastTokenWithoutCreditStaysInUse(t *testing.T) {
	w := newWorld(t, "a=s1")
	w.success("a")
	for n := range 5 {
		w.pass(time.Second)
		result := w.pool.Deny(w.now, w.token("a"), Answer{Status: 402, Reason: "no credit", Sent: w.now}, &Denials{})
		if result.Again || result.Last != (n == 0) {
			t.Errorf("denial %d: %+v", n+1, result)
		}
		w.is("a", "", Ready, 0)
	}
	if a := w.pool.Availability(w.now, w.token("a"), ""); a.Why != "402: no credit" {
		t.Error(a.Why)
	}
	w.pass(time.Second)
	w.success("a")
	if a := w.pool.Availability(w.now, w.token("a"), ""); a.Why != "" {
		t.Error(a.Why)
	}
}

func TestA402WithoutAReasonIsLikeA401(t *testing.T) {
	w := many(t, 2)
	w.success("t0")
	w.success("t1")
	w.pass(time.Second)
	var d Denials
	if result := w.deny("t0", 402, &d); !result.Again || result.Until.IsZero() {
		t.Errorf("%+v", result)
	}
	if result := w.deny("t1", 402, &d); len(result.Released) != 1 {
		t.Errorf("the page has a price, and the tokens are blamed: %+v", result)
	}
}

// TestATokenThatFailsWhereAnotherSucceedsIsPutAway, whatever it is answered.
func TestATokenThatFailsWhereAnotherSucceedsIsPutAway(t *testing.T) {
	w := many(t, 2)
	for n := range 3 {
		var d Denials
		result, _ := w.fail("t0", 422, &d)
		if result.Again != (n == 2) {
			t.Fatalf("failure %d: %+v", n+1, result)
		}
		if !result.Again {
			w.success("t1")
			continue
		}
		put := w.pool.Success(w.now, w.token("t1"), Answer{Status: 200, Sent: w.now}, &d)
		if len(put) != 1 || put[0].Label() != "t0" {
			t.Fatal(put)
		}
	}
	w.is("t0", "", Quarantined, 10*time.Minute)
	if a := w.pool.Availability(w.now, w.token("t0"), ""); a.Why != "422 where another token succeeds" {
		t.Error(a.Why)
	}
	w.pass(10 * time.Minute)
	w.pool.Begin(w.now, w.token("t0"), "")
	var d Denials
	if result, _ := w.fail("t0", 422, &d); result.Until.IsZero() || !result.Again {
		t.Errorf("it fails still: %+v", result)
	}
	w.is("t0", "", Quarantined, 20*time.Minute)
	w.pass(20 * time.Minute)
	w.pool.Begin(w.now, w.token("t0"), "")
	w.success("t0")
	w.is("t0", "", Ready, 0)
}

// TestRequestsThatFailWithEachTokenAreSeldomTriedTwice: a list of pages that are gone is no
// reason to doubt a token, and costs few requests more.
func TestRequestsThatFailWithEachTokenAreSeldomTriedTwice(t *testing.T) {
	w := many(t, 2)
	twice := 0
	for n := range 1000 {
		var d Denials
		label, other := "t0", "t1"
		if n%2 == 1 {
			label, other = other, label
		}
		result, _ := w.fail(label, 404, &d)
		if !result.Again {
			continue
		}
		twice++
		if result, put := w.fail(other, 404, &d); result.Again || len(put) > 0 {
			t.Fatalf("%+v %v", result, put)
		}
	}
	if twice > 20 {
		t.Errorf("%d of 1000 requests were sent twice", twice)
	}
	w.is("t0", "", Ready, 0)
	w.is("t1", "", Ready, 0)
}
