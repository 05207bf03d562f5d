package queue

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// leftBy asks a site once, which ends in one of some ways, and answers what the gate could
// keep of it.
func leftBy(t *testing.T, g *Gate, how string) weak.Pointer[Permit] {
	r := asks(how, "x", &single)
	p := allow(t, g, r)
	if how == "granted" {
		p.Finish(Result{})
		return weak.Make(p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if how == "hung up" {
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	// Refused by the site, for longer than anybody waits.
	again := Retry{Cool: Scope{}, Until: time.Now().Add(30 * time.Second), Why: "Retry-After"}
	if how == "went" {
		again.Until = time.Now().Add(500 * time.Millisecond)
	}
	err := p.Again(ctx, again)
	if (err == nil) != (how == "went") {
		t.Fatalf("%s: %v", how, err)
	}
	if err == nil {
		p.Finish(Result{})
	}
	return weak.Make(p)
}

func TestASiteKeepsNoRequestThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Wait: 10 * time.Second}, nil)
		for _, how := range []string{"granted", "refused", "hung up", "went"} {
			left := leftBy(t, g, how)
			runtime.GC()
			runtime.GC()
			if left.Value() != nil {
				t.Errorf("%s: the request is kept", how)
			}
		}
	})
}
