package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sockets are the two ends of a TCP connection.
func sockets(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
	return out.(*net.TCPConn), in.(*net.TCPConn)
}

// wrapped is how the proxy holds a client's connection.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }
func (w wrapped) CloseWrite() error { return w.Conn.(closeWriter).CloseWrite() }

func relayedTCP(t testing.TB, m byteMeter, o RelayOptions) *table {
	t.Helper()
	client, near := sockets(t)
	far, origin := sockets(t)
	return relayOver(context.Background(), client, wrapped{near}, newMeteredConn(far, m), origin, o)
}

// soon looks until something is so.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("%s: not within 5 minutes", what)
		}
	}
}

func TestHalfCloseWorksOnSockets(t *testing.T) {
	m := &tally{}
	r := relayedTCP(t, m, RelayOptions{Idle: time.Minute, FromClient: []byte("early ")})
	send(t, r.client, "question")
	r.client.(closeWriter).CloseWrite()
	receive(t, r.origin, "early question")
	receiveEnd(t, r.origin)
	send(t, r.origin, "answer")
	receive(t, r.client, "answer")
	send(t, r.origin, " and more")
	r.origin.(closeWriter).CloseWrite()
	receive(t, r.client, " and more")
	receiveEnd(t, r.client)
	r.over(t)
	m.expect(t, 15, 14)
}

func TestIdleAndLifeEndATunnelOfSockets(t *testing.T) {
	for name, o := range map[string]RelayOptions{"idle": {Idle: time.Second}, "life": {Life: time.Second}} {
		r := relayedTCP(t, nil, o)
		send(t, r.client, "x")
		receive(t, r.origin, "x")
		if took := r.over(t); took < 900*time.Millisecond {
			t.Errorf("%s: over after %v", name, took)
		}
	}
}

func TestAReceiverThatIsDeadEndsATunnelOfSockets(t *testing.T) {
	r := relayedTCP(t, nil, RelayOptions{Idle: 300 * time.Millisecond})
	var sender sync.WaitGroup
	sender.Go(func() { io.Copy(r.client, io.LimitReader(zeros{}, 1<<30)) })
	<-r.ended // the origin never reads
	sender.Wait()
}

// A slow receiver must not be taken for a dead one, although a slice towards it takes
// longer than the tunnel may be idle. When the kernel acknowledges something depends on
// the machine, so what is held is that a tunnel is cut only when it has not for that long.
func TestAReceiverThatIsSlowKeepsATunnelOfSockets(t *testing.T) {
	const idle = 2 * time.Second
	client, near := sockets(t)
	far, origin := sockets(t)
	far.SetWriteBuffer(4 << 10)
	origin.SetReadBuffer(4 << 10)
	r := relayOver(t.Context(), client, near, far, origin, RelayOptions{Idle: idle})
	var sender sync.WaitGroup
	sender.Go(func() { io.Copy(client, io.LimitReader(zeros{}, 1<<30)) })
	receiver := newSide(far)
	before, since, acked := time.Now(), time.Now(), uint64(0) // since: nothing was acknowledged surely after it
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for range 250 { // five seconds
		<-look.C
		now := time.Now()
		if n := receiver.ackedBytes(); n > acked {
			acked, since = n, before
		}
		before = now
		if _, err := io.ReadFull(origin, make([]byte, 1024)); err != nil {
			if gap := time.Since(since); gap < idle {
				t.Fatalf("cut after %v, %v after something was acknowledged: %v", time.Since(r.began), gap, err)
			}
			break
		}
	}
	r.finish()
	sender.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBytesAreCountedWhileATransferRuns(t *testing.T) {
	m := &tally{}
	r := relayedTCP(t, m, RelayOptions{Idle: time.Minute})
	var live sync.WaitGroup
	live.Go(func() { io.Copy(io.Discard, r.client) })
	live.Go(func() { io.Copy(io.Discard, r.origin) })
	var sent int64
	for _, size := range []int{1, 10, 100_000, 5_000_000, 3} {
		send(t, r.origin, strings.Repeat("x", size))
		send(t, r.client, strings.Repeat("y", size))
		sent += int64(size)
		soon(t, "counting", func() bool { return m.in.Load() == sent && m.out.Load() == sent })
	}
	if r.progress.Load() == 0 {
		t.Error("nobody was told of progress")
	}
	r.finish()
	live.Wait()
}

func TestATransferThatWasCutDoesNotLookComplete(t *testing.T) {
	for _, which := range []string{"client", "origin"} {
		r := relayedTCP(t, nil, RelayOptions{})
		from, to := r.origin, r.client
		if which == "client" {
			from, to = to, from
		}
		send(t, from, "half of")
		receive(t, to, "half of")
		from.(*net.TCPConn).SetLinger(0)
		from.Close()
		if _, err := to.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s broke off, the other end saw %v", which, err)
		}
		<-r.ended
	}
}

func TestOnlyWhatIsBareIsSpliced(t *testing.T) {
	a, b := sockets(t)
	for name, c := range map[string]net.Conn{
		"bare": a, "metered": newMeteredConn(a, nil), "wrapped": wrapped{newMeteredConn(wrapped{a}, nil)},
	} {
		if s := newSide(c); s.tcp != a || s.innermost != a {
			t.Errorf("%s: not recognised", name)
		}
	}
	early := &bufferedConn{Conn: b, buffered: []byte("x")}
	if s := newSide(wrapped{early}); s.tcp != nil || s.innermost != early {
		t.Error("bytes that came early would be lost")
	}
	if s := newSide(wrapped{nil}); s.tcp != nil {
		t.Error("nothing was taken for a connection")
	}
}

