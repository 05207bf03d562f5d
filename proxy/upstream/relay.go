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
	// Idle bounds the time without traffic in both directions.
	Idle time.Duration
	// Life bounds the duration of the relay.
	Life time.Duration
	// FromClient are bytes already read from the client. They are sent to the origin first.
	FromClient []byte
	// CloseBoth ends both directions when one has ended.
	CloseBoth bool
	// OnProgress is called when bytes have moved; up means towards the origin. Both
	// directions call it concurrently. It must be quick.
	OnProgress func(up bool)
}

// Relay copies between two connections until both directions have ended, a bound is reached
// or ctx ends. It closes both and returns when all is done.
//
// A connection whose sending side is closed can still receive, unless CloseBoth is set. A
// connection that fails ends the other.
//
// Between two TCP connections without TLS the kernel moves the bytes. A connection with a NetConn
// method declares that it buffers and changes nothing, so the connection underneath may be
// used instead; *tls.Conn is excluded. The meter of a dialed connection counts.
func Relay(ctx context.Context, client, origin net.Conn, o RelayOptions) {
	r := &relay{client: newSide(client), origin: newSide(origin), o: o, tick: uncountedTime, start: time.Now()}
	if o.Idle > 0 {
		r.tick = min(uncountedTime, o.Idle/4)
	}
	r.run(ctx)
}

// uncountedTime is the time for which bytes stay uncounted while the kernel moves them, unless
// the receiver takes longer for one slice. A slice is the bytes that one call moves to a side;
// they are counted when the call ends.
const uncountedTime = 250 * time.Millisecond

// tunnelIdleTime is the time without traffic after which a relay holds no bytes of a limit, if others wait for them.
const tunnelIdleTime = time.Second

// relay is a running Relay.
type relay struct {
	client, origin *side
	o              RelayOptions
	tick           time.Duration // longest wait of a slice for further bytes: uncountedTime or Idle/4
	start          time.Time
	lastTraffic    atomic.Int64 // time from start until the last traffic
	abortOnce      sync.Once
}

// side is one end of a relay.
type side struct {
	net.Conn               // the connection that Relay was given
	tcp       *net.TCPConn // the TCP connection underneath; nil if bytes change on the way to it, as by TLS
	bypassed  *meteredConn // counts the bytes, but splicing bypasses it; nil if there is none
	innermost net.Conn     // its Close never blocks
	metered   *meteredConn // counts the bytes, whether or not splicing bypasses it; nil if there is none

	// sliceBegan is the begin of the slice that is being moved to this side, as the time since
	// relay.start; 0: no slice is being moved.
	sliceBegan atomic.Int64
	ackedBytes func() uint64 // bytes that the peer has acknowledged
	// The fields below are the state of the slice at the last call of idleLeft.
	checkedSlice int64
	lastAcked    uint64
}

func newSide(nc net.Conn) *side {
	s := &side{Conn: nc, metered: meteredConnOf(nc)}
	s.ackedBytes = s.acknowledged
	transparent := true
	for s.innermost = range Layers(nc) {
		switch c := s.innermost.(type) {
		case *net.TCPConn:
			c.SetKeepAliveConfig(keepAlive)
			if transparent {
				s.tcp = c
			}
		case *meteredConn:
			if transparent {
				s.bypassed = c
			}
		case *tls.Conn:
			transparent = false
		}
	}
	return s
}

// run waits for both directions and enforces the bounds.
func (r *relay) run(ctx context.Context) {
	// Deadlines that were set before belong to earlier operations.
	r.client.SetDeadline(time.Time{})
	r.origin.SetDeadline(time.Time{})
	ended := make(chan struct{}, 2)
	go func() { r.up(); ended <- struct{}{} }()
	go func() { r.copy(r.client, r.origin); ended <- struct{}{} }()

	if r.o.Life > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.o.Life)
		defer cancel()
	}
	defer context.AfterFunc(ctx, r.abort)()
	var idle, room <-chan time.Time
	var idleTimer *time.Timer
	if r.o.Idle > 0 {
		idleTimer = time.NewTimer(r.o.Idle / 4)
		defer idleTimer.Stop()
		idle = idleTimer.C
	}
	if c := r.origin.metered; c != nil && c.holding() != nil {
		ticker := time.NewTicker(tunnelIdleTime)
		defer ticker.Stop()
		room = ticker.C
	}
	for left := 2; left > 0; {
		select {
		case <-room:
			if _, pausedNow := r.origin.metered.paused(); !pausedNow && time.Since(r.start)-time.Duration(r.lastTraffic.Load()) >= tunnelIdleTime {
				r.origin.metered.makeRoom()
			}
		case <-ended:
			left--
		case <-idle:
			if rest := r.idleLeft(); rest > 0 {
				idleTimer.Reset(min(rest, r.o.Idle/4))
			} else {
				idle = nil
				r.abort()
			}
		}
	}
	r.client.Close()
	r.origin.Close()
}

