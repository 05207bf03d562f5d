package tokens

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestARouteCoolsAloneAndTheWholeTokenWithAllItsRoutes(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	a := w.token("a")
	w.pool.Cool(w.now, a, "GET /x", w.now.Add(time.Minute), "Retry-After")
	w.is("a", "GET /x", Cooling, time.Minute)
	w.is("a", "GET /y", Ready, 0)
	w.is("a", "", Ready, 0)
	w.is("b", "GET /x", Ready, 0)
	w.pool.Spend(w.now, a, "", w.now.Add(time.Hour), "quota")
	w.is("a", "GET /y", Spent, time.Hour)
	w.is("a", "GET /x", Spent, time.Hour)
	w.pool.Cool(w.now, a, "", w.now.Add(time.Minute), "shorter")
	w.is("a", "", Spent, time.Hour)
	w.now = w.now.Add(time.Minute)
	w.is("a", "GET /x", Spent, 59*time.Minute)
	w.now = w.now.Add(59 * time.Minute)
	w.is("a", "GET /x", Ready, 0)
}

func TestTheOperatorTakesATokenOutAndPutsItBack(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	number := w.pool.Set().number
	a := w.token("a")
	if _, err := w.pool.Switch("a", "rotated"); err != nil {
		t.Fatal(err)
	}
	if set := w.pool.Set(); len(set.Tokens()) != 1 || set.Tokens()[0].Label() != "b" || set.number == number {
		t.Fatal(set.Tokens())
	}
	if s := w.pool.Availability(w.now, a, ""); s != (availability{State: Disabled, Why: "rotated"}) {
		t.Fatal(s)
	}
	if w.pool.Begin(w.now, a, "").IsZero() {
		t.Fatal("a request went with a token that is disabled")
	}
	w.reload("a=s1", "b=s2")
	w.is("a", "", Disabled, 0)
	if _, err := w.pool.Switch("a", ""); err != nil {
		t.Fatal(err)
	}
	w.is("a", "", Ready, 0)
	if _, err := w.pool.Switch("nobody", "rotated"); !errors.Is(err, errNoToken) {
		t.Fatal("there is nobody")
	}
}

func TestTheTokenThatWasThrottledLongestAgoGoesNextThenTheOneUsedLongestAgo(t *testing.T) {
	w := many(t, 4)
	var got []string
	for range 8 {
		got = append(got, w.pick())
	}
	if want := "t0 t1 t2 t3 t0 t1 t2 t3"; strings.Join(got, " ") != want {
		t.Fatal(got)
	}
	w.pool.Cool(w.now, w.token("t1"), "r", w.now.Add(time.Second), "")
	w.now = w.now.Add(time.Minute)
	w.pool.Cool(w.now, w.token("t0"), "", w.now.Add(time.Second), "")
	w.now = w.now.Add(time.Minute)
	for _, want := range []string{"t2", "t3", "t2"} {
		if got := w.pick(); got != want {
			t.Fatal(got)
		}
	}
	set := w.pool.Set()
	if i := set.pick([]int{0, 1}, w.now); i != 1 {
		t.Error("t1 was throttled longer ago", i)
	}
	w.pool.Spend(w.now, w.token("t2"), "", w.now.Add(time.Minute), "")
	if i := set.pick([]int{0, 1, 2}, w.now); i != 1 {
		t.Error("another site has spent t2", i)
	}
	if i := set.pick([]int{2}, w.now); i != 2 {
		t.Error("there is no other", i)
	}
	if i := set.pick([]int{4, 0}, w.now); i != 0 {
		t.Error("a request without a token comes last", i)
	}
	if i := set.pick([]int{4}, w.now); i != 4 {
		t.Error(i)
	}
}

