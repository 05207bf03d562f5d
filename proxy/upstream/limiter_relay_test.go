package upstream

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// budgetedRelay is a relay of sockets of which the origin's is under a Limiter.
func budgetedRelay(t *testing.T, ctx context.Context, p *testBudget, plain bool, o RelayOptions) *table {
	t.Helper()
	client, near := sockets(t)
	far, origin := sockets(t)
	var there net.Conn = wrapped{near}
	if plain {
		there = onlyConn{near}
	}
	return relayOver(ctx, client, there, newMeteredConn(far, p), origin, o)
}

func eachRelay(t *testing.T, test func(t *testing.T, plain bool)) {
	for name, plain := range map[string]bool{"spliced": false, "copied": true} {
		t.Run(name, func(t *testing.T) { test(t, plain) })
	}
}

func TestATunnelWithoutCreditIsNotIdle(t *testing.T) {
	eachRelay(t, func(t *testing.T, plain bool) {
		p := newTestBudget(0)
		r := budgetedRelay(t, t.Context(), p, plain, RelayOptions{Idle: time.Second})
		began := time.Now()
		send(t, r.origin, "answer")
		p.held(t)
		after(t, 3*time.Second, func() { p.grant(100) })
		receive(t, r.client, "answer")
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("without credit after %v", took)
		}
		<-r.ended // for then it is idle
		p.balanced(t)
	})
}

func TestADirectionWithoutCreditDoesNotHoldTheOther(t *testing.T) {
	eachRelay(t, func(t *testing.T, plain bool) {
		p := newTestBudget(6)
		r := budgetedRelay(t, t.Context(), p, plain, RelayOptions{})
		send(t, r.client, "123456")
		receive(t, r.origin, "123456")
		send(t, r.origin, "answer")
		send(t, r.client, "question")
		soon(t, "both waiting", func() bool { _, _, n := p.look(); return n == 2 })
		p.grant(6)
		p.grant(8)
		receive(t, r.client, "answer")
		receive(t, r.origin, "question")
		r.client.(closeWriter).CloseWrite()
		receiveEnd(t, r.origin) // the end is free
		r.origin.(closeWriter).CloseWrite()
		receiveEnd(t, r.client)
		<-r.ended
		p.balanced(t)
	})
}

func TestATunnelWithoutCreditEndsAtOnce(t *testing.T) {
	eachRelay(t, func(t *testing.T, plain bool) {
		for _, how := range []string{"cancel", "life", "stall"} {
			p := newTestBudget(0)
			ctx, cancel := context.WithCancel(t.Context())
			o := RelayOptions{}
			if how == "life" {
				o.Life = time.Second
			}
			r := budgetedRelay(t, ctx, p, plain, o)
			send(t, r.origin, "answer")
			send(t, r.client, "question")
			p.held(t)
			switch how {
			case "cancel":
				cancel()
			case "stall":
				p.set(func() { p.broke = true })
			}
			<-r.ended
			if took := time.Since(r.began); took > 5*time.Minute {
				t.Errorf("%s: over after %v", how, took)
			}
			cancel()
			p.balanced(t)
		}
	})
}

func TestATunnelUnderALimitArrivesWhole(t *testing.T) {
	eachRelay(t, func(t *testing.T, plain bool) {
		const size = 2 << 20
		p := newTestBudget(0)
		r := budgetedRelay(t, t.Context(), p, plain, RelayOptions{Idle: time.Minute})
		var live sync.WaitGroup
		for _, ends := range [][2]net.Conn{{r.client, r.origin}, {r.origin, r.client}} {
			live.Go(func() {
				io.Copy(onlyWriter{ends[0]}, io.LimitReader(zeros{}, size))
				ends[0].(closeWriter).CloseWrite()
			})
			live.Go(func() {
				if n, err := io.Copy(io.Discard, onlyReader{ends[1]}); n != size || err != nil {
					t.Errorf("%d bytes came, %v", n, err)
				}
			})
		}
		for granted := 0; granted < 2*size; {
			step := min(1+granted/3, 2*size-granted)
			p.grant(step)
			granted += step
			if granted < 2*size {
				p.held(t)
			}
		}
		live.Wait()
		<-r.ended
		p.balanced(t)
		p.expect(t, size, size)
	})
}

type onlyWriter struct{ io.Writer }

func TestALimitThatEndsLetsATunnelGo(t *testing.T) {
	eachRelay(t, func(t *testing.T, plain bool) {
		p := newTestBudget(3)
		r := budgetedRelay(t, t.Context(), p, plain, RelayOptions{})
		send(t, r.origin, "123")
		receive(t, r.client, "123")
		p.set(func() { p.free = true })
		send(t, r.origin, "456")
		receive(t, r.client, "456")
		send(t, r.origin, "789")
		receive(t, r.client, "789")
		r.finish()
		if p.in.Load() != 9 {
			t.Errorf("%d counted", p.in.Load())
		}
	})
}
