package process

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAProcessIsStartedAgainAndEnds(t *testing.T) {
	p := New("sleeper", "sh", "-c", "echo here >&2; exec sleep 60")
	if p.Alive() || p.ID() != 0 {
		t.Error("it runs before it was started")
	}
	for _, end := range []func(){p.Stop, p.Kill} {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !p.Alive() || p.ID() == 0 {
			t.Error("it does not run")
		}
		end()
		if p.Alive() {
			t.Error("it runs after it was ended")
		}
		end() // again it is nothing
	}
}

func TestAProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := New("sleep", "sleep", "60")
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _, done := p.now()
	<-done
}

func TestWhatEndsBeforeItListensSaysWhy(t *testing.T) {
	at, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	err = New("sh", "sh", "-c", "echo no port >&2; exit 1").StartAt(t.Context(), at)
	if err == nil || !strings.Contains(err.Error(), "ended before it listened") {
		t.Errorf("%v", err)
	}
	if err := New("none", "/nonexistent").Start(t.Context()); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestWhatListensIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := New("sleep", "sleep", "60")
	if err := p.StartAt(t.Context(), l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if u, err := UsageOf(p.ID()); err != nil || u.Resident == 0 || u.CPU > time.Minute {
		t.Errorf("%+v %v", u, err)
	}
}

func TestOnlyTheEndOfWhatWasSaidIsKept(t *testing.T) {
	var s Said
	for range 3000 {
		s.Write([]byte("a line of it\n"))
	}
	s.Write([]byte("the last\n"))
	if s.Lines() != 3001 || len(s.End()) > kept || !strings.HasSuffix(s.String(), "the last") || len(s.String()) > cited+20 {
		t.Errorf("%d lines, %d bytes", s.Lines(), len(s.String()))
	}
}
