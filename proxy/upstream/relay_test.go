package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// duplex is a connection in memory that can be closed by half.
type duplex struct {
	net.Conn // to read from
	to       net.Conn
}

// duplexes are the two ends of one.
func duplexes() (a, b *duplex) {
	aReads, bWrites := net.Pipe()
	bReads, aWrites := net.Pipe()
	return &duplex{aReads, aWrites}, &duplex{bReads, bWrites}
}

func (d *duplex) Write(p []byte) (int, error) { return d.to.Write(p) }
func (d *duplex) CloseWrite() error           { return d.to.Close() }
func (d *duplex) Close() error                { d.to.Close(); return d.Conn.Close() }

// table is a relay with somebody at either end.
type table struct {
	client, origin net.Conn
	ended          chan struct{}
	began          time.Time
	progress       atomic.Int64
}

// relayed starts a relay between two connections in memory.
func relayed(ctx context.Context, o RelayOptions) *table {
	client, near := duplexes()
	origin, far := duplexes()
	return relayOver(ctx, client, near, far, origin, o)
}

func relayOver(ctx context.Context, client, near, far, origin net.Conn, o RelayOptions) *table {
	t := &table{client: client, origin: origin, ended: make(chan struct{}), began: time.Now()}
	o.OnProgress = func(bool) { t.progress.Add(1) }
	go func() {
		Relay(ctx, near, far, o)
		close(t.ended)
	}()
	return t
}

// over waits for the relay to end, and tells after how long it did. Both ends
// must then be closed.
func (r *table) over(t *testing.T) time.Duration {
	t.Helper()
	<-r.ended
	took := time.Since(r.began)
	for name, c := range map[string]net.Conn{"client": r.client, "origin": r.origin} {
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("the %s was not closed properly: %v", name, err)
		}
		c.Close()
	}
	return took
}

// finish has both ends leave.
func (r *table) finish() {
	r.client.Close()
	r.origin.Close()
	<-r.ended
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatalf("sending %.20q: %v", s, err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("received %.40q, %v, want %.40q", got, err, want)
	}
}

func receiveEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("received %d bytes and %v, want the end", n, err)
	}
}

func TestAnEndThatHasSaidEverythingStillHears(t *testing.T) {
	both := map[string]func(r *table) (first, second net.Conn){
		"client first": func(r *table) (net.Conn, net.Conn) { return r.client, r.origin },
		"origin first": func(r *table) (net.Conn, net.Conn) { return r.origin, r.client },
	}
	for name, order := range both {
		synctest.Test(t, func(t *testing.T) {
			r := relayed(t.Context(), RelayOptions{Idle: time.Hour})
			first, second := order(r)
			send(t, first, "question")
			first.(closeWriter).CloseWrite()
			receive(t, second, "question")
			receiveEnd(t, second)
			for range 3 {
				<-time.After(30 * time.Minute)
				send(t, second, "answer")
				receive(t, first, "answer")
			}
			second.(closeWriter).CloseWrite()
			receiveEnd(t, first)
			if took := r.over(t); took != 90*time.Minute {
				t.Errorf("%s: over after %v", name, took)
			}
		})
	}
}

func TestWithCloseBothOneEndEndsBoth(t *testing.T) {
	for _, which := range []string{"client", "origin"} {
		synctest.Test(t, func(t *testing.T) {
			r := relayed(t.Context(), RelayOptions{CloseBoth: true})
			first, second := r.client, r.origin
			if which == "origin" {
				first, second = second, first
			}
			send(t, first, "last words")
			receive(t, second, "last words")
			first.(closeWriter).CloseWrite()
			if took := r.over(t); took != 0 {
				t.Errorf("%s: over after %v", which, took)
			}
		})
	}
}

func TestWhatWasReadBeforeGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayed(t.Context(), RelayOptions{FromClient: []byte("hello ")})
		var both sync.WaitGroup
		both.Go(func() { send(t, r.client, "world") })
		receive(t, r.origin, "hello world")
		both.Wait()
		r.finish()
	})
}

func TestATunnelInWhichNothingMovesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayed(t.Context(), RelayOptions{Idle: time.Hour})
		if took := r.over(t); took != time.Hour {
			t.Errorf("over after %v", took)
		}
	})
}

func TestMovingEitherWayKeepsATunnel(t *testing.T) {
	for name, order := range map[string]bool{"up": true, "down": false} {
		synctest.Test(t, func(t *testing.T) {
			r := relayed(t.Context(), RelayOptions{Idle: time.Hour})
			from, to := r.client, r.origin
			if !order {
				from, to = to, from
			}
			for range 10 {
				<-time.After(59 * time.Minute)
				send(t, from, "x")
				receive(t, to, "x")
			}
			if took := r.over(t); took != 10*59*time.Minute+time.Hour {
				t.Errorf("%s: over after %v", name, took)
			}
			if r.progress.Load() == 0 {
				t.Errorf("%s: nobody was told of progress", name)
			}
		})
	}
}

func TestAnEndThatTakesNothingEndsTheTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayed(t.Context(), RelayOptions{Idle: time.Hour})
		var sender sync.WaitGroup
		sender.Go(func() { io.Copy(r.client, strings.NewReader(strings.Repeat("x", 1<<20))) })
		<-r.ended // the origin never reads
		if took := time.Since(r.began); took != time.Hour {
			t.Errorf("over after %v", took)
		}
		sender.Wait()
		r.over(t)
	})
}

func TestNoTunnelOutlivesItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayed(t.Context(), RelayOptions{Idle: time.Hour, Life: 3 * time.Hour})
		var chat sync.WaitGroup
		chat.Go(func() {
			for {
				if _, err := io.WriteString(r.client, "x"); err != nil {
					return
				}
				<-time.After(time.Minute)
			}
		})
		chat.Go(func() { io.Copy(io.Discard, r.origin) })
		<-r.ended
		if took := time.Since(r.began); took != 3*time.Hour {
			t.Errorf("over after %v", took)
		}
		chat.Wait()
		r.over(t)
	})
}

func TestARelayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := relayed(ctx, RelayOptions{})
		send(t, r.client, "x")
		receive(t, r.origin, "x")
		time.AfterFunc(time.Minute, cancel)
		if took := r.over(t); took != time.Minute {
			t.Errorf("over after %v", took)
		}
	})
}

func TestAContextThatHasEndedBeforeEndsTheRelayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := relayed(ctx, RelayOptions{})
		if took := r.over(t); took != 0 {
			t.Errorf("over after %v", took)
		}
	})
}

// broken fails to read, or to write, after it was told to.
type broken struct {
	net.Conn
	read, write error
}

func (b *broken) Read(p []byte) (int, error) {
	if b.read != nil {
		return 0, b.read
	}
	return b.Conn.Read(p)
}

func (b *broken) Write(p []byte) (int, error) {
	if b.write != nil {
		return 0, b.write
	}
	return b.Conn.Write(p)
}

func TestAConnectionThatFailsTakesTheOtherWithIt(t *testing.T) {
	failure := errors.New("it broke")
	for name, b := range map[string]broken{"reading": {read: failure}, "writing": {write: failure}} {
		for _, early := range []string{"", "hello"} {
			synctest.Test(t, func(t *testing.T) {
				client, near := net.Pipe()
				origin, far := net.Pipe()
				b.Conn = far
				r := relayOver(t.Context(), client, near, &b, origin, RelayOptions{FromClient: []byte(early)})
				if b.write != nil && early == "" {
					send(t, client, "x")
				}
				if took := r.over(t); took != 0 {
					t.Errorf("%s: over after %v", name, took)
				}
			})
		}
	}
}

func TestAConnectionWithoutHalvesIsClosedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := net.Pipe()
		origin, far := net.Pipe()
		r := relayOver(t.Context(), client, near, far, origin, RelayOptions{})
		client.Close()
		receiveEnd(t, origin)
		r.finish()
	})
}

func TestDeadlinesOfBeforeDoNotEndARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := net.Pipe()
		origin, far := net.Pipe()
		near.SetDeadline(time.Now().Add(time.Second))
		far.SetDeadline(time.Now().Add(time.Second))
		r := relayOver(t.Context(), client, near, far, origin, RelayOptions{})
		<-time.After(time.Minute)
		go io.WriteString(client, "x")
		receive(t, origin, "x")
		r.finish()
	})
}

func TestTheMeterCountsWhatIsRelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := duplexes()
		origin, far := duplexes()
		m := &tally{}
		r := relayOver(t.Context(), client, near, newMeteredConn(far, m), origin, RelayOptions{FromClient: []byte("ab")})
		receive(t, origin, "ab")
		send(t, client, "cde")
		receive(t, origin, "cde")
		send(t, origin, "1234567")
		receive(t, client, "1234567")
		synctest.Wait()
		m.expect(t, 7, 5)
		r.finish()
	})
}

func TestBytesArriveInTheirOrderWhateverTheirSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayed(t.Context(), RelayOptions{Idle: time.Minute})
		var all []byte
		for size := 1; size < 200_000; size *= 3 {
			all = append(all, slices.Repeat([]byte{byte(size)}, size)...)
		}
		go func() {
			for rest := all; len(rest) > 0; {
				n := min(len(rest), 10_007)
				r.origin.Write(rest[:n])
				rest = rest[n:]
			}
			r.origin.(closeWriter).CloseWrite()
		}()
		got, err := io.ReadAll(r.client)
		if err != nil || !slices.Equal(got, all) {
			t.Errorf("received %d bytes of %d, %v", len(got), len(all), err)
		}
		r.finish()
	})
}