// idleLeft is the time until the relay has been idle for too long. A slice to a slow
// receiver may take longer than Idle, and its bytes are counted at its end only; meanwhile
// the bytes that the receiver acknowledged show whether it moves. So idleLeft is called
// more often than every Idle. A receiver whose own buffers are full acknowledges nothing:
// one that takes longer than Idle to read half of its buffers cannot be distinguished from
// a dead one.
func (r *relay) idleLeft() time.Duration {
	now := int64(time.Since(r.start))
	for _, to := range [...]*side{r.client, r.origin} {
		if _, pausedNow := to.metered.paused(); pausedNow {
			r.lastTraffic.Store(now) // a pause by a byte limit does not count as idle
		}
		began := to.sliceBegan.Load()
		if began == 0 || now-began < 2*int64(r.tick) {
			continue
		}
		acked := to.ackedBytes()
		if to.checkedSlice != began || to.lastAcked != acked {
			r.lastTraffic.Store(now)
		}
		to.checkedSlice, to.lastAcked = began, acked
	}
	return r.o.Idle - time.Duration(now-r.lastTraffic.Load())
}

// progress records that n bytes moved to a side.
func (r *relay) progress(n int64, to *side) {
	if n <= 0 {
		return
	}
	r.lastTraffic.Store(int64(time.Since(r.start)))
	if r.o.OnProgress != nil {
		r.o.OnProgress(to == r.origin)
	}
}

// abort ends both directions at once. The innermost connections are closed first: TLS
// close_notify could block.
func (r *relay) abort() {
	r.abortOnce.Do(func() {
		r.client.abort()
		r.origin.abort()
	})
}

func (s *side) abort() {
	if s.metered != nil {
		s.metered.deadlines.endPauses()
	}
	s.innermost.Close()
}

// up copies from the client to the origin.
func (r *relay) up() {
	if first := r.o.FromClient; len(first) > 0 {
		n, err := r.origin.Write(first)
		r.progress(int64(n), r.origin)
		if err != nil {
			r.abort()
			return
		}
	}
	r.copy(r.origin, r.client)
}

// copy moves all bytes from one side to the other, and then passes the end on.
func (r *relay) copy(to, from *side) {
	var err error
	if to.tcp != nil && from.tcp != nil && canSplice {
		err = r.splice(to, from)
	} else {
		err = r.pump(to, from)
	}
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		r.abort() // usually already done
	case err != nil:
		// Either side may have failed; both are told.
		to.reset()
		from.reset()
		r.abort()
	case r.o.CloseBoth:
		r.abort()
	default:
		// A side that cannot be half-closed is closed.
		if half, ok := to.Conn.(closeWriter); !ok || half.CloseWrite() != nil {
			r.abort()
		}
	}
}

// reset makes the following close send a TCP reset. After the other end has failed, the
// relayed bytes may be incomplete and must not look complete.
func (s *side) reset() {
	if tc, ok := s.innermost.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
}

var relayBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pump copies through a buffer. The connections count by themselves.
func (r *relay) pump(to, from *side) error {
	for {
		if end, err := r.pumpOnce(to, from); end || err != nil {
			return err
		}
	}
}

// pumpOnce is one step of pump. end means that the sender has ended its direction.
func (r *relay) pumpOnce(to, from *side) (end bool, err error) {
	buf := relayBuffers.Get().(*[32 << 10]byte)
	defer relayBuffers.Put(buf)
	n, err := from.Read(buf[:])
	if n > 0 {
		r.progress(int64(n), to)
		if _, reportsAcks := to.innermost.(*net.TCPConn); reportsAcks && canSplice {
			to.sliceBegan.Store(max(int64(time.Since(r.start)), 1))
		}
		wrote, err := to.Write(buf[:n])
		to.sliceBegan.Store(0)
		r.progress(int64(wrote), to)
		if err != nil {
			return false, err
		}
	}
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}
