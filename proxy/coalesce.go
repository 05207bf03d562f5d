package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/queue"
)

// share is pursue where identical requests in flight share one answer: those that
// ask the same of the same site in the same words, header by header. So nothing
// crosses from one set of credentials to another, whichever of abide's own clients
// they come from; what abide knows its clients by never leaves it. An answer is
// shared while it comes and not kept.
func (s *Server) share(x *exchange, r *http.Request) (*http.Response, *answer) {
	if !shareable(x, r) {
		return s.pursue(x, r)
	}
	began := time.Now()
	until := began.Add(patience(x))
	sum := sumOf(x, r)
	// A flight can fail for what its first request wished. Who wishes for something
	// else tries another one, once.
	for range 2 {
		m := s.board(x, r, sum, until)
		if m == nil {
			break // the server stops
		}
		switch m.follow(x, r) {
		case landed:
			m.adopt(x)
			return m.response(r), nil
		case refused:
			m.adopt(x)
			return nil, m.flight.no
		case left:
			return nil, answerLeft
		case alone:
			return s.byItself(x, r, began, until)
		}
		x.wish.limit(remaining(until))
	}
	return s.byItself(x, r, began, until)
}

// byItself is for a request that nothing came of sharing for. It has what is left
// of its patience.
func (s *Server) byItself(x *exchange, r *http.Request, began, until time.Time) (*http.Response, *answer) {
	x.wish.limit(remaining(until))
	x.uploading += time.Since(began) // no work of ours, and no wait of its own
	return s.pursue(x, r)
}

// remaining is how long a request may still wait. Without any time left it goes at
// once or is told what keeps it.
func remaining(until time.Time) time.Duration { return max(time.Until(until), 1) }

