package coalesce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// group has calls that are told of by a word.
type group = Group[string, string]

var patient = Patience{Turn: time.Now().Add(1000 * time.Hour), Whole: time.Minute, Held: func(bool) {}}

// waits waits in the background.
func waits(ctx context.Context, m *Member[string, string], p Patience) <-chan error {
	condition := make(chan error, 1)
	go func() { condition <- m.Wait(ctx, p) }()
	return condition
}

// none tells that nothing is known yet.
func none(t *testing.T, condition <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-condition:
		t.Errorf("it is known already: %v", o)
	default:
	}
}

func join(t *testing.T, g *group, client string, leads bool) *Member[string, string] {
	t.Helper()
	m, ok := g.Join(t.Context(), "a", client)
	if ok != leads {
		t.Fatalf("%s leads: %v", client, ok)
	}
	return m
}

func TestACallThatWaitsIsOpenToItsClientAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		member := join(t, &g, "one", true)
		join(t, &g, "one", false)
		join(t, &g, "two", true)
		member.Sent(true)
		three := join(t, &g, "three", false)
		if three.Call != member.Call {
			t.Error("it joined the later call")
		}
		member.Sent(false)
		join(t, &g, "four", true)
		if n := g.Members(); n != 5 {
			t.Errorf("%d members", n)
		}
	})
}

func TestTheFirstHasAnAnswerAsItComesAndOthersWhenItIsWhole(t *testing.T) {
	for size, want := range map[int]error{maxBody: nil, maxBody + 1: ErrAlone, 5 << 20: ErrAlone} {
		synctest.Test(t, func(t *testing.T) {
			var g group
			whole := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			member, two := join(t, &g, "a", true), join(t, &g, "a", false)
			first, second := waits(t.Context(), member, patient), waits(t.Context(), two, patient)
			from, to := io.Pipe()
			member.Sent(true)
			member.Publish("answer", from, -1, false)
			filled := make(chan struct{})
			go func() { member.Fill(); close(filled) }()
			if err := <-first; err != nil {
				t.Fatalf("the first: %v", err)
			}
			to.Write(whole[:1000])
			none(t, second)
			late := join(t, &g, "b", false)
			p := make([]byte, 1000)
			if n, err := member.Read(p); n != 1000 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			go func() { to.Write(whole[1000:]); to.Close() }()
			if err := <-second; err != want {
				t.Errorf("the second: %v", err)
			}
			if rest, err := io.ReadAll(member); err != nil || !bytes.Equal(rest, whole[1000:]) {
				t.Errorf("the first has %d bytes more of %d, %v", len(rest), size, err)
			}
			if err := late.Wait(t.Context(), patient); err != want {
				t.Errorf("one that came later: %v", err)
			}
			for _, m := range []*Member[string, string]{two, late} {
				if want != nil {
					continue
				}
				if all, err := io.ReadAll(m); err != nil || !bytes.Equal(all, whole) {
					t.Errorf("another has %d bytes of %d, %v", len(all), size, err)
				}
			}
			<-filled
			member.End()
			if g.Members() != 0 {
				t.Error("its member is still counted")
			}
		})
	}
}

func TestAnAnswerThatIsLongOrPersonalIsForTheFirst(t *testing.T) {
	for _, personal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var g group
			member, two, three := join(t, &g, "a", true), join(t, &g, "a", false), join(t, &g, "a", false)
			second, third := waits(t.Context(), two, patient), waits(t.Context(), three, patient)
			member.Close()
			length := int64(10)
			if !personal {
				length = maxBody + 1
			}
			member.Publish("answer", strings.NewReader("text"), length, personal)
			if a, b := <-second, <-third; a != nil || b != ErrAlone {
				t.Errorf("%v, %v", a, b)
			}
			filled := make(chan struct{})
			go func() { member.Fill(); close(filled) }()
			if text, err := io.ReadAll(two); string(text) != "text" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			<-filled
			join(t, &g, "a", true)
		})
	}
}

func TestTheCallEndsWithItsLastMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		member, two := join(t, &g, "a", true), join(t, &g, "a", false)
		ctx, leave := context.WithCancel(t.Context())
		second := waits(ctx, two, patient)
		member.Close()
		none(t, second)
		if member.Err() != nil {
			t.Error("it ended with its first")
		}
		leave()
		if err := <-second; err != context.Canceled || member.Err() == nil {
			t.Errorf("%v, %v", err, member.Err())
		}
		join(t, &g, "a", true)
	})
}

func TestAMemberWaitsNoLongerThanItIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		member, two := join(t, &g, "a", true), join(t, &g, "a", false)
		began := time.Now()
		var held []bool
		p := Patience{Turn: began.Add(time.Minute), Whole: time.Minute, Grace: time.Second, Held: func(yes bool) { held = append(held, yes) }}
		leads := waits(t.Context(), member, p)
		if err := two.Wait(t.Context(), Patience{Turn: p.Turn, Whole: p.Whole, Held: func(bool) {}}); err != ErrAlone || time.Since(began) != time.Minute {
			t.Errorf("a turn: %v after %v", err, time.Since(began))
		}
		member.Sent(true)
		three := join(t, &g, "a", false)
		third := waits(t.Context(), three, patient)
		time.Sleep(time.Hour)
		none(t, third)
		none(t, leads)
		member.Publish("answer", strings.NewReader(""), -1, false)
		<-leads
		if len(held) == 0 || !held[0] || held[len(held)-1] {
			t.Errorf("held: %v", held)
		}
		began = time.Now()
		if err := <-third; err != ErrAlone || time.Since(began) != time.Minute {
			t.Errorf("an answer: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		join(t, &g, "a", true)
	})
}

func TestABrokenAnswerIsBrokenForAll(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		var g group
		member, two := join(t, &g, "a", true), join(t, &g, "a", false)
		member.Publish("answer", io.MultiReader(strings.NewReader("part"), failing{broken}), -1, false)
		member.Fill()
		for _, m := range []*Member[string, string]{member, two} {
			if err := m.Wait(t.Context(), patient); err != nil {
				t.Errorf("%v", err)
			}
			if text, err := io.ReadAll(m); string(text) != "part" || !errors.Is(err, broken) {
				t.Errorf("%q, %v", text, err)
			}
		}
		member, two = join(t, &g, "a", true), join(t, &g, "a", false)
		member.Fail("no")
		for _, m := range []*Member[string, string]{member, two} {
			if err := m.Wait(t.Context(), patient); err != nil || m.Value() != "no" {
				t.Errorf("%v %q", err, m.Value())
			}
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Whoever comes and leaves at whatever time, each that has the answer has all of it, and the
// call ends.
func TestEveryMemberHasAllOrGoesAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 1000, 70_000, maxBody, maxBody + 1, 2 << 20}).Draw(rt, "size")
		announced := size > 0 && rapid.Bool().Draw(rt, "announced")
		personal := rapid.Bool().Draw(rt, "personal")
		waitsFor := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 6).Draw(rt, "when each comes")
		leaves := rapid.SliceOfN(rapid.IntRange(0, 60), 6, 6).Draw(rt, "when each leaves")
		whole := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		synctest.Test(t, func(t *testing.T) {
			var g group
			ends := make(chan struct{})
			for i, after := range waitsFor {
				go func() {
					defer func() { ends <- struct{}{} }()
					time.Sleep(time.Duration(after) * time.Second)
					ctx, leave := context.WithTimeout(t.Context(), time.Duration(leaves[i])*time.Second+time.Millisecond)
					defer leave()
					m, leads := g.Join(t.Context(), "a", "a")
					if leads {
						go run(m.Call, whole, announced, personal)
					}
					if m.Wait(ctx, patient) != nil {
						return
					}
					defer m.Close()
					got, err := io.ReadAll(m)
					if err == nil && !bytes.Equal(got, whole) || !bytes.HasPrefix(whole, got) {
						t.Errorf("%d bytes of %d", len(got), size)
					}
				}()
			}
			for range waitsFor {
				<-ends
			}
			time.Sleep(time.Hour)
			if n := g.Members(); n != 0 {
				t.Errorf("%d members are left", n)
			}
		})
	})
}

// run answers a call after ten seconds, in ten parts.
func run(c *Call[string, string], whole []byte, announced, personal bool) {
	defer c.End()
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-c.Done():
			return false
		}
	}
	if !wait(5 * time.Second) {
		return
	}
	c.Sent(true)
	if !wait(5 * time.Second) {
		return
	}
	from, to := io.Pipe()
	stop := context.AfterFunc(c, func() { to.CloseWithError(context.Canceled) })
	defer stop()
	go func() {
		for part := range 10 {
			time.Sleep(time.Second)
			if _, err := to.Write(whole[len(whole)*part/10 : len(whole)*(part+1)/10]); err != nil {
				return
			}
		}
		to.Close()
	}()
	length := int64(-1)
	if announced {
		length = int64(len(whole))
	}
	c.Publish("answer", from, length, personal)
	c.Fill()
	from.Close()
}
