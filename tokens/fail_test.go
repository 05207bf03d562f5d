package tokens

import (
	"strconv"
	"testing"
	"time"
)

func (w *world) fail(label string, status int, d *Denials) Decision {
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

// TestPagesThatAreForbiddenDoNotStopACrawlWithOneToken: 403 may be about the pages.
func TestPagesThatAreForbiddenDoNotStopACrawlWithOneToken(t *testing.T) {
	w := many(t, 2)
	w.success("t0")
	w.pool.Deny(w.now, w.token("t1"), Answer{Status: 402, Reason: "no credit", Sent: w.now}, nil)
	for range 10 {
		w.pass(time.Second)
		w.deny("t0", 403, &Denials{})
		w.is("t0", "", Ready, 0)
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
	for n := range failuresToTryAnother - 1 + contradictionsToQuarantine {
		w.is("t0", "", Ready, 0)
		var d Denials
		result := w.fail("t0", 422, &d)
		if result.Again != (n >= failuresToTryAnother-1) {
			t.Fatalf("failure %d: %+v", n+1, result)
		}
		put := w.pool.Success(w.now, w.token("t1"), Answer{Status: 200, Sent: w.now}, &d).Quarantined
		if last := n == failuresToTryAnother-2+contradictionsToQuarantine; (len(put) == 1) != last {
			t.Fatalf("failure %d: %v", n+1, put)
		}
	}
	w.is("t0", "", Quarantined, 10*time.Minute)
	if a := w.pool.Availability(w.now, w.token("t0"), ""); a.Why != "422 where another token succeeds" {
		t.Error(a.Why)
	}
	w.pass(10 * time.Minute)
	w.pool.Begin(w.now, w.token("t0"), "")
	var d Denials
	if result := w.fail("t0", 422, &d); result.Until.IsZero() || !result.Again {
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
func TestASuccessOfATokenEndsItsQuarantine(t *testing.T) {
	w := many(t, 2)
	sent := w.now.Add(time.Second)
	w.deny("t0", 401, nil)
	result := w.pool.Success(w.now, w.token("t0"), Answer{Status: 200, Sent: sent}, nil)
	if len(result.Released) != 1 || result.Released[0].Label() != "t0" {
		t.Errorf("the queue is not told: %+v", result)
	}
	w.is("t0", "", Ready, 0)
}

// TestATokenThatWasTriedForTheRequestIsNoReasonToKeepADeadOne: it may go again for the next.
func TestATokenThatWasTriedForTheRequestIsNoReasonToKeepADeadOne(t *testing.T) {
	w := many(t, 2)
	w.success("t0")
	w.pass(time.Second)
	var d Denials
	w.deny("t0", 403, &d)
	if result := w.pool.Deny(w.now, w.token("t1"), Answer{Status: 402, Reason: "no credit", Sent: w.now}, &d); result.Last || result.Until.IsZero() {
		t.Errorf("%+v", result)
	}
	w.is("t1", "", Quarantined, 10*time.Minute)
}

func TestRequestsThatFailWithEachTokenAreSeldomTriedTwice(t *testing.T) {
	w := many(t, 2)
	twice := 0
	for n := range 1000 {
		var d Denials
		label, other := "t0", "t1"
		if n%2 == 1 {
			label, other = other, label
		}
		result := w.fail(label, 404, &d)
		if !result.Again {
			continue
		}
		twice++
		if result := w.fail(other, 404, &d); result.Again || len(result.Quarantined) > 0 {
			t.Fatalf("%+v", result)
		}
	}
	if twice > 20 {
		t.Errorf("%d of 1000 requests were sent twice", twice)
	}
	w.is("t0", "", Ready, 0)
	w.is("t1", "", Ready, 0)
}

// TestARouteThatRefusesEveryTokenIsNotTheTokensFault, however many requests go there, also beside
// each other, and each is tried with one token.
func TestARouteThatRefusesEveryTokenIsNotTheTokensFault(t *testing.T) {
	w := many(t, 3)
	labels := []string{"t0", "t1", "t2"}
	for _, label := range labels {
		w.success(label)
	}
	tries := 0
	for n := range 300 { // 50 minutes
		w.pass(10 * time.Second)
		var d Denials
		for i := range labels {
			tries++
			label := labels[(n+i)%3]
			if !w.pool.Deny(w.now, w.token(label), Answer{Status: 403, Sent: w.now, Route: "api.test GET /admin"}, &d).Again {
				break
			}
		}
		if n%3 == 0 {
			w.success(labels[n/3%3])
		}
		for _, label := range labels {
			w.is(label, "", Ready, 0)
		}
	}
	if tries > 306 {
		t.Errorf("300 requests were sent %d times", tries)
	}
	w.pass(time.Second)
	w.pool.Success(w.now, w.token("t0"), Answer{Status: 200, Sent: w.now, Route: "api.test GET /admin"}, nil)
	for range denialsToQuarantine {
		w.pass(time.Second)
		w.pool.Deny(w.now, w.token("t1"), Answer{Status: 403, Sent: w.now, Route: "api.test GET /admin"}, nil)
	}
	w.is("t1", "", Quarantined, 10*time.Minute)
}

func TestRoutesThatRefuseAreBounded(t *testing.T) {
	w := many(t, 2)
	for n := range 2 * maxRoutes {
		w.pool.refuses(w.now, strconv.Itoa(n))
	}
	if len(w.pool.refusing) != maxRoutes {
		t.Errorf("%d routes", len(w.pool.refusing))
	}
	w.pass(refusingFor)
	w.pool.refuses(w.now, "another")
	if len(w.pool.refusing) != 1 {
		t.Errorf("%d routes later", len(w.pool.refusing))
	}
}