// shareable tells whether a request may share its answer. A part of something does
// not: whether it fits together with another is for its client to see. A request that
// goes now or not at all waits for no other.
func shareable(x *exchange, r *http.Request) bool {
	if x.rule == nil || !x.rule.Coalesce || x.wish.now() || x.state.policy.Observes() || x.upload != nil || r.Body != nil && r.Body != http.NoBody {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for _, name := range [...]string{"Upgrade", "Range", "If-Range"} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	return true
}

// personal tells whether an answer is meant for who asked and nobody else. What
// Cache-Control says is about keeping an answer, which nobody does here.
func personal(h http.Header) bool {
	return len(h["Set-Cookie"]) > 0 || listed(h["Vary"], "*")
}

// sum stands for all that makes two requests the same.
type sum [sha256.Size]byte

func sumOf(x *exchange, r *http.Request) (is sum) {
	hash := sha256.New()
	text := make([]byte, 0, 1024)
	add := func(s string) {
		text = binary.AppendUvarint(text, uint64(len(s)))
		text = append(text, s...)
	}
	add(x.site)
	add(x.target.Scheme)
	add(x.target.HostPort())
	add(r.Method)
	add(r.URL.EscapedPath())
	add(r.URL.RawQuery)
	text = append(text, flag(r.URL.ForceQuery), flag(x.wish.once))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		add(name)
		values := r.Header[name]
		text = binary.AppendUvarint(text, uint64(len(values)))
		for _, value := range values {
			add(value)
		}
	}
	hash.Write(text)
	hash.Sum(is[:0])
	return is
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// flights are the requests that may be shared now. The zero value is ready.
type flights struct {
	errands
	open sync.Map // :: flightKey → *flight
}

// flightKey finds a flight. One that waits for its turn is open to the client
// whose turn that is and to nobody else: the place of one that has used up what is
// its own would hold another client up. On its way it is open to all, and has a
// second key without a client.
type flightKey struct {
	state  *state // a reload may have forbidden what is in flight
	sum    sum
	client string
}

// board is a place in the flight of a request: one that is on its way or waits, or
// else a new one. It is nil when the server stops.
func (s *Server) board(x *exchange, r *http.Request, is sum, until time.Time) *member {
	m := &member{came: time.Now(), until: until}
	key := flightKey{x.state, is, x.clientName()}
	if s.flights.join(flightKey{state: x.state, sum: is}, m) || s.flights.join(key, m) {
		return m
	}
	ctx, ok := s.flights.begin()
	if !ok {
		return nil
	}
	f := newFlight(ctx, &s.flights, key, x, m)
	for {
		at, taken := s.flights.open.LoadOrStore(key, f)
		if !taken || !at.(*flight).join(m) && s.flights.open.CompareAndSwap(key, at, f) {
			break
		}
		if m.flight != f {
			f.cancel()
			s.flights.done()
			return m
		}
	}
	own := x.forFlight(f)
	go s.fly(f, own, r.Clone(&own.ctx))
	return m
}

func (s *flights) join(key flightKey, m *member) bool {
	at, ok := s.open.Load(key)
	return ok && at.(*flight).join(m)
}

// forFlight is the exchange of a flight that x began. It belongs to no connection,
// so that no client's end is its own.
func (x *exchange) forFlight(f *flight) *exchange {
	own := &exchange{state: x.state, target: x.target, client: x.client, wish: x.wish, start: x.start, site: x.site, rule: x.rule, meter: x.meter}
	if own.client == nil {
		own.client = &client{name: x.clientName(), priority: queue.DefaultPriority}
	}
	own.ctx = pathContext{Context: f, x: own}
	return own
}

// flying tells those who share a request whether it is on its way or waits.
func (x *exchange) flying(yes bool) {
	if f, shared := x.ctx.Context.(*flight); shared {
		f.fly(yes)
	}
}

// fly has the request of a flight sent and its answer handed round.
func (s *Server) fly(f *flight, x *exchange, r *http.Request) {
	defer s.flights.done()
	defer f.cancel()
	defer s.end(x)
	defer s.rescueErrand(x.target, func() { f.fail(&answerBug, x) })
	resp, no := s.pursue(x, r)
	if no != nil {
		f.fail(no, x)
		return
	}
	defer resp.Body.Close()
	x.homeward(resp.Header)
	if f.land(resp, x) {
		f.pump(resp)
	}
}

// fate is what became of a request that shared a flight.
type fate uint8

const (
	landed  fate = iota // there is an answer
	refused             // there is one of ours
	left                // its client is gone
	alone               // it has to go by itself
	another             // it may share another flight
)

// member is one of the requests that share a flight, and the body that its client
// reads.
type member struct {
	flight *flight
	leads  bool // the flight was begun for it
	came   time.Time
	until  time.Time // how long it may wait

	// Guarded by the flight.
	at    int64     // how much of the body it has read
	moved time.Time // when it last read, or had something to read again
	lost  error     // it does not take part any more

	gone <-chan struct{} // closed when the client has left
	resp *http.Response  // for the trailers
}

// follow waits until the answer begins to come.
func (m *member) follow(x *exchange, r *http.Request) fate {
	f := m.flight
	m.gone = r.Context().Done()
	watched := x.watched()
	// Most are not held at all: a client is only taken for one that waits after it
	// has had the time to end its side of the connection.
	timer := time.NewTimer(halfCloseGrace)
	defer timer.Stop()
	for patient := false; ; {
		known, flying, news := f.look()
		if known {
			if watched {
				x.conn.withUpstream(true)
			}
			return m.fate(x)
		}
		if watched && (flying || patient) {
			x.conn.withUpstream(flying)
		}
		if !m.leads && !flying && !time.Now().Before(m.until) {
			f.leave(m)
			return alone // to be told what keeps it
		}
		select {
		case <-news:
		case <-timer.C:
			patient = true
			if !m.leads {
				timer.Reset(max(time.Until(m.until), 0))
			}
		case <-m.gone:
			f.leave(m)
			return left
		}
	}
}

// fate is asked once the flight's is known.
func (m *member) fate(x *exchange) fate {
	f := m.flight
	switch {
	case f.no != nil && !m.leads && (f.no.reason == answerTooLong.reason && m.until.After(f.until) || f.no.reason == answerNever.reason && x.wish.cost < f.cost):
		return another
	case f.no != nil:
		return refused
	case f.only != nil && f.only != m:
		return alone
	}
	return landed
}

// adopt makes the flight's story the member's, as far as it was there.
func (m *member) adopt(x *exchange) {
	f := m.flight
	x.first = f.first
	x.turn.waited, x.turn.sent = f.waited, f.attempts
	if m.leads {
		x.sent, x.answered, x.turn.before = f.sent, f.answered, f.before
		return
	}
	x.turn.joined = true
	x.turn.waited = min(f.waited, max(f.sent.Sub(m.came), 0))
}

// response is the answer as the member's own.
func (m *member) response(r *http.Request) *http.Response {
	resp := *m.flight.resp
	resp.Header = resp.Header.Clone()
	resp.Trailer = m.flight.announced.Clone()
	resp.Request = r
	if resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = m
	}
	m.resp = &resp
	return &resp
}

func (m *member) Read(p []byte) (int, error) {
	for {
		n, news, err := m.flight.read(m, p)
		if n > 0 || err != nil {
			if err == io.EOF {
				m.resp.Trailer = m.flight.trailer.Clone()
			}
			return n, err
		}
		select {
		case <-news:
		case <-m.gone:
			return 0, http.ErrAbortHandler
		}
	}
}

func (m *member) Close() error {
	m.flight.leave(m)
	return nil
}
