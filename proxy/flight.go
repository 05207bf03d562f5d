package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/upstream"
)

// Bounds of what is shared.
const (
	// freshFor is how long after its head an answer can still be joined: one that
	// is older is no answer to what is asked now.
	freshFor = 5 * time.Second

	// mostPieces of a body are kept for those that are behind, a MiB; of one that
	// has a single reader and will have no other, alonePieces.
	mostPieces  = 64
	alonePieces = 4
)

var errBehind = errors.New("the client took nothing while others that share its answer waited for it")

// flight is one upstream request and those that share it. It is its own context,
// which is that of none of its members: it ends when the last of them has left, or
// the server.
type flight struct {
	context.Context
	cancel context.CancelFunc
	open   *sync.Map // :: flightKey → *flight
	key    flightKey
	stall  time.Duration

	// What its first request wished.
	until time.Time
	cost  int64

	mu      sync.Mutex
	news    chan struct{} // closed when something has happened; nil while nobody listens
	flying  bool          // on its way; otherwise it waits for its turn
	shut    bool          // nobody can join any more
	members []*member     // in the order of their coming
	known   bool          // what follows is there and stays

	no        *answer        // there is nothing else
	resp      *http.Response // only to be copied
	announced http.Header    // its trailers, without values
	only      *member        // the only one that may have it; nil: all
	first     time.Time
	sent      time.Time
	answered  time.Time
	waited    time.Duration
	before    time.Duration
	attempts  int

	body    pieces
	trailer http.Header   // once the body has ended
	freed   chan struct{} // tells the one who fills the body that there may be room
}

func newFlight(ctx context.Context, all *flights, key flightKey, x *exchange, m *member) *flight {
	f := &flight{open: &all.open, key: key, stall: x.state.policy.Timeouts.Stall, until: m.until, cost: x.wish.cost, freed: make(chan struct{}, 1)}
	ctx, f.cancel = context.WithCancel(ctx)
	f.Context = upstream.WithVia(ctx, upstream.ViaFrom(x.ctx.Context))
	m.flight, m.leads = f, true
	f.members = append(f.members, m)
	return f
}

// join adds a member, unless it is too late for that.
func (f *flight) join(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.age(m.came)
	if f.shut {
		return false
	}
	m.flight, m.leads, m.moved = f, false, m.came
	f.members = append(f.members, m)
	return true
}

// leave takes a member out. With the last one the flight ends.
func (f *flight) leave(m *member) {
	f.mu.Lock()
	f.drop(m, io.ErrClosedPipe)
	last := len(f.members) == 0
	f.mu.Unlock()
	if last {
		f.cancel()
	}
}

// drop takes a member out and tells it why. f is locked.
func (f *flight) drop(m *member, why error) {
	i := slices.Index(f.members, m)
	if i < 0 {
		return
	}
	m.lost = why
	f.members = slices.Delete(f.members, i, i+1)
	if len(f.members) == 0 {
		f.close()
	}
	f.free()
}

// close lets nobody join any more. f is locked.
func (f *flight) close() {
	if f.shut {
		return
	}
	f.shut = true
	f.open.CompareAndDelete(f.key, f)
	f.open.CompareAndDelete(f.key.forAll(), f)
}

// forAll is the key that every client finds.
func (k flightKey) forAll() flightKey {
	k.client = ""
	return k
}

// age closes a flight whose answer has been coming for a while. f is locked.
func (f *flight) age(now time.Time) {
	if f.known && now.Sub(f.answered) > freshFor {
		f.close()
	}
}

// fly tells whether the request is on its way or waits.
func (f *flight) fly(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flying = yes
	switch {
	case f.shut:
	case yes:
		f.open.LoadOrStore(f.key.forAll(), f)
	case f.key.client != "":
		f.open.CompareAndDelete(f.key.forAll(), f)
	}
	f.tell()
}

// tell wakes all who listen. f is locked.
func (f *flight) tell() {
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// listen is closed at the next news. f is locked.
func (f *flight) listen() <-chan struct{} {
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return f.news
}

func (f *flight) look() (known, flying bool, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		news = f.listen()
	}
	return f.known, f.flying, news
}

