package tokens

import (
	"net/http"
	"testing"
	"time"
)

func (w *world) deny(label string, status int, d *Denials) Decision {
	return w.pool.Deny(w.now, w.token(label), Answer{Status: status, Sent: w.now}, d)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func TestATokenThatAnswers401IsQuarantinedAndTriedAgainEverMoreSeldom(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a := w.token("a")
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		if at := w.pool.Begin(w.now, a, ""); !at.IsZero() {
			t.Fatal(at)
		}
		var d Denials
		if denyResult := w.deny("a", 401, &d); !denyResult.Again || !denyResult.Until.Equal(w.now.Add(want*time.Minute)) {
			t.Fatalf("%d: %+v", i, denyResult)
		}
		w.is("a", "", Quarantined, want*time.Minute)
		w.pass(want*time.Minute - 1)
		w.is("a", "", Quarantined, 1)
		w.pass(1)
		w.is("a", "", Ready, 0)
	}
	w.success("a")
	w.pass(time.Second)
	w.deny("a", 401, nil)
	w.is("a", "", Quarantined, 10*time.Minute)
}

func TestOneRequestTriesATokenThatComesFromQuarantine(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a := w.token("a")
	w.deny("a", 401, nil)
	if at := w.pool.Begin(w.now, a, ""); !at.Equal(w.now.Add(10 * time.Minute)) {
		t.Fatal(at)
	}
	w.pass(10 * time.Minute)
	first := w.now
	if at := w.pool.Begin(w.now, a, ""); !at.IsZero() {
		t.Fatal(at)
	}
	w.pass(time.Second)
	if at := w.pool.Begin(w.now, a, ""); !at.Equal(first.Add(trialTimeout)) {
		t.Fatal(at)
	}
	w.pool.EndWithoutAnswer(a, w.now) // somebody else's request
	if at := w.pool.Begin(w.now, a, ""); at.IsZero() {
		t.Fatal("two at once")
	}
	w.pool.EndWithoutAnswer(a, first)
	if at := w.pool.Begin(w.now, a, ""); !at.IsZero() {
		t.Fatal("nobody tries it")
	}
	w.success("a")
	for range 3 {
		if at := w.pool.Begin(w.now, a, ""); !at.IsZero() {
			t.Fatal(at)
		}
	}
}

func TestThree403InARowQuarantineAToken(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	for range 2 {
		w.deny("a", 403, nil)
		w.deny("a", 403, nil)
		w.is("a", "", Ready, 0)
		w.pass(time.Second)
		w.success("a")
		w.pass(time.Second)
	}
	w.deny("a", 403, nil)
	w.deny("a", 403, nil)
	if denyResult := w.deny("a", 403, nil); denyResult.Until.IsZero() {
		t.Fatal(denyResult)
	}
	w.is("a", "", Quarantined, 10*time.Minute)
}

func TestRequestsThatWereUnderWayDoNotMakeAQuarantineLonger(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a, sent := w.token("a"), w.now
	w.pass(time.Second)
	for range 5 {
		w.pool.Deny(w.now, a, Answer{Status: 401, Sent: sent}, nil)
	}
	w.is("a", "", Quarantined, 10*time.Minute)
	w.pass(11 * time.Minute)
	w.pool.Deny(w.now, a, Answer{Status: 401, Sent: sent}, nil) // a very slow one
	w.is("a", "", Ready, 0)
	w.pool.Begin(w.now, a, "")
	w.deny("a", 401, nil)
	w.is("a", "", Quarantined, 20*time.Minute)
}

func TestAnAnswerThatIsOlderThanWhatIsKnownChangesNothing(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a, old := w.token("a"), w.now
	w.pass(time.Second)
	w.success("a")
	w.pool.Deny(w.now, a, Answer{Status: 401, Sent: old}, nil)
	w.is("a", "", Ready, 0)
	w.pass(time.Second)
	w.deny("a", 401, nil)
	w.pool.Success(w.now, a, Answer{Sent: w.now.Add(-time.Second)}, nil)
	w.is("a", "", Quarantined, 10*time.Minute)
	w.pool.Success(w.now, a, Answer{Sent: w.now}, nil)
	w.is("a", "", Ready, 0)
}

func TestOneDeadTokenOfFiveIsReplacedByAnotherAndQuarantined(t *testing.T) {
	w := many(t, 5)
	for i := 1; i < 5; i++ {
		w.success([]string{"", "t1", "t2", "t3", "t4"}[i])
	}
	w.pass(time.Second)
	var d Denials
	denyResult := w.deny("t0", 401, &d)
	if !denyResult.Again {
		t.Fatal("the client would see it")
	}
	w.success("t3")
	set := w.pool.Set()
	if i := set.pickFor([]int{0, 1, 2, 3, 4}, w.now, &d); i != 3 {
		t.Fatal("t3 was accepted last, not", i)
	}
	w.pool.Success(w.now, w.token("t3"), Answer{Sent: w.now}, &d)
	w.is("t0", "", Quarantined, 10*time.Minute)
	if d != (Denials{}) {
		t.Fatal("they are answered")
	}
}

// Some sites answer 401 when somebody asks for what is not public.
func TestARequestThatAProvenTokenIsDeniedForToo(t *testing.T) {
	w := many(t, 3)
	w.success("t0")
	w.success("t1")
	for range 2 {
		w.pass(time.Second)
		var d Denials
		if denyResult := w.deny("t0", 401, &d); !denyResult.Again || denyResult.Until.IsZero() {
			t.Fatal(denyResult)
		}
		denyResult := w.deny("t1", 401, &d)
		if denyResult.Again || !denyResult.Until.IsZero() || len(denyResult.Released) != 2 {
			t.Fatalf("%+v", denyResult)
		}
		w.is("t0", "", Ready, 0)
		w.is("t1", "", Ready, 0)
	}
}

