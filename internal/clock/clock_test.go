package clock

import (
	"slices"
	"testing"
	"time"
)

func TestVirtualTimeGoesFromCallToCallInOrder(t *testing.T) {
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	v := NewVirtual(start)
	var made []string
	note := func(name string) func() {
		return func() { made = append(made, name+" at "+v.Now().Sub(start).String()) }
	}
	v.AfterFunc(2*time.Hour, note("late"))
	v.AfterFunc(time.Hour, func() {
		note("first")()
		v.AfterFunc(0, note("at once"))
		v.AfterFunc(-time.Hour, note("in the past"))
	})
	v.AfterFunc(time.Hour, note("second"))
	stopped := v.AfterFunc(time.Minute, note("stopped"))
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop does not say whether it prevented the call")
	}
	moved := v.AfterFunc(time.Minute, note("moved"))
	if !moved.Reset(3 * time.Hour) {
		t.Error("Reset does not say that the call was still to come")
	}
	if next := v.Next(); !next.Equal(start.Add(time.Hour)) {
		t.Errorf("the next call is at %v", next)
	}
	for v.Step() {
	}
	want := []string{"first at 1h0m0s", "second at 1h0m0s", "at once at 1h0m0s", "in the past at 1h0m0s", "late at 2h0m0s", "moved at 3h0m0s"}
	if !slices.Equal(made, want) {
		t.Errorf("%q", made)
	}
	if !v.Next().IsZero() {
		t.Error("there is a next call after the last")
	}
	if moved.Reset(time.Second); !v.Step() || len(made) != 7 {
		t.Error("a call cannot be repeated")
	}
}