// tale keeps how it went, for the members. f is locked.
func (f *flight) tale(x *exchange) {
	t := &x.turn
	f.first, f.sent, f.answered = x.first, x.sent, x.answered
	f.waited, f.before, f.attempts = t.waited, t.before, t.sent
	f.known = true
	f.tell()
}

// fail ends the flight with an answer of ours. After an answer of the site has
// begun it breaks that off.
func (f *flight) fail(no *answer, x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
	if f.known {
		f.body.end(io.ErrUnexpectedEOF)
		f.tell()
		return
	}
	f.no = no
	f.tale(x)
}

// land hands the head of the answer round. It is false when there is no body.
func (f *flight) land(resp *http.Response, x *exchange) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resp = resp
	if len(resp.Trailer) > 0 {
		f.announced = maps.Clone(resp.Trailer)
	}
	bodiless := resp.Body == nil || resp.Body == http.NoBody
	if bodiless {
		f.close()
	}
	if len(f.members) > 0 && personal(resp.Header) {
		f.only = f.members[0]
		f.members = append([]*member(nil), f.only)
		f.close()
	}
	f.body.expect(resp.ContentLength)
	f.tale(x)
	return !bodiless
}

// pump fills the body until it ends or nobody is left who reads.
func (f *flight) pump(resp *http.Response) {
	for {
		place := f.room()
		if place == nil {
			return
		}
		n, err := resp.Body.Read(place)
		now := time.Now()
		f.mu.Lock()
		for _, m := range f.members {
			if m.at == f.body.to {
				m.moved = now // until now it had nothing to take
			}
		}
		f.body.grow(n)
		if err != nil {
			// The last byte has come: who asks now asks anew.
			f.close()
			if err == io.EOF {
				f.trailer = resp.Trailer
			}
			f.body.end(err)
		}
		f.tell()
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// room is where the next bytes go, once there is any; nil when the flight is over.
// While there is none the slowest member holds the others up: one that takes
// nothing at all within timeouts.stall is cut.
func (f *flight) room() []byte {
	for {
		now := time.Now()
		f.mu.Lock()
		f.age(now)
		place := f.body.place(f.most())
		if place == nil {
			f.close() // the beginning has to go
			f.trim()
			place = f.body.place(f.most())
		}
		patience := f.patience(now)
		f.mu.Unlock()
		if f.Err() != nil {
			return nil
		}
		if place != nil {
			return place
		}
		timer := time.NewTimer(patience)
		select {
		case <-f.freed:
		case <-timer.C:
			f.cut(time.Now())
		case <-f.Done():
		}
		timer.Stop()
	}
}

// most is how many pieces may be kept. f is locked.
func (f *flight) most() int {
	if f.shut && len(f.members) == 1 {
		return alonePieces
	}
	return mostPieces
}

// trim lets go what all have read. f is locked.
func (f *flight) trim() {
	if !f.shut || len(f.members) == 0 {
		return
	}
	least := f.members[0].at
	for _, m := range f.members[1:] {
		least = min(least, m.at)
	}
	f.body.trim(least)
}

// patience is how long to wait for the member that has stood still for longest.
// f is locked.
func (f *flight) patience(now time.Time) time.Duration {
	wait := f.stall
	for _, m := range f.members {
		if f.body.first(m.at) {
			wait = min(wait, m.moved.Add(f.stall).Sub(now))
		}
	}
	return max(wait, 0)
}

// cut leaves those behind that have not moved for too long.
func (f *flight) cut(now time.Time) {
	f.mu.Lock()
	for _, m := range slices.Clone(f.members) {
		if f.body.first(m.at) && now.Sub(m.moved) >= f.stall {
			f.drop(m, errBehind)
		}
	}
	nobody := len(f.members) == 0
	f.mu.Unlock()
	if nobody {
		f.cancel()
	}
}

// free tells that there may be room. f is locked.
func (f *flight) free() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// read gives a member what is next for it, or else the news to wait for.
func (f *flight) read(m *member, p []byte) (n int, news <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.lost != nil {
		return 0, nil, m.lost
	}
	n, err = f.body.read(m.at, p)
	switch {
	case n > 0:
		last := f.body.first(m.at)
		m.at += int64(n)
		m.moved = time.Now()
		if last && !f.body.first(m.at) {
			f.trim()
			f.free()
		}
	case err == nil:
		news = f.listen()
	}
	return n, news, err
}