func TestAcquittalsAreNotWithoutEnd(t *testing.T) {
	w := many(t, 12)
	for _, one := range w.pool.Set().Tokens() {
		w.success(one.Label())
	}
	seen := 0
	for range 200 { // all of them are revoked
		w.pass(time.Millisecond)
		set := w.pool.Set()
		var d Denials
		for {
			var ready []int
			for i, one := range set.Tokens() {
				if w.pool.Availability(w.now, one, "").State == Ready {
					ready = append(ready, i)
				}
			}
			if len(ready) == 0 {
				break
			}
			token := set.Tokens()[set.pickFor(ready, w.now, &d)]
			seen++
			if !w.deny(token.Label(), 401, &d).Again {
				break
			}
		}
	}
	if s := w.pool.Status(w.now); s.Ready > 0 || seen > 2*12*(denialsToQuarantine+2) {
		t.Fatalf("%v after %d requests", s, seen)
	}
}

func TestADenialThatAnotherRequestHasConfirmedStays(t *testing.T) {
	w := many(t, 3)
	w.success("t0")
	w.success("t1")
	w.success("t2")
	w.pass(time.Second)
	var denials, other Denials
	w.deny("t0", 401, &denials)
	w.pool.Deny(w.now, w.token("t0"), Answer{Status: 401, Sent: w.now.Add(-time.Millisecond)}, &other)
	if denyResult := w.deny("t1", 401, &denials); len(denyResult.Released) != 2 {
		t.Fatal(denyResult)
	}
	guilty := w.pool.Success(w.now, w.token("t2"), Answer{Sent: w.now}, &other).Quarantined
	if len(guilty) != 1 || guilty[0].Label() != "t0" {
		t.Fatal(guilty)
	}
	w.is("t0", "", Quarantined, 10*time.Minute)
	w.is("t1", "", Ready, 0)
}

func TestA403ThatAnotherTokenDoesNotGetIsOneInARow(t *testing.T) {
	w := many(t, 2)
	for i := range 3 {
		w.is("t0", "", Ready, 0)
		var d Denials
		if denyResult := w.deny("t0", 403, &d); !denyResult.Again || !denyResult.Until.IsZero() {
			t.Fatal(i, denyResult)
		}
		if guilty := w.pool.Success(w.now, w.token("t1"), Answer{Sent: w.now}, &d).Quarantined; (guilty != nil) != (i == 2) {
			t.Fatal(guilty)
		}
		w.pass(time.Second)
	}
	w.is("t0", "", Quarantined, 10*time.Minute-time.Second)
}

func TestManyForbiddenPagesAtOnceQuarantineNobody(t *testing.T) {
	w := many(t, 2)
	w.success("t0")
	w.success("t1")
	w.pass(time.Second)
	d := make([]Denials, 2)
	for i := range d {
		w.deny("t0", http.StatusForbidden, &d[i])
	}
	for i := range d {
		w.deny("t1", http.StatusForbidden, &d[i])
	}
	for range 2 {
		w.deny("t0", http.StatusForbidden, nil)
	}
	w.is("t0", "", Ready, 0) // two in a row, since the first two were acquitted
	w.is("t1", "", Ready, 0)
}

func TestATokenAloneIsAskedThreeTimes(t *testing.T) {
	w := newWorld(t, "a=s1")
	w.success("a")
	var d Denials
	for range 2 {
		if denyResult := w.deny("a", 401, &d); denyResult.Again || !denyResult.Until.IsZero() {
			t.Fatal(denyResult)
		}
		d = Denials{}
	}
	if denyResult := w.deny("a", 401, &d); denyResult.Again || denyResult.Until.IsZero() {
		t.Fatal(denyResult)
	}
	w = newWorld(t, "a=s1") // nobody has ever accepted it
	if denyResult := w.deny("a", 401, nil); denyResult.Until.IsZero() {
		t.Fatal(denyResult)
	}
}

func TestARequestIsTriedWithThreeTokensAtMost(t *testing.T) {
	w := many(t, 12)
	var d Denials
	for i, label := range []string{"t0", "t1", "t2"} {
		if denyResult := w.deny(label, 401, &d); denyResult.Again != (i < 2) {
			t.Fatal(i, denyResult)
		}
		w.is(label, "", Quarantined, 10*time.Minute)
	}
	if set := w.pool.Set(); set.pickFor([]int{0, 1, 2, 3}, w.now, &d) != 3 {
		t.Fatal("one that was denied already")
	}
}

func TestEnablingATokenEndsItsQuarantine(t *testing.T) {
	w := many(t, 2)
	w.deny("t0", 401, nil)
	if _, err := w.pool.Switch("t0", ""); err != nil {
		t.Fatal(err)
	}
	w.is("t0", "", Ready, 0)
}

func TestWhatOneRequestIsDeniedTwiceCountsOnce(t *testing.T) {
	w := many(t, 2)
	w.success("t0")
	w.pass(time.Second)
	var d Denials
	if denyResult := w.deny("t0", http.StatusForbidden, &d); !denyResult.Again {
		t.Fatal("the other was not asked")
	}
	for range denialsToQuarantine {
		if denyResult := w.deny("t0", http.StatusForbidden, &d); denyResult.Again || !denyResult.Until.IsZero() {
			t.Fatal(denyResult)
		}
	}
	w.is("t0", "", Ready, 0)
}
