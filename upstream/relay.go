package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// RelayOptions bound a relay. The zero value bounds nothing.
type RelayOptions struct {
	// Idle is how long neither direction may move.
	Idle time.Duration
	// Life is how long the relay may last in all.
	Life time.Duration
	// FromClient was read from the client before and goes to the origin first.
	FromClient []byte
	// CloseBoth ends both directions when one has ended.
	CloseBoth bool
	// OnProgress is called when bytes have moved, up being to the origin, from
	// both directions at once. It must be quick.
	OnProgress func(up bool)
}

// Relay copies between two connections until both directions have ended, a
// bound is reached or ctx ends. It closes both and returns when all is over.
//
// One end that shuts its sending side can still receive, unless CloseBoth. A
// connection that fails takes the other with it.
//
// Between bare TCP connections the kernel moves the bytes. A connection with a
// NetConn method says by it that it holds nothing back and changes nothing, so
// what is underneath may be used in its stead; *tls.Conn is known to be
// otherwise. The Meter of a dialed connection counts as it goes.
func Relay(ctx context.Context, client, origin net.Conn, o RelayOptions) {
	r := &relay{client: newSide(client), origin: newSide(origin), o: o, tick: longTick, start: time.Now()}
	if o.Idle > 0 {
		r.tick = min(longTick, o.Idle/4)
	}
	r.run(ctx)
}

// longTick is how long bytes stay uncounted while the kernel moves them,
// unless the receiver takes longer for one slice.
const longTick = 250 * time.Millisecond

// relay is one pair of connections.
type relay struct {
	client, origin *side
	o              RelayOptions
	tick           time.Duration
	start          time.Time
	moved          atomic.Int64 // time since start when bytes last moved
	cutOnce        sync.Once
}

// side is one end of a relay.
type side struct {
	net.Conn              // as given
	bare     *net.TCPConn // what is underneath it; nil when it is not that simple
	meter    *meteredConn // that bare passes by; nil when there is none
	raw      net.Conn     // innermost: closing it never waits
	gauge    *meteredConn // as meter, but also where bare does not pass by it

	// While a slice moves to this side: when that began, as time since the
	// relay's start. 0 otherwise.
	slice atomic.Int64
	taken func() uint64 // bytes that the peer has acknowledged
	// What rest saw when it last looked at a slice.
	looked int64
	acked  uint64
}

func newSide(nc net.Conn) *side {
	s := &side{Conn: nc, raw: nc, gauge: gauge(nc)}
	s.taken = s.acknowledged
	transparent := true
	for {
		switch c := s.raw.(type) {
		case *net.TCPConn:
			c.SetKeepAliveConfig(keepAlive)
			if transparent {
				s.bare = c
			}
			return s
		case *meteredConn:
			if transparent {
				s.meter = c
			}
		case *tls.Conn:
			transparent = false
		}
		inner, ok := s.raw.(interface{ NetConn() net.Conn })
		if !ok {
			return s
		}
		under := inner.NetConn()
		if under == nil {
			return s
		}
		s.raw = under
	}
}

// run waits for the two directions, and watches the bounds meanwhile.
func (r *relay) run(ctx context.Context) {
	// Whatever deadlines the connections had were for what was done before.
	r.client.SetDeadline(time.Time{})
	r.origin.SetDeadline(time.Time{})
	ended := make(chan struct{}, 2)
	go func() { r.up(); ended <- struct{}{} }()
	go func() { r.copy(r.client, r.origin); ended <- struct{}{} }()

	var idle, life <-chan time.Time
	var idleTimer *time.Timer
	if r.o.Idle > 0 {
		idleTimer = time.NewTimer(r.o.Idle / 4)
		defer idleTimer.Stop()
		idle = idleTimer.C
	}
	if r.o.Life > 0 {
		timer := time.NewTimer(r.o.Life)
		defer timer.Stop()
		life = timer.C
	}
	done := ctx.Done()
	for left := 2; left > 0; {
		select {
		case <-ended:
			left--
		case <-idle:
			if rest := r.rest(); rest > 0 {
				idleTimer.Reset(min(rest, r.o.Idle/4))
			} else {
				idle = nil
				r.cut()
			}
		case <-life:
			r.cut()
		case <-done:
			done = nil
			r.cut()
		}
	}
	r.client.Close()
	r.origin.Close()
}