func TestWhatIsSpentWithoutARefusalIsNotThrottled(t *testing.T) {
	w := many(t, 2)
	w.pool.Spend(w.now, w.token("t0"), "", w.now.Add(time.Second), "")
	w.now = w.now.Add(time.Minute)
	if got := w.pick(); got != "t0" {
		t.Fatal(got)
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	w := many(t, 1000)
	set := w.pool.Set()
	ready := make([]int, 1000)
	for i := range ready {
		ready[i] = i
	}
	var d Denials
	w.pool.Deny(w.now, set.Tokens()[0], Answer{Status: 401, Sent: w.now}, &d)
	if n := testing.AllocsPerRun(10, func() { set.pick(ready, w.now); set.pickFor(ready, w.now, &d) }); n != 0 {
		t.Fatal(n)
	}
}

func BenchmarkPickAmong1000(b *testing.B) {
	w := many(b, 1000)
	set := w.pool.Set()
	ready := make([]int, 1000)
	for i := range ready {
		ready[i] = i
	}
	for b.Loop() {
		set.pick(ready, w.now)
	}
}

func TestAReloadKeepsTheStateOfSecretsThatStay(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2", "c=s3")
	w.pool.Cool(w.now, w.token("a"), "", w.now.Add(time.Hour), "")
	w.pool.Deny(w.now, w.token("b"), Answer{Status: 401, Sent: w.now}, nil)
	old := w.pool.Set()
	c := w.reload("new=s9", "renamed=s1", "b=s2")
	if fmt.Sprint(c) != "{[new] [c] 3}" {
		t.Fatal(c)
	}
	w.is("new", "", Ready, 0)
	w.is("renamed", "", Cooling, time.Hour)
	w.is("b", "", Quarantined, 10*time.Minute)
	if w.token("renamed").Key() != "a" || w.token("renamed").Budget() != "a" {
		t.Fatal("its meters are lost")
	}
	w.pool.Cool(w.now, old.Tokens()[0], "", w.now.Add(2*time.Hour), "") // a request from before
	w.is("renamed", "", Cooling, 2*time.Hour)
	c = w.reload("a=s8", "renamed=s1")
	if w.token("a").Key() != "a~2" || w.token("a").Budget() != "a~2" {
		t.Fatal("two tokens have one budget:", w.token("a").Key())
	}
	slices.Sort(c.Removed)
	if fmt.Sprint(c) != "{[a] [b new] 2}" {
		t.Fatal(c)
	}
	if _, err := w.pool.Reload(w.now, policy.Pool{Put: bearer()}, &Loaded{}); err == nil {
		t.Fatal("a pool without tokens")
	}
	w.is("renamed", "", Cooling, 2*time.Hour)
}

// An editor empties a file before it writes it.
func TestATokenThatIsAwayForAMomentComesBackAsItWas(t *testing.T) {
	w := newWorld(t, "a=s1", "b=s2")
	w.pool.Cool(w.now, w.token("a"), "", w.now.Add(90*time.Hour), "")
	w.reload("b=s2")
	w.reload("a=s3", "b=s2")
	w.now = w.now.Add(time.Hour)
	w.reload("a=s3", "b=s2", "a2=s1")
	w.is("a2", "", Cooling, 89*time.Hour)
	if w.token("a2").Budget() == w.token("a").Budget() {
		t.Fatal("two tokens have one budget")
	}
	w.reload("b=s2")
	w.now = w.now.Add(26 * time.Hour)
	w.reload("b=s2")
	w.reload("a=s1", "b=s2")
	w.is("a", "", Ready, 0)
}

func TestATokenWithoutALabelKeepsItsNumber(t *testing.T) {
	w := newWorld(t, "=s1", "=s2", "=s3")
	labels := func() string {
		var all []string
		for _, t := range w.pool.Set().Tokens() {
			all = append(all, t.Label()+"="+t.secret.Reveal())
		}
		return strings.Join(all, " ")
	}
	if got := labels(); got != "1=s1 2=s2 3=s3" {
		t.Fatal(got)
	}
	w.reload("=s0", "=s2", "=s3")
	if got := labels(); got != "1=s0 2=s2 3=s3" {
		t.Fatal(got)
	}
	w.reload("=s4", "=s0", "=s3", "2=s5")
	if got := labels(); got != "4=s4 1=s0 3=s3 2=s5" {
		t.Fatal(got)
	}
	w.reload("3=s4", "=s0", "=s3")
	if got := labels(); got != "3=s4 1=s0 4=s3" {
		t.Fatal(got)
	}
	seen := map[string]bool{}
	for _, one := range w.pool.Set().Tokens() {
		if seen[one.Key()] {
			t.Fatal("two tokens have the key", one.Key())
		}
		seen[one.Key()] = true
	}
}

func TestTwinsShareWhatTheirAccountMayDo(t *testing.T) {
	w := newWorld(t, "b=s1", "a=s2", "c=s3")
	a, b, c := w.token("a"), w.token("b"), w.token("c")
	w.pool.Cool(w.now, a, "r", w.now.Add(time.Hour), "")
	w.pool.Cool(w.now, b, "", w.now.Add(time.Minute), "")
	number := w.pool.Set().number
	w.reload("b@x=s1", "a@x=s2", "c=s3")
	if a, b = w.token("a"), w.token("b"); w.pool.Set().number != number+1 {
		t.Fatal("nobody is told")
	}
	if of := w.pool.Stable(a.Budget()); a.Budget() != b.Budget() || c.Budget() != "c" || of != min(a.Stable(), b.Stable()) {
		t.Fatal(a.Budget(), b.Budget(), of)
	}
	w.is("a", "", Cooling, time.Minute)
	w.is("b", "r", Cooling, time.Hour)
	w.is("c", "r", Ready, 0)
	w.pool.Spend(w.now, b, "", w.now.Add(2*time.Hour), "")
	w.is("a", "", Spent, 2*time.Hour)
	w.pool.Deny(w.now, b, Answer{Status: 401, Sent: w.now}, nil)
	w.is("b", "", Quarantined, 2*time.Hour)
	w.is("a", "", Spent, 2*time.Hour) // it is another secret
	w.reload("b@x=s1", "a@x=s2", "c@x=s3")
	a, b, c = w.token("a"), w.token("b"), w.token("c")
	if of := w.pool.Stable(a.Budget()); a.Budget() != c.Budget() || b.Budget() != c.Budget() || of != min(a.Stable(), b.Stable(), c.Stable()) {
		t.Fatal(a.Budget(), b.Budget(), c.Budget(), of)
	}
	w.is("c", "", Spent, 2*time.Hour)
	w.reload("b@x=s1", "c@x=s3")
	w.is("c", "", Spent, 2*time.Hour)
	if s := w.pool.Status(w.now).Tokens; len(s) != 2 || fmt.Sprint(s[0].Twins) != "[c]" || s[0].Label != "b" || s[0].State != "quarantined" {
		t.Fatalf("%+v", s)
	}
}

func TestTwinsTakeTurnsAsOneAccount(t *testing.T) {
	w := newWorld(t, "a1@x=s1", "a2@x=s2", "b=s3")
	count := map[string]int{}
	for range 40 {
		count[w.pick()]++
	}
	if count["b"] != 20 || count["a1"] != 10 || count["a2"] != 10 {
		t.Fatal(count)
	}
}

func TestOfRoutesThatAreTooManyThoseThatCoolShortestAreForgotten(t *testing.T) {
	w := newWorld(t, "a=s1")
	a := w.token("a")
	for i := range maxRoutes {
		w.pool.Cool(w.now, a, fmt.Sprint("r", i), w.now.Add(time.Minute+time.Duration(i)), "")
	}
	w.pool.Cool(w.now, a, "r0", w.now.Add(time.Hour), "")
	w.pool.Cool(w.now, a, "x", w.now.Add(2*time.Minute), "")
	w.is("a", "x", Cooling, 2*time.Minute)
	w.is("a", "r0", Cooling, time.Hour)
	w.is("a", "r1", Ready, 0)
	w.is("a", "r2", Cooling, time.Minute+2)
	w.is("a", "y", Ready, 0)
	w.is("a", "", Ready, 0)
	if at := w.pool.Begin(w.now, a, ""); !at.IsZero() {
		t.Fatal("the whole token cools until", at)
	}
	w.pool.Cool(w.now, a, "", w.now.Add(1<<62), "")
	w.is("a", "y", Cooling, maxPause)
	if s := w.pool.Status(w.now).Tokens[0]; s.State != "cooling" || len(s.Routes) != 0 || s.Refusals != maxRoutes+3 {
		t.Fatalf("%+v", s)
	}
}

func TestStatusTellsTheRoutesThatAreWorseOff(t *testing.T) {
	w := newWorld(t, "b=s1", "a=s2")
	w.pool.Cool(w.now, w.token("a"), "r", w.now.Add(time.Minute), "why")
	w.pool.Begin(w.now, w.token("a"), "q")
	w.success("a")
	s := w.pool.Status(w.now).Tokens
	want := status.Paused{Route: "r", State: "cooling", Until: w.now.Add(time.Minute), Why: "why"}
	if s[0].Label != "a" || len(s[0].Routes) != 1 || s[0].Routes[0] != want || s[0].State != "ready" || !w.token("a").state.proven || s[0].Uses != 1 || !s[0].Throttled.Equal(w.now) {
		t.Fatalf("%+v", s[0])
	}
	if w.token("b").state.proven || !s[1].Throttled.IsZero() || len(s[1].Fingerprint) != 8 || s[1].Fingerprint == s[0].Fingerprint {
		t.Fatalf("%+v", s[1])
	}
}

func TestAccountsThatASourceTakesBackAreTwoAgain(t *testing.T) {
	w := newWorld(t, "a@x=s1", "b@x=s2", "c@y=s3", "d@y=s4")
	same := func(item, other string) bool { return w.token(item).Budget() == w.token(other).Budget() }
	if !same("a", "b") || !same("c", "d") || same("a", "c") {
		t.Fatal("what one source calls an account is not one")
	}
	w.pool.Cool(w.now, w.token("a"), "", w.now.Add(time.Minute), "")
	budget := w.token("c").Budget()
	w.reload("a=s1", "b=s2", "c@z=s3", "d@z=s4")
	if same("a", "b") || !same("c", "d") || w.token("c").Budget() != budget {
		t.Fatal("two are one, or one has another budget")
	}
	w.is("a", "", Cooling, time.Minute)
	w.is("b", "", Cooling, time.Minute)
	w.pool.Cool(w.now, w.token("a"), "", w.now.Add(time.Hour), "")
	w.is("b", "", Cooling, time.Minute)
	stable := w.pool.Stable(w.token("c").Budget())
	if again := newWorld(t, "d@q=s4", "c@q=s3"); again.pool.Stable(again.token("d").Budget()) != stable {
		t.Fatal("another process calls the account otherwise")
	}
}
