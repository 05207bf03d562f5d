package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// pastDeadline makes a read return only what has arrived.
var pastDeadline = time.Unix(1, 0)

// pausable is a connection under a Limiter, in memory, and its other end.
func pausable(p *testBudget) (c *meteredConn, there net.Conn) {
	here, there := net.Pipe()
	return newMeteredConn(here, p), there
}

// in calls f later.
func in(d time.Duration, f func()) { time.AfterFunc(d, f) }

func TestAPausePutsDeadlinesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestBudget(0)
		c, there := pausable(p)
		defer there.Close()
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		began := time.Now()
		in(time.Minute, func() { p.grant(1) })
		in(time.Minute+9*time.Second, func() { there.Write([]byte("x")) })
		if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if took := time.Since(began); took != 69*time.Second {
			t.Errorf("read after %v", took)
		}
		// A second of it is left, and all of the writing one.
		p.grant(100)
		if _, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 70*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		p.set(func() { p.credit = 0 })
		c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		began = time.Now()
		in(time.Minute, func() { p.grant(100) })
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 70*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if still, now := c.paused(); still != 2*time.Minute || now {
			t.Errorf("held still for %v, and now: %v", still, now)
		}
	})
}

func TestADeadlineThatIsSetInAPauseIsPutOffByTheRestOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestBudget(0)
		c, there := pausable(p)
		defer there.Close()
		defer c.Close()
		began := time.Now()
		in(40*time.Second, func() { c.SetReadDeadline(time.Now().Add(10 * time.Second)) })
		in(time.Minute, func() { p.grant(100) })
		if _, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 70*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestWhatEndsAPause(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*meteredConn)
		want error
	}{
		"closing":              {func(c *meteredConn) { c.Close() }, net.ErrClosed},
		"haste":                {func(c *meteredConn) { c.deadlines.endPauses() }, net.ErrClosed},
		"a deadline long ago":  {func(c *meteredConn) { c.SetDeadline(pastDeadline) }, os.ErrDeadlineExceeded},
		"a deadline taken off": {func(c *meteredConn) { c.SetDeadline(pastDeadline); c.SetDeadline(time.Time{}) }, os.ErrDeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestBudget(0)
			c, there := pausable(p)
			defer there.Close()
			defer c.Close()
			began := time.Now()
			in(time.Minute, func() { test.do(c) })
			done := make(chan error)
			go func() { _, err := c.Write([]byte("x")); done <- err }()
			_, err := c.Read(make([]byte, 1))
			if other := <-done; !errors.Is(err, test.want) || !errors.Is(other, test.want) || time.Since(began) != time.Minute {
				t.Errorf("%s: %v and %v after %v", name, err, other, time.Since(began))
			}
			if granted, _, waiting := p.look(); granted != 0 || waiting != 0 {
				t.Errorf("%s: %d kept, %d wait", name, granted, waiting)
			}
		})
	}
}

func TestAConnectionGoesOnAfterADeadlineEndedItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestBudget(0)
		c, there := pausable(p)
		defer there.Close()
		defer c.Close()
		in(time.Second, func() { c.SetReadDeadline(pastDeadline) })
		c.Read(make([]byte, 1))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		c.SetReadDeadline(time.Time{})
		in(time.Second, func() { p.grant(100) })
		in(time.Minute, func() { there.Write([]byte("x")) })
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestAGoodbyeTakesTheCreditAtHand(t *testing.T) {
	p := newTestBudget(0)
	c, there := pausable(p)
	defer there.Close()
	defer c.Close()
	c.deadlines.endPauses()
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	p.grant(10)
	go there.Read(make([]byte, 1))
	if n, err := c.Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestALimitThatComesAndGoesIsMinded(t *testing.T) {
	p := newTestBudget(0)
	p.free = true
	c, there := pausable(p)
	defer there.Close()
	defer c.Close()
	go io.Copy(there, there)
	pass := func() {
		t.Helper()
		swapped := make([]byte, 1)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(swapped); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	p.set(func() { p.free = false; p.credit = 2 })
	pass()
	p.set(func() { p.free = true })
	pass()
	if granted, asked, _ := p.look(); granted != 2 || asked != 2 || p.in.Load()+p.out.Load() != 6 {
		t.Errorf("asked %d times, %d granted, %d and %d passed", asked, granted, p.in.Load(), p.out.Load())
	}
}

func TestPatienceDoesNotCountPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestBudget(0)
		c, there := pausable(p)
		defer there.Close()
		defer c.Close()
		began := time.Now()
		ctx, cancel := withPausableTimeout(t.Context(), c, 10*time.Second)
		defer cancel()
		in(5*time.Second, func() { c.Write([]byte("x")) })
		in(time.Hour, func() { p.grant(1); there.Read(make([]byte, 1)) })
		<-ctx.Done()
		if took := time.Since(began); took != time.Hour+5*time.Second {
			t.Errorf("over after %v", took)
		}
		if context.Cause(ctx) != context.DeadlineExceeded {
			t.Error(context.Cause(ctx))
		}
	})
}

func TestPatienceStopsAndBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		p := &pausableTimer{onExpire: func() { at = append(at, time.Since(began)) }}
		p.stop()
		for range 5 {
			p.start(10 * time.Second)
			<-time.After(9 * time.Second)
		}
		p.stop()
		<-time.After(time.Minute)
		p.start(time.Second)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(at) != 1 || at[0] != 106*time.Second {
			t.Error(at)
		}
	})
}