func TestARelayUnderTLSKeepsHalfCloseAndEndsInTime(t *testing.T) {
	cert, roots := certificate(t, "api.test")
	start := func(o RelayOptions) (*table, *tally) {
		clientSocket, near := sockets(t)
		far, origin := sockets(t)
		m := &tally{}
		client := tls.Client(clientSocket, &tls.Config{RootCAs: roots, ServerName: "api.test"})
		inner := tls.Server(wrapped{near}, &tls.Config{Certificates: []tls.Certificate{cert}})
		if s := newSide(inner); s.tcp != nil || s.innermost != near {
			t.Fatal("the relay would pass by the TLS")
		}
		return relayOver(t.Context(), client, inner, newMeteredConn(far, m), origin, o), m
	}
	r, m := start(RelayOptions{Idle: time.Minute})
	send(t, r.client, "question")
	receive(t, r.origin, "question")
	r.client.(closeWriter).CloseWrite()
	receiveEnd(t, r.origin)
	send(t, r.origin, "answer")
	r.origin.(closeWriter).CloseWrite()
	receive(t, r.client, "answer")
	receiveEnd(t, r.client)
	<-r.ended
	m.expect(t, 6, 8)

	// A client that reads nothing any more must not hold the goodbye up.
	r, _ = start(RelayOptions{Idle: time.Second})
	send(t, r.client, "question")
	receive(t, r.origin, "question")
	var flood sync.WaitGroup
	flood.Go(func() { io.Copy(r.origin, io.LimitReader(zeros{}, 1<<30)) })
	<-r.ended
	flood.Wait()
	if took := time.Since(r.began); took > 5*time.Minute {
		t.Errorf("over after %v", took)
	}
}

func TestABigTransferArrivesWhole(t *testing.T) {
	const size = 64 << 20
	m := &tally{}
	r := relayedTCP(t, m, RelayOptions{Idle: time.Minute})
	before := copied(t)
	var live sync.WaitGroup
	live.Go(func() {
		if n, err := io.Copy(r.origin, io.LimitReader(zeros{}, size)); n != size || err != nil {
			t.Errorf("sent %d, %v", n, err)
		}
		r.origin.Close()
	})
	buf := make([]byte, 256<<10)
	var got int64
	for {
		n, err := r.client.Read(buf)
		got += int64(n)
		if bytes.Count(buf[:n], []byte{0}) != n {
			t.Fatal("bytes have changed")
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	live.Wait()
	r.finish()
	if got != size {
		t.Errorf("received %d bytes", got)
	}
	m.expect(t, size, 0)
	// The test itself has read and written every byte once. If the relay had
	// too, it would be twice.
	if through := copied(t) - before; canSplice && before > 0 && through > 3*size {
		t.Errorf("%d MB went through this process for %d MB relayed: they were not spliced", through>>20, size>>20)
	}
}

// copied is how many bytes this process has read and written by system calls
// that copy; 0 where the system does not say.
func copied(t *testing.T) (sum int64) {
	t.Helper()
	all, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(all)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "rchar" || name == "wchar" {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

func TestIdleTunnelsHoldNoPipes(t *testing.T) {
	pipes := func() (n int) {
		runtime.GC() // those that wait to be used again go
		all, _ := os.ReadDir("/proc/self/fd")
		for _, f := range all {
			if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(to, "pipe:") {
				n++
			}
		}
		return n
	}
	before := pipes()
	var open []*table
	for range 20 {
		r := relayedTCP(t, nil, RelayOptions{Idle: time.Minute})
		send(t, r.client, "x")
		receive(t, r.origin, "x")
		open = append(open, r)
	}
	soon(t, "letting go of pipes", func() bool { return pipes() <= before })
	for _, r := range open {
		r.finish()
	}
}

// BenchmarkRelay moves a megabyte a time; bare is what it is to be near to.
func BenchmarkRelay(b *testing.B) {
	for _, c := range []struct {
		name string
		run  func(near, far net.Conn)
	}{
		{"bare", func(near, far net.Conn) {
			var both sync.WaitGroup
			both.Go(func() { io.Copy(far, near); far.(closeWriter).CloseWrite() })
			io.Copy(near, far)
			both.Wait()
			near.Close()
			far.Close()
		}},
		{"relay", func(near, far net.Conn) {
			Relay(context.Background(), wrapped{near}, newMeteredConn(far, &tally{}), RelayOptions{Idle: time.Minute})
		}},
		{"copying", func(near, far net.Conn) {
			Relay(context.Background(), onlyConn{near}, onlyConn{far}, RelayOptions{Idle: time.Minute})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, near := sockets(b)
			far, origin := sockets(b)
			var live sync.WaitGroup
			live.Go(func() { c.run(near, far) })
			live.Go(func() { io.Copy(io.Discard, onlyConn{client}) })
			piece := make([]byte, 1<<20)
			b.SetBytes(int64(len(piece)))
			for b.Loop() {
				if _, err := origin.Write(piece); err != nil {
					b.Fatal(err)
				}
			}
			origin.CloseWrite()
			client.CloseWrite()
			live.Wait()
		})
	}
}

// onlyConn hides what a connection can do better.
type onlyConn struct{ net.Conn }

func (o onlyConn) CloseWrite() error { return o.Conn.(closeWriter).CloseWrite() }