// rest is how long until the relay has been idle for too long. A slice towards
// a slow receiver may take longer than that, and nothing of it is counted until
// it ends; then what the receiver has acknowledged says whether it moves. So
// rest is asked more often than Idle. A receiver acknowledges nothing while its own
// buffers are full, however slowly it reads them: one that takes longer than Idle for
// half of those cannot be told from one that is dead.
func (r *relay) rest() time.Duration {
	now := int64(time.Since(r.start))
	for _, to := range [...]*side{r.client, r.origin} {
		if _, still := to.gauge.paused(); still {
			r.moved.Store(now) // a byte limit is nobody's idleness
		}
		began := to.slice.Load()
		if began == 0 || now-began < 2*int64(r.tick) {
			continue
		}
		acked := to.taken()
		if to.looked != began || to.acked != acked {
			r.moved.Store(now)
		}
		to.looked, to.acked = began, acked
	}
	return r.o.Idle - time.Duration(now-r.moved.Load())
}

// progress is for every n bytes that moved to a side.
func (r *relay) progress(n int64, to *side) {
	if n <= 0 {
		return
	}
	r.moved.Store(int64(time.Since(r.start)))
	if r.o.OnProgress != nil {
		r.o.OnProgress(to == r.origin)
	}
}

// cut ends both directions at once. The innermost connections are closed
// first: a TLS goodbye could wait for its peer.
func (r *relay) cut() {
	r.cutOnce.Do(func() {
		r.client.cut()
		r.origin.cut()
	})
}

func (s *side) cut() {
	if s.gauge != nil {
		s.gauge.hasten()
	}
	s.raw.Close()
}

// up is the direction from the client to the origin.
func (r *relay) up() {
	if first := r.o.FromClient; len(first) > 0 {
		n, err := r.origin.Write(first)
		r.progress(int64(n), r.origin)
		if err != nil {
			r.cut()
			return
		}
	}
	r.copy(r.origin, r.client)
}

// copy moves everything from one side to the other, and then the end itself.
func (r *relay) copy(to, from *side) {
	var err error
	if to.bare != nil && from.bare != nil && canSplice {
		err = r.splice(to, from)
	} else {
		err = r.pump(to, from)
	}
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		r.cut() // most likely was already
	case err != nil:
		// Which of the two has failed does not matter to the one that has.
		to.reset()
		from.reset()
		r.cut()
	case r.o.CloseBoth:
		r.cut()
	default:
		// A side that cannot be told of the end by half is told by the whole.
		if half, ok := to.Conn.(closeWriter); !ok || half.CloseWrite() != nil {
			r.cut()
		}
	}
}

// reset has the close that follows break the connection instead of ending it.
// After the other end has failed, what was relayed may be cut short, and must
// not look complete.
func (s *side) reset() {
	if tc, ok := s.raw.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
}

var relayBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pump copies through a buffer. The connections count by themselves.
func (r *relay) pump(to, from *side) error {
	buf := relayBuffers.Get().(*[32 << 10]byte)
	defer relayBuffers.Put(buf)
	_, told := to.raw.(*net.TCPConn) // what it has acknowledged
	told = told && canSplice
	for {
		n, err := from.Read(buf[:])
		if n > 0 {
			r.progress(int64(n), to)
			if told {
				to.slice.Store(max(int64(time.Since(r.start)), 1))
			}
			wrote, err := to.Write(buf[:n])
			to.slice.Store(0)
			r.progress(int64(wrote), to)
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
